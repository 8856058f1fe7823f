// Package tracing sends spans of runs to a collector, by OTLP over HTTP.
//
// A run's trace has the run's own id: nothing has to be stored for the page to
// show it, and replicas that have a run one after another, or find it dead,
// write to one trace. Whether a run is traced is decided by its id too, so that
// all replicas of one configuration decide alike.
//
// Spans wait in a queue of bounded length, and nobody waits for them: what has
// no room, and what the collector does not take in time, is dropped and counted.
package tracing

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	queue       = 2048 // spans that wait, or are being sent
	batch       = 512
	sendEvery   = 5 * time.Second
	sendTimeout = 10 * time.Second // of one batch, with all its tries
	maxText     = 8 << 10          // bytes of an attribute
)

// Options say where spans are sent, and which.
type Options struct {
	Endpoint string // the collector's URL, with its path: http://127.0.0.1:4318/v1/traces
	Headers  map[string]string
	Ratio    float64 // of the runs that are traced: 0 to 1
	Service  string  // what the program is called
	Version  string  // of the binary
	Replica  string
	Cluster  uuid.UUID
	Log      zerolog.Logger
}

// Tracing traces the runs of a replica. It implements jobs.Tracing. Its methods
// may be called concurrently.
type Tracing struct {
	least    uint64 // that the random part of a traced run's id has
	provider *sdk.TracerProvider
	sender   *sender
}

// New returns a Tracing that sends to a collector, which it does not ask yet.
func New(ctx context.Context, o Options) (*Tracing, error) {
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(o.Endpoint), otlptracehttp.WithHeaders(o.Headers),
		otlptracehttp.WithTimeout(sendTimeout/2),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true,
			InitialInterval: time.Second, MaxInterval: sendTimeout / 2,
			MaxElapsedTime: sendTimeout}))
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	return newTracing(o, exporter), nil
}

func newTracing(o Options, exporter sdk.SpanExporter) *Tracing {
	s := &sender{log: o.Log}
	s.over, s.end = context.WithCancel(context.Background())
	processor := sdk.NewBatchSpanProcessor(exit{exporter, s}, sdk.WithMaxQueueSize(queue),
		sdk.WithMaxExportBatchSize(batch),
		sdk.WithBatchTimeout(sendEvery), sdk.WithExportTimeout(sendTimeout))
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxText
	return &Tracing{
		least: least(o.Ratio), sender: s,
		provider: sdk.NewTracerProvider(
			// who is not traced has no spans
			sdk.WithSpanProcessor(entrance{processor, s}), sdk.WithIDGenerator(ids{}),
			sdk.WithSampler(sdk.AlwaysSample()),
			sdk.WithRawSpanLimits(limits), sdk.WithResource(resource.NewSchemaless(
				attribute.String("service.name", o.Service),
				attribute.String("service.version", o.Version),
				attribute.String("service.instance.id", o.Replica),
				attribute.String("holdfast.cluster.id", o.Cluster.String())))),
	}
}

// random is the part of an id that is random in UUIDs of every version that
// runs have, and in W3C's trace ids: its last 56 bits.
const random = 1 << 56

// least returns from which random part on a run is traced, so that a share of
// ratio is, and whoever is at a smaller share is at each larger one.
func least(ratio float64) uint64 { return uint64((1 - ratio) * random) }

// Traces reports whether the run is traced.
func (t *Tracing) Traces(run uuid.UUID) bool {
	return binary.BigEndian.Uint64(run[8:])%random >= t.least
}

// Root starts a span without a parent in the run's trace.
func (t *Tracing) Root(run uuid.UUID, name string, begun time.Time) (context.Context, trace.Span) {
	ctx := context.WithValue(context.Background(), runKey{}, run)
	return t.provider.Tracer("github.com/holdfast-dev/holdfast").
		Start(ctx, name, trace.WithTimestamp(begun), trace.WithNewRoot())
}

// Shutdown sends what waits, until ctx ends. What is traced later is dropped.
func (t *Tracing) Shutdown(ctx context.Context) error {
	defer t.sender.end()
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("last spans: %w", err)
	}
	return nil
}

// Spans returns how many spans were sent, could not be sent, and had no room.
func (t *Tracing) Spans() (sent, failed, dropped int64) {
	return t.sender.sent.Load(), t.sender.failed.Load(), t.sender.dropped.Load()
}

// runKey is the key under which Root hands the run to ids.
type runKey struct{}

// ids draws ids, but that of a run's trace, which is the run's.
type ids struct{}

// NewIDs implements sdk.IDGenerator.
func (g ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	run, _ := ctx.Value(runKey{}).(uuid.UUID)
	return trace.TraceID(run), g.NewSpanID(ctx, trace.TraceID(run))
}

// NewSpanID implements sdk.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
