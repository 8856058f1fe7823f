package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/retry"
)

// spans is a Tracing that records ended spans.
type spans struct {
	recorder *tracetest.SpanRecorder
	provider *sdk.TracerProvider
}

func newSpans() *spans {
	recorder := tracetest.NewSpanRecorder()
	return &spans{recorder: recorder,
		provider: sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))}
}

func (s *spans) Traces(uuid.UUID) bool { return true }

func (s *spans) Root(_ uuid.UUID, name string, start time.Time) (context.Context, trace.Span) {
	return s.provider.Tracer("test").
		Start(context.Background(), name, trace.WithNewRoot(), trace.WithTimestamp(start))
}

// roots returns the ended spans of that name without a parent.
func (s *spans) roots(name string) []sdk.ReadOnlySpan {
	return slices.DeleteFunc(s.recorder.Ended(), func(span sdk.ReadOnlySpan) bool {
		return span.Parent().IsValid() || span.Name() != name
	})
}

// within returns the spans below a span, in the order of their start, as name(names within).
func (s *spans) within(parent sdk.ReadOnlySpan) string {
	children := slices.DeleteFunc(s.recorder.Ended(), func(span sdk.ReadOnlySpan) bool {
		return span.Parent().SpanID() != parent.SpanContext().SpanID()
	})
	slices.SortStableFunc(children, func(a, b sdk.ReadOnlySpan) int {
		if c := a.StartTime().Compare(b.StartTime()); c != 0 {
			return c
		}
		return a.EndTime().Compare(b.EndTime())
	})
	var names []string
	for _, child := range children {
		name := child.Name()
		if beneath := s.within(child); beneath != "" {
			name += "(" + beneath + ")"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// find returns the ended spans of that name in a trace.
func (s *spans) find(of sdk.ReadOnlySpan, name string) []sdk.ReadOnlySpan {
	return slices.DeleteFunc(s.recorder.Ended(), func(span sdk.ReadOnlySpan) bool {
		return span.SpanContext().TraceID() != of.SpanContext().TraceID() || span.Name() != name
	})
}

func markOf(span sdk.ReadOnlySpan, key attribute.Key) string {
	for _, mark := range span.Attributes() {
		if mark.Key == key {
			return mark.Value.String()
		}
	}
	return ""
}

// only returns the only root span of that name.
func (s *spans) only(t *testing.T, name string) sdk.ReadOnlySpan {
	t.Helper()
	roots := s.roots(name)
	if len(roots) != 1 {
		t.Fatalf("%d spans %q without a parent, want one", len(roots), name)
	}
	return roots[0]
}

// On two replicas runs succeed, are retried, wait and are skipped. Only the replica of a run
// exports its spans.
func TestSpans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		handler := jobs.Handle("work", func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			_, own := trace.SpanFromContext(ctx).TracerProvider().Tracer("own").Start(ctx, "own")
			defer own.End()
			run.Log().Info().Msg("at work")
			switch {
			case run.Job == "flaky" && run.Attempt == 1:
				return errors.New("no luck")
			case run.Job == "panics":
				panic("ouch")
			}
			time.Sleep(20 * time.Second)
			return nil
		})
		long, short, flaky := once(t, "long", 10*time.Second, "orders", "prices"),
			once(t, "short", 12*time.Second, "orders"), once(t, "flaky", 10*time.Second)
		flaky.Retry = retry.Policy{Attempts: 2, Delay: time.Second}
		patient := once(t, "patient", 11*time.Second, "prices")
		patient.Wait = retry.Policy{Attempts: 10, Delay: 30 * time.Second}
		table := []jobs.Job{long, short, flaky, patient, once(t, "panics", 10*time.Second)}
		s := newSpans()
		var log bytes.Buffer
		a, b := c.options("a", []jobs.Registration{handler}, table...),
			c.options("b", []jobs.Registration{handler}, table...)
		a.Tracing, b.Tracing = s, s
		out := zerolog.SyncWriter(&log) // one for all, because each has a lock of its own
		a.Log, b.Log = zerolog.New(out), zerolog.New(out)
		a.LogOutput, b.LogOutput = out, out
		stopA, stopB := c.start(a), c.start(b)
		time.Sleep(2 * time.Minute)
		stopA()
		stopB()

		for job, want := range map[string]string{
			"long":    "queue gate attempt 1(lock start handler(own) finish)",
			"flaky":   "queue gate attempt 1(lock start handler(own) finish) attempt 2(retry_wait lock start handler(own) finish)",
			"patient": "queue gate attempt 1(lock wait lock start handler(own) finish)",
			"panics":  "queue gate attempt 1(lock start handler(own) finish)",
		} {
			if got := s.within(s.only(t, "run "+job)); got != want {
				t.Errorf("%s: %s, want %s", job, got, want)
			}
		}
		run := c.runs("long")[0]
		root := s.only(t, "run long")
		for key, want := range map[attribute.Key]string{
			"holdfast.job": "long", "holdfast.run.id": run.ID.String(), "holdfast.state": "succeeded", "holdfast.resources": `["job:long","public/orders","public/prices"]`,
			"holdfast.scheduled_at": run.ScheduledAt.Format(time.RFC3339Nano), "holdfast.adopted": "false",
		} {
			if got := markOf(root, key); got != want {
				t.Errorf("long: %s is %s, want %s", key, got, want)
			}
		}
		if took := root.EndTime().Sub(root.StartTime()); took < 20*time.Second ||
			took > 21*time.Second || root.Status().Code != codes.Unset {
			t.Errorf("long took %s, %v", took, root.Status())
		}
		if token := markOf(s.find(root, "start")[0],
			"holdfast.token"); token != fmt.Sprint(run.Token) {
			t.Errorf("long started with token %s, the store says %d", token, run.Token)
		}
		failed := s.find(s.only(t, "run flaky"), "attempt 1")[0]
		if failed.Status() != (sdk.Status{Code: codes.Error, Description: "no luck"}) ||
			len(failed.Events()) != 1 || markOf(failed, "error.type") != "failed" {
			t.Errorf("flaky's first attempt: %v, %v, %v", failed.Status(), failed.Events(),
				failed.Attributes())
		}
		if flaky := s.only(t, "run flaky"); flaky.Status().Code != codes.Unset ||
			markOf(flaky, "holdfast.state") != "succeeded" {
			t.Errorf("flaky: %v, %v", flaky.Status(), flaky.Attributes())
		}
		if panicked := s.find(s.only(t, "run panics"), "handler")[0]; panicked.Status().
			Code != codes.Error || markOf(panicked, "error.type") != "panic" ||
			len(panicked.Events()) != 1 ||
			!strings.Contains(fmt.Sprint(panicked.Events()[0].Attributes), "spans_test.go") {
			t.Errorf("panics: %v, %v", panicked.Status(), panicked.Events())
		}
		skipped := s.only(t, "run short")
		if markOf(skipped, "holdfast.state") != "skipped" ||
			markOf(skipped, "holdfast.reason") != "lock_held" ||
			skipped.Status().Code != codes.Unset {
			t.Errorf("short: %v, %v", skipped.Status(), skipped.Attributes())
		}
		if waited := s.find(skipped, "wait"); len(waited) == 0 ||
			markOf(waited[0], "holdfast.blocker.job") != "long" ||
			markOf(waited[0], "holdfast.blocker.run.id") != run.ID.String() ||
			markOf(waited[0], "holdfast.blocker.resource") != "public/orders" {
			t.Errorf("short waited: %v", waited)
		}
		if len(s.find(skipped, "start"))+len(s.find(skipped, "handler")) != 0 {
			t.Errorf("short: %s", s.within(skipped))
		}
		logged := 0
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, `"job":"long"`) &&
				(strings.Contains(line, "at work") || strings.Contains(line, "run ended")) {
				logged++
				if !strings.Contains(line, `"trace_id":"`+engine.TraceID(run.ID)+`"`) {
					t.Errorf("a line without the trace: %s", line)
				}
			}
		}
		if kept := c.runs("long"); logged != 2 || strings.Contains(kept[0].Output, "trace_id") {
			t.Errorf("%d lines of long", logged)
		}
	})
}

// The replica that sweeps a lost run ends its trace as lost. The replica that lost its session ends
// its open spans.
func TestSpansOfALostRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		dying, s := c.options("dying", takes(time.Hour), once(t, "lost", 10*time.Second, "orders")),
			newSpans()
		faulty := &faultyStore{Store: c.store}
		dying.Store, dying.ShutdownGrace, dying.Tracing = &noEnds{faulty}, time.Second, s
		stopDying := c.start(dying)
		time.Sleep(30 * time.Second)
		if ended := s.roots("run lost"); len(ended) != 0 {
			t.Fatalf("it ended while it ran: %v", ended)
		}
		faulty.down.Store(true)
		faulty.dead.Store(true)
		time.Sleep(5 * time.Minute)
		b, seen := c.options("b", takes(time.Second), once(t, "lost", 10*time.Second, "orders")),
			newSpans()
		b.Tracing = seen
		stop := c.start(b)
		time.Sleep(time.Minute)
		stop()
		stopDying()
		own := s.only(t, "run lost")
		if markOf(own, "holdfast.state") != "lost" || own.Status().Code != codes.Error ||
			markOf(s.find(own, "finish")[0], "holdfast.recorded") != "false" {
			t.Errorf("its own: %v, %v: %s", own.Status(), own.Attributes(), s.within(own))
		}
		swept := seen.only(t, "lost lost")
		for key, want := range map[attribute.Key]string{
			"holdfast.run.id": c.runs("lost")[0].ID.String(), "holdfast.dead_replica": "dying", "holdfast.state": "lost", "holdfast.reason": "session_lost", "holdfast.attempt": "1",
		} {
			if got := markOf(swept, key); got != want {
				t.Errorf("swept: %s is %s, want %s", key, got, want)
			}
		}
		if swept.Status().Code != codes.Error {
			t.Errorf("swept: %v", swept.Status())
		}
	})
}

// A replica that stops ends its span of a waiting run. The replica that adopts the run starts
// another.
func TestSpansOfAnAbandonedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		table := []jobs.Job{once(t, "long", 10*time.Second, "orders"),
			once(t, "left", 11*time.Second, "orders")}
		table[1].Wait = retry.Policy{Attempts: 1000, Delay: 2 * time.Second}
		holder := c.options("holder", takes(time.Minute), table[0])
		stopHolder := c.start(holder)
		s := newSpans()
		a := c.options("a", takes(time.Second), table[1])
		a.Tracing = s
		stopA := c.start(a)
		time.Sleep(20 * time.Second)
		stopA()
		left := s.only(t, "run left")
		if markOf(left, "holdfast.state") != "waiting" || len(s.find(left, "handler")) != 0 {
			t.Errorf("left: %v: %s", left.Attributes(), s.within(left))
		}
		b := c.options("b", takes(time.Second), table[1])
		b.Tracing = newSpans()
		stopB := c.start(b)
		time.Sleep(2 * time.Minute)
		stopB()
		stopHolder()
		adopted := b.Tracing.(*spans).only(t, "run left")
		if markOf(adopted, "holdfast.adopted") != "true" ||
			markOf(adopted, "holdfast.state") != "succeeded" ||
			markOf(adopted, "holdfast.run.id") != markOf(left, "holdfast.run.id") {
			t.Errorf("adopted: %v", adopted.Attributes())
		}
	})
}

// A run with hours of tries has few spans. They report the number of omitted spans, and include the
// run's end.
func TestNumberOfSpansIsLimited(t *testing.T) {
	for _, locks := range []string{"with advisory locks", "without"} {
		t.Run(locks, func(t *testing.T) { testNumberOfSpans(t, locks == "without") })
	}
}

func testNumberOfSpans(t *testing.T, withoutLocks bool) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		long, patient := once(t, "long", 10*time.Second, "orders"),
			once(t, "patient", 11*time.Second, "orders")
		patient.Wait = retry.Policy{Attempts: 10000, Delay: time.Second}
		s := newSpans()
		o := c.options("a", []jobs.Registration{jobs.Handle("work",
			func(_ context.Context, run *jobs.Run, _ struct{}) error {
				if run.Job == "long" {
					time.Sleep(10 * time.Minute)
				}
				return nil
			})}, long, patient)
		if o.Tracing = s; withoutLocks {
			o.Locker = nil
		}
		stop := c.start(o)
		time.Sleep(20 * time.Minute)
		stop()
		root := s.only(t, "run patient")
		attempt := s.find(root, "attempt 1")[0]
		all := len(strings.Fields(s.within(attempt)))
		if markOf(attempt, "holdfast.spans_left_out") == "" || all > 70 ||
			!strings.HasSuffix(s.within(attempt), "lock start handler finish") {
			t.Errorf("%d spans, %v: %s", all, attempt.Attributes(), s.within(attempt))
		}
	})
}

// A run without tracing has no trace in its context and none in its log.
func TestUntracedRunHasNoSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var log bytes.Buffer
		valid := true
		o := c.options("a", []jobs.Registration{jobs.Handle("work",
			func(ctx context.Context, _ *jobs.Run, _ struct{}) error {
				valid = trace.SpanContextFromContext(ctx).IsValid()
				return nil
			})}, once(t, "job", 10*time.Second))
		o.Log = zerolog.New(&log)
		none := newSpans()
		o.Tracing = untraced{none}
		stop := c.start(o)
		time.Sleep(time.Minute)
		stop()
		if valid || strings.Contains(log.String(), "trace_id") ||
			len(none.recorder.Started()) != 0 || c.outcomes("job")[0] != "succeeded" {
			t.Errorf("%v, %d spans, %s: %s", valid, len(none.recorder.Started()), c.outcomes("job"),
				log.String())
		}
	})
}

// untraced is a tracer that traces no run.
type untraced struct{ *spans }

func (untraced) Traces(uuid.UUID) bool { return false }
