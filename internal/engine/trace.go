package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Tracing creates spans. The trace of a run has the run's own id, so that all replicas that execute
// the run write to the same trace. It may be used concurrently, and must not wait for the exporter.
type Tracing interface {
	// Traces reports whether the run is traced.
	Traces(run uuid.UUID) bool
	// Root starts a span without a parent in the run's trace. start is a time of this machine's
	// clock.
	Root(run uuid.UUID, name string, start time.Time) (context.Context, trace.Span)
}

// tracerName is the instrumentation scope of all spans.
const tracerName = "github.com/holdfast-dev/holdfast/jobs"

// marks returns the attributes of a firing.
func (f *firing) marks() []attribute.KeyValue {
	marks := []attribute.KeyValue{
		attribute.String("holdfast.job", f.entry.Name),
		attribute.String("holdfast.run.id", f.run.String()),
		attribute.String("holdfast.scheduled_at", f.ScheduledAt.Format(time.RFC3339Nano)),
		attribute.Bool("holdfast.adopted", f.adopted != uuid.Nil),
		attribute.StringSlice("holdfast.resources", resourceNames(f.entry.requests)),
	}
	if f.Key != "" {
		marks = append(marks, attribute.String("holdfast.key", f.Key))
	}
	if f.Recovery > 0 {
		marks = append(marks, attribute.Int("holdfast.recovery", f.Recovery))
	}
	return marks
}

// TraceID returns the id of a run's trace.
func TraceID(run uuid.UUID) string { return trace.TraceID(run).String() }

func resourceNames(requests []locking.Request) []string {
	names := make([]string, 0, len(requests))
	for _, r := range requests {
		names = append(names, r.Resource.String())
	}
	return names
}

func blockerAttributes(b *refusal) []attribute.KeyValue {
	if b == nil {
		return nil
	}
	marks := []attribute.KeyValue{attribute.String("holdfast.reason", string(b.reason))}
	if b.blocker != nil {
		marks = append(marks, attribute.String("holdfast.blocker.resource", b.blocker.Resource),
			attribute.String("holdfast.blocker.job", b.blocker.Holder.Job),
			attribute.String("holdfast.blocker.replica", b.blocker.Holder.Replica),
			attribute.String("holdfast.blocker.run.id", b.blocker.Holder.Run))
	}
	return marks
}

func tracerOf(s trace.Span) trace.Tracer { return s.TracerProvider().Tracer(tracerName) }

// conclude sets the attributes and the status of a span from the end of what it covers.
func conclude(span trace.Span, state jobs.State, reason jobs.Reason, err error) {
	span.SetAttributes(attribute.String("holdfast.state", string(state)))
	if reason != "" {
		span.SetAttributes(attribute.String("holdfast.reason", string(reason)))
	}
	words := string(cmp.Or(reason, jobs.Reason(state)))
	if err != nil {
		words = noteError(span, err)
	}
	switch state {
	case jobs.Failed, jobs.TimedOut, jobs.Lost:
		span.SetAttributes(attribute.String("error.type",
			string(cmp.Or(reason, jobs.Reason(state)))))
		span.SetStatus(codes.Error, words)
	}
}

// noteError adds an error to a span as an OpenTelemetry exception, and returns its text as valid
// UTF-8. Exporters drop a whole batch for text that is not.
func noteError(span trace.Span, err error) (words string) {
	words = output.PlainText(output.Cut(err.Error(), maxErrorText))
	marks := []attribute.KeyValue{attribute.String("exception.type", fmt.Sprintf("%T", err)),
		attribute.String("exception.message", words)}
	var panicked *jobs.PanicError
	if errors.As(err, &panicked) {
		marks = append(marks, attribute.String("exception.stacktrace",
			output.PlainText(string(panicked.Stack))))
	}
	span.AddEvent("exception", trace.WithAttributes(marks...))
	return words
}

// markLost adds a span to the trace of a lost run. The spans of its own replica were lost with that
// replica.
func markLost(tracing Tracing, lost storage.LostRun) {
	if tracing == nil || !tracing.Traces(lost.ID) {
		return
	}
	_, span := tracing.Root(lost.ID, "lost "+lost.Job, time.Now())
	span.SetAttributes(
		attribute.String("holdfast.job", lost.Job),
		attribute.String("holdfast.run.id", lost.ID.String()),
		attribute.Int("holdfast.attempt", lost.Attempt),
		attribute.Int64("holdfast.token", int64(lost.Token)),
		attribute.String("holdfast.dead_replica", lost.Replica),
		attribute.StringSlice("holdfast.resources", resourceNames(lost.Held)))
	conclude(span, jobs.Lost, lost.Reason, nil)
	span.End()
}
