package otlp

import (
	"context"
	"sync/atomic"

	"github.com/rs/zerolog"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/holdfast-dev/holdfast/internal/breaker"
)

// sender wraps the SDK's queue on both sides. In front of it, sender counts dropped
// spans. Behind it, sender logs failures in the replica's log, and limits repeats.
type sender struct {
	log     zerolog.Logger
	breaker breaker.Breaker
	over    context.Context // ends when nothing more is sent
	end     context.CancelFunc

	// Spans in the queue or being sent; at most the capacity of the queue.
	waiting               atomic.Int64
	sent, failed, dropped atomic.Int64
}

// entrance is the processor in front of the SDK's.
type entrance struct {
	sdk.SpanProcessor
	*sender
}

// OnEnd implements sdk.SpanProcessor. It never waits.
func (e entrance) OnEnd(s sdk.ReadOnlySpan) {
	if e.waiting.Add(1) > queue || e.over.Err() != nil {
		e.waiting.Add(-1)
		e.dropped.Add(1)
		return
	}
	e.SpanProcessor.OnEnd(s)
}

// exit is the exporter behind the SDK's processor.
type exit struct {
	sdk.SpanExporter
	*sender
}

// ExportSpans implements sdk.SpanExporter. What could not be sent is gone.
func (e exit) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.over, cancel)()
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.waiting.Add(-int64(len(spans)))
	if err != nil {
		e.failed.Add(int64(len(spans)))
		e.breaker.Fail(e.log, err, false, "spans could not be sent, and are dropped")
		return nil // Fail has logged the error
	}
	e.sent.Add(int64(len(spans)))
	return nil
}
