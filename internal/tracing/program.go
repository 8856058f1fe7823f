package tracing

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
)

// Program writes the traces of runs to the tracer provider of a program. It implements
// engine.Tracing. Its methods may be called concurrently.
type Program struct{ provider trace.TracerProvider }

// NewProgram returns a Program for a provider.
func NewProgram(provider trace.TracerProvider) Program { return Program{provider} }

// Traces returns true: the sampler of the provider decides.
func (p Program) Traces(uuid.UUID) bool { return true }

// Root starts a span in the run's trace. A provider draws the id of a new trace, so the span gets a
// parent that is not recorded, in the trace with the id of the run. The parent is sampled, because
// the usual sampler asks only the parent.
func (p Program) Root(run uuid.UUID, name string, start time.Time) (context.Context, trace.Span) {
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(run),
		SpanID: trace.SpanID(run[8:]), TraceFlags: trace.FlagsSampled, Remote: true})
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), parent)
	return p.provider.Tracer(Scope).Start(ctx, name, trace.WithTimestamp(start))
}
