package otlp

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-dev/holdfast/internal/tracing"
)

type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                        { return nil }

// BenchmarkRun measures the time that the spans of one traced run cost the caller that ends them.
func BenchmarkRun(b *testing.B) {
	traced := newExported(tracing.Options{Ratio: 1, Service: "s", Log: zerolog.Nop()}, nowhere{})
	run := uuid.New()
	b.ReportAllocs()
	for b.Loop() {
		ctx, root := traced.Root(run, "run sales", time.Now())
		tracer := root.TracerProvider().Tracer("bench")
		for _, name := range []string{"queue", "gate", "attempt 1", "lock", "start", "handler",
			"finish"} {
			_, span := tracer.Start(ctx, name, trace.WithTimestamp(time.Now()),
				trace.WithAttributes(attribute.String("holdfast.state", "succeeded")))
			span.End()
		}
		root.End()
	}
	if err := traced.Shutdown(b.Context()); err != nil {
		b.Fatal(err)
	}
}
