package engine

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
)

// maxTries is the most spans for refused tries of one attempt. An attempt that tries for hours must
// not flood the exporter.
const maxTries = 60

// runSpans holds the spans of one firing on this replica: the span of the firing, within it the
// gate and the attempts, and within each attempt its steps. It belongs to one goroutine. A nil
// runSpans belongs to a run that is not traced.
type runSpans struct {
	tracing   Tracing
	firing    *firing
	startedAt time.Time

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
	name           string
	startedAt, end time.Time
	marks          []attribute.KeyValue
	err            error
}

// startSpans starts the spans of the firing, if it is traced.
func startSpans(tracing Tracing, f *firing, clock *clusterClock) {
	if tracing == nil || !tracing.Traces(f.run) {
		return
	}
	now := time.Now()
	// f.since is in cluster time
	f.spans = &runSpans{tracing: tracing, firing: f,
		startedAt: now.Add(-max(0, clock.now().Sub(f.since))), since: now}
	f.spans.step("queue", f.spans.startedAt, nil)
}

// now returns the time if the run is traced.
func (t *runSpans) now() (now time.Time) {
	if t != nil {
		now = time.Now()
	}
	return now
}

// step adds a step that lasted from start until now.
func (t *runSpans) step(name string, start time.Time, err error, marks ...attribute.KeyValue) {
	if t == nil {
		return
	}
	t.steps = append(t.steps, step{name, start, time.Now(), marks, err})
}

// locked adds a try for the advisory locks.
func (t *runSpans) locked(start time.Time, found *refusal) {
	if t.tells(found) {
		t.step("lock", start, nil, blockerAttributes(found)...)
	}
}

// asked adds a start request that the store has answered. If the store refused it, the try for the
// advisory locks before it belongs to the refused tries too.
func (t *runSpans) asked(start time.Time, token jobs.Token, found *refusal) {
	locked := t != nil && len(t.steps) > 0 && t.steps[len(t.steps)-1].name == "lock"
	if locked && found != nil {
		t.tries++
	}
	if !t.tells(found) {
		if locked {
			t.steps = t.steps[:len(t.steps)-1]
		}
		return
	}
	marks := blockerAttributes(found)
	if token != 0 {
		marks = append(marks, attribute.Int64("holdfast.token", int64(token)))
	}
	t.step("start", start, nil, marks...)
}

// waited adds a wait for a blocker.
func (t *runSpans) waited(start time.Time, found *refusal) {
	if t.tells(found) {
		t.step("wait", start, nil, blockerAttributes(found)...)
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
func (t *runSpans) finished(start time.Time, recorded bool) {
	if t != nil {
		t.step("finish", start, nil, attribute.Bool("holdfast.recorded", recorded))
	}
}

// ours starts the spans of the firing and the attempt, and writes the buffered steps. It is called
// when this replica has the firing.
func (t *runSpans) ours() {
	if t == nil {
		return
	}
	f := t.firing
	if t.root == nil {
		t.within, t.root = t.tracing.Root(f.run, "run "+f.entry.Name, t.startedAt)
		t.root.SetAttributes(f.marks()...)
	}
	if t.attempt == nil {
		t.inside, t.attempt = tracerOf(t.root).
			Start(t.within, fmt.Sprintf("attempt %d", f.attempt), trace.WithTimestamp(t.since),
				trace.WithAttributes(attribute.Int("holdfast.attempt", f.attempt)))
	}
	for _, s := range t.steps {
		within := t.inside
		if s.name == "queue" || s.name == "gate" {
			within = t.within
		}
		_, span := tracerOf(t.root).
			Start(within, s.name, trace.WithTimestamp(s.startedAt),
				trace.WithAttributes(s.marks...))
		if s.err != nil {
			span.SetStatus(codes.Error, noteError(span, s.err))
		}
		span.End(trace.WithTimestamp(s.end))
	}
	t.steps = nil
}

// handler starts the handler's span. It returns the context for the handler, and a function that
// ends the span.
func (t *runSpans) handler(ctx context.Context,
	token jobs.Token) (context.Context, func(o outcome)) {
	if t == nil {
		return ctx, func(outcome) {}
	}
	t.ours()
	_, span := tracerOf(t.root).
		Start(t.inside, "handler", trace.WithAttributes(
			attribute.Int64("holdfast.token", int64(token))))
	return trace.ContextWithSpan(ctx, span), func(o outcome) {
		conclude(span, o.state, o.reason, o.err)
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
		t.since, t.state, t.reason = time.Now(), jobs.Waiting, reasons.Retry
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
