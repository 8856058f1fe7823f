// Package tracing has what package app needs to trace runs, without a library that sends spans.
// Package otlp has that library. A program can have a tracer provider of its own instead: see
// [Program].
package tracing

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the instrumentation scope of the tracers.
const Scope = "github.com/holdfast-dev/holdfast"

// Options name a collector and select the runs.
type Options struct {
	Endpoint string // the collector's URL, with its path: http://127.0.0.1:4318/v1/traces
	Headers  map[string]string
	Ratio    float64 // share of the runs that are traced: 0 to 1
	Service  string  // name of the program
	Version  string  // of the binary
	Replica  string
	Cluster  uuid.UUID
	Log      zerolog.Logger
}

// Exported traces the runs of a replica and sends their spans to a collector. It implements
// engine.Tracing. Its methods may be called concurrently.
type Exported interface {
	Traces(run uuid.UUID) bool
	Root(run uuid.UUID, name string, start time.Time) (context.Context, trace.Span)
	// Spans returns how many spans were sent, failed, and had no room.
	Spans() (sent, failed, dropped int64)
	// Shutdown sends the queued spans, until ctx ends. Later spans are dropped.
	Shutdown(ctx context.Context) error
}

// Exporter returns an Exported for a collector. It does not connect yet.
type Exporter func(ctx context.Context, o Options) (Exported, error)
