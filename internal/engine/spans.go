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
	// Root starts a span without a parent in the run's trace. begun is a time of this machine's
	// clock.
	Root(run uuid.UUID, name string, begun time.Time) (context.Context, trace.Span)
}

// tracerName is the instrumentation scope of all spans.
const tracerName = "github.com/holdfast-dev/holdfast/jobs"

// maxTries is the most spans for refused tries of one attempt. An attempt that tries for hours must
// not flood the exporter.
const maxTries = 60

// runSpans holds the spans of one firing on this replica: the span of the firing, within it the
// gate and the attempts, and within each attempt its steps. It belongs to one goroutine. A nil
// runSpans belongs to a run that is not traced.
type runSpans struct {
	firing *firing
	begun  time.Time

	// Steps before the start are buffered until this replica has the firing. Each replica tries for
	// it, and all but one write no spans.
	steps   []step
	tries   int        // refused tries
	root    trace.Span // nil until this replica has the firing
	within  context.Context
	attempt trace.Span // nil between attempts
	inside  context.Context
	since   time.Time  // when the attempt began
	state   jobs.State // how the last attempt ended
	reason  jobs.Reason
}

// step is a span that has ended.
type step struct {
	name       string
	begun, end time.Time
	marks      []attribute.KeyValue
	err        error
}

// startSpans starts the spans of the firing, if it is traced, and adds the trace id to its log.
func (f *firing) startSpans() {
	if f.tracing == nil || !f.tracing.Traces(f.run) {
		return
	}
	now := time.Now()
	// f.since is in cluster time
	f.runSpans = &runSpans{firing: f, begun: now.Add(-max(0, f.clock.now().Sub(f.since))),
		since: now}
	f.runSpans.step("queue", f.runSpans.begun, nil)
	f.log = f.log.With().Str("trace_id", TraceID(f.run)).Logger()
}

// marks returns the attributes of a firing.
func (f *firing) marks() []attribute.KeyValue {
	marks := []attribute.KeyValue{
		attribute.String("holdfast.job", f.entry.Name),
		attribute.String("holdfast.run.id", f.run.String()),
		attribute.String("holdfast.scheduled_at", f.firing.ScheduledAt.Format(time.RFC3339Nano)),
		attribute.Bool("holdfast.adopted", f.adopted != uuid.Nil),
		attribute.StringSlice("holdfast.resources", resourceNames(f.entry.requests)),
	}
	if f.firing.Key != "" {
		marks = append(marks, attribute.String("holdfast.key", f.firing.Key))
	}
	if f.firing.Recovery > 0 {
		marks = append(marks, attribute.Int("holdfast.recovery", f.firing.Recovery))
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

// now returns the time if the run is traced.
func (t *runSpans) now() (now time.Time) {
	if t != nil {
		now = time.Now()
	}
	return now
}

// step adds a step that lasted from begun until now.
func (t *runSpans) step(name string, begun time.Time, err error, marks ...attribute.KeyValue) {
	if t == nil {
		return
	}
	t.steps = append(t.steps, step{name, begun, time.Now(), marks, err})
}

// locked adds a try for the advisory locks.
func (t *runSpans) locked(begun time.Time, found *refusal) {
	if t.tells(found) {
		t.step("lock", begun, nil, obstacleMarks(found)...)
	}
}

// asked adds a start request that the store has answered.
func (t *runSpans) asked(begun time.Time, token jobs.Token, found *refusal) {
	if !t.tells(found) {
		return
	}
	marks := obstacleMarks(found)
	if token != 0 {
		marks = append(marks, attribute.Int64("holdfast.token", int64(token)))
	}
	t.step("start", begun, nil, marks...)
}

// waited adds a wait for a blocker.
func (t *runSpans) waited(begun time.Time, found *refusal) {
	if t.tells(found) {
		t.step("wait", begun, nil, obstacleMarks(found)...)
	}
}

// tells reports whether a try with this result gets a span.
func (t *runSpans) tells(found *refusal) bool {
	if t == nil {
		return false
	}
	if found != nil {
		t.tries++
	}
	return found == nil || t.tries <= maxTries
}

// finished adds the recording of the end of an attempt.
func (t *runSpans) finished(begun time.Time, recorded bool) {
	if t != nil {
		t.step("finish", begun, nil, attribute.Bool("holdfast.recorded", recorded))
	}
}

func obstacleMarks(b *refusal) []attribute.KeyValue {
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

// ours starts the spans of the firing and the attempt, and writes the buffered steps. It is called
// when this replica has the firing.
func (t *runSpans) ours() {
	if t == nil {
		return
	}
	f := t.firing
	if t.root == nil {
		t.within, t.root = f.tracing.Root(f.run, "run "+f.entry.Name, t.begun)
		t.root.SetAttributes(f.marks()...)
	}
	if t.attempt == nil {
		t.inside, t.attempt = tracerOf(t.root).
			Start(t.within, fmt.Sprintf("attempt %d", f.attempt), trace.WithTimestamp(t.since),
				trace.WithAttributes(attribute.Int("holdfast.attempt", f.attempt)))
	}
	for _, s := range t.steps {
		within := t.inside
		if s.name == "queue" || s.name == "claim" {
			within = t.within
		}
		_, span := tracerOf(t.root).
			Start(within, s.name, trace.WithTimestamp(s.begun), trace.WithAttributes(s.marks...))
		if s.err != nil {
			span.SetStatus(codes.Error, noteError(span, s.err))
		}
		span.End(trace.WithTimestamp(s.end))
	}
	t.steps = nil
}

func tracerOf(s trace.Span) trace.Tracer { return s.TracerProvider().Tracer(tracerName) }

// handler starts the handler's span. It returns the context for the handler, and a function that
// ends the span.
func (t *runSpans) handler(ctx context.Context,
	token jobs.Token) (context.Context, func(v verdict)) {
	if t == nil {
		return ctx, func(verdict) {}
	}
	t.ours()
	_, span := tracerOf(t.root).
		Start(t.inside, "handler", trace.WithAttributes(
			attribute.Int64("holdfast.token", int64(token))))
	return trace.ContextWithSpan(ctx, span), func(v verdict) {
		conclude(span, v.state, v.reason, v.err)
		span.End()
	}
}

// ended ends the attempt's span.
func (t *runSpans) ended(state jobs.State, reason jobs.Reason, err error) {
	if t == nil {
		return
	}
	t.ours()
	t.state, t.reason = state, reason
	if t.tries > maxTries {
		t.attempt.SetAttributes(attribute.Int("holdfast.spans_left_out", t.tries-maxTries))
	}
	conclude(t.attempt, state, reason, err)
	t.attempt.End()
	t.attempt, t.inside, t.tries = nil, nil, 0
}

// next prepares for another attempt.
func (t *runSpans) next() {
	if t != nil {
		t.since, t.state, t.reason = time.Now(), jobs.Waiting, jobs.ReasonRetry
	}
}

// finish ends the firing's span. It writes nothing if another replica has the firing.
func (t *runSpans) finish() {
	if t == nil || t.root == nil {
		return
	}
	conclude(t.root, t.state, t.reason, nil)
	t.root.End()
}

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
func (u *upkeep) markLost(lost storage.LostRun) {
	if u.tracing == nil || !u.tracing.Traces(lost.ID) {
		return
	}
	_, span := u.tracing.Root(lost.ID, "lost "+lost.Job, time.Now())
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
