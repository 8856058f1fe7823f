// Package otlp sends the spans of runs to a collector, by OTLP over HTTP. It is for programs whose
// configuration has the section tracing:
//
//	holdfast.New(holdfast.WithConfigFile("holdfast.yaml"), holdfast.WithTracing(otlp.Exporter))
//
// A program with a tracer provider of its own uses holdfast.WithTracerProvider instead.
//
// The id of a run's trace is the run's id. So the page can show it without storing
// it, and all replicas that execute or recover a run write to one trace. The id also
// decides whether a run is traced, so that all replicas with one configuration
// decide the same.
//
// Spans wait in a bounded queue, and no caller waits for them. Spans without room,
// and spans that the collector does not accept in time, are dropped and counted.
package otlp

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-dev/holdfast/internal/tracing"
)

const (
	queue       = 2048 // spans waiting or being sent
	batch       = 512
	sendEvery   = 5 * time.Second
	sendTimeout = 10 * time.Second // for one batch with all its tries
	maxText     = 8 << 10          // bytes of an attribute
)

// exported traces the runs of a replica.
type exported struct {
	least    uint64 // that the random part of a traced run's id has
	provider *sdk.TracerProvider
	sender   *sender
}

// Exporter is for holdfast.WithTracing. The replica calls it with the section tracing of its
// configuration. Exporter does not connect yet.
func Exporter(ctx context.Context, o tracing.Options) (tracing.Exported, error) {
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(o.Endpoint), otlptracehttp.WithHeaders(o.Headers),
		otlptracehttp.WithTimeout(sendTimeout/2),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true,
			InitialInterval: time.Second, MaxInterval: sendTimeout / 2,
			MaxElapsedTime: sendTimeout}))
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	return newExported(o, exporter), nil
}

func newExported(o tracing.Options, exporter sdk.SpanExporter) *exported {
	s := &sender{log: o.Log}
	s.over, s.end = context.WithCancel(context.Background())
	processor := sdk.NewBatchSpanProcessor(exit{exporter, s}, sdk.WithMaxQueueSize(queue),
		sdk.WithMaxExportBatchSize(batch),
		sdk.WithBatchTimeout(sendEvery), sdk.WithExportTimeout(sendTimeout))
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxText
	return &exported{
		least: least(o.Ratio), sender: s,
		provider: sdk.NewTracerProvider(
			// A run that is not traced has no spans.
			sdk.WithSpanProcessor(entrance{processor, s}), sdk.WithIDGenerator(ids{}),
			sdk.WithSampler(sdk.AlwaysSample()),
			sdk.WithRawSpanLimits(limits), sdk.WithResource(resource.NewSchemaless(
				attribute.String("service.name", o.Service),
				attribute.String("service.version", o.Version),
				attribute.String("service.instance.id", o.Replica),
				attribute.String("holdfast.cluster.id", o.Cluster.String())))),
	}
}

// random returns the random part of an id: its last 56 bits. They are random in all
// UUID versions of runs and in W3C trace ids.
const random = 1 << 56

// least returns the smallest random part of a traced run for a ratio. A run that is
// traced at a ratio is also traced at every larger one.
func least(ratio float64) uint64 { return uint64((1 - ratio) * random) }

// Traces reports whether the run is traced.
func (t *exported) Traces(run uuid.UUID) bool {
	return binary.BigEndian.Uint64(run[8:])%random >= t.least
}

// Root starts a span without a parent in the run's trace.
func (t *exported) Root(run uuid.UUID, name string, start time.Time) (context.Context, trace.Span) {
	ctx := context.WithValue(context.Background(), runKey{}, run)
	return t.provider.Tracer(tracing.Scope).
		Start(ctx, name, trace.WithTimestamp(start), trace.WithNewRoot())
}

// Shutdown implements tracing.Exported.
func (t *exported) Shutdown(ctx context.Context) error {
	defer t.sender.end()
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("last spans: %w", err)
	}
	return nil
}

// Spans implements tracing.Exported.
func (t *exported) Spans() (sent, failed, dropped int64) {
	return t.sender.sent.Load(), t.sender.failed.Load(), t.sender.dropped.Load()
}

// runKey is the context key under which Root passes the run to ids.
type runKey struct{}

// ids draws ids. The id of a run's trace is the run's.
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
