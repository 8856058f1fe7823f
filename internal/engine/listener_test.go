package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// hearing is a listener that records events.
type hearing struct {
	mu     sync.Mutex
	events []jobs.Event
}

func (h *hearing) listen(_ context.Context, e jobs.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// of returns the job's events as text.
func (h *hearing) of(job string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var words []string
	for _, e := range h.events {
		if e.Job != job {
			continue
		}
		text := string(e.Kind)
		for _, part := range []string{string(e.State), string(e.Reason), e.Error} {
			if part != "" && part != text {
				text += " " + part
			}
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}

func (h *hearing) find(t *testing.T, job string, kind jobs.EventKind) jobs.Event {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.Job == job && e.Kind == kind {
			return e
		}
	}
	t.Fatalf("no event %s of %s", kind, job)
	return jobs.Event{}
}

func TestListenersGetEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		handler := jobs.Handle("work", func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			if run.Job == "flaky" {
				return errors.New("no luck")
			}
			time.Sleep(20 * time.Second)
			return nil
		})
		long, short, flaky := once(t, "long", 10*time.Second, "orders"),
			once(t, "short", 12*time.Second, "orders"), once(t, "flaky", 10*time.Second)
		flaky.Retry = retry.Policy{Attempts: 2, Delay: time.Second}
		asked := job(t, "asked", 1000*time.Hour)
		var h hearing
		o := c.options("a", []jobs.Registration{handler}, long, short, flaky, asked)
		o.Listeners = []jobs.Listener{h.listen, func(context.Context, jobs.Event) {
			panic("listener")
		}}
		replica, stop := c.begin(o)
		time.Sleep(5 * time.Second)
		if _, err := c.store.Trigger(t.Context(), byHand,
			storage.TriggerRequest{Job: "asked", Key: "key"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(55 * time.Second)
		stop()
		for job, want := range map[string]string{
			"long":  "scheduled, started running, finished succeeded",
			"short": "scheduled, skipped lock_held",
			"flaky": "scheduled, started running, retried failed no luck, started running, finished failed no luck",
			"asked": "adopted waiting, started running, finished succeeded",
		} {
			if got := h.of(job); got != want {
				t.Errorf("%s: heard %s, want %s", job, got, want)
			}
		}
		started, ended, skipped := h.find(t, "long", jobs.EventStarted),
			h.find(t, "long", jobs.EventFinished), h.find(t, "short", jobs.EventSkipped)
		if started.Token == 0 || started.Replica != "a" || started.Attempt != 1 ||
			len(started.Locks) != 2 || started.StartDelay < 0 || started.StartDelay > time.Second ||
			started.Waited < 0 || started.Waited > time.Second ||
			!started.ScheduledAt.Equal(c.runs("long")[0].ScheduledAt) ||
			started.Run != c.runs("long")[0].ID {
			t.Errorf("started: %+v", started)
		}
		if ended.Took != 20*time.Second || ended.Token != started.Token ||
			ended.At.Sub(started.At) < 20*time.Second {
			t.Errorf("finished: %+v", ended)
		}
		if skipped.Blocker == nil || skipped.Blocker.Holder.Job != "long" ||
			skipped.Waited < time.Second || skipped.Detail == "" {
			t.Errorf("skipped: %+v, blocked by %+v", skipped, skipped.Blocker)
		}
		if asked := h.find(t, "asked", jobs.EventAdopted); asked.Key != "key" {
			t.Errorf("adopted: %+v", asked)
		}
		if dropped := replica.EventsDropped(); dropped != 0 {
			t.Errorf("%d events were dropped", dropped)
		}
	})
}

// noEnds is a store that cannot record ends of runs while dead is set.
type noEnds struct{ *faultyStore }

func (s *noEnds) Finish(ctx context.Context, requests []storage.FinishRequest) ([]bool, error) {
	if s.dead.Load() {
		return nil, fmt.Errorf("finish: %w", storage.ErrUnavailable)
	}
	return s.faultyStore.Finish(ctx, requests)
}

func TestListenersGetLostRunsAndMisfires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		late, due := job(t, "late", time.Minute), job(t, "due", time.Minute)
		late.Misfire = jobs.MisfireSkip
		due.Deadline = 30 * time.Second
		table := []jobs.Job{once(t, "lost", 10*time.Second), late, due}
		dying := c.options("dying", takes(time.Hour), table...)
		faulty := &faultyStore{Store: c.store}
		dying.Store, dying.ShutdownGrace = &noEnds{faulty}, time.Second
		stopDying := c.start(dying)
		time.Sleep(30 * time.Second)
		faulty.down.Store(true)
		faulty.dead.Store(true)
		time.Sleep(5 * time.Minute)
		var h hearing
		o := c.options("b", takes(time.Second), table...)
		o.Listeners = []jobs.Listener{h.listen}
		stop := c.start(o)
		time.Sleep(time.Minute)
		stop()
		stopDying()
		lost := h.find(t, "lost", jobs.EventLost)
		if lost.Replica != "dying" || lost.Token == 0 || lost.State != jobs.Lost ||
			lost.Reason != reasons.SessionLost {
			t.Errorf("lost: %+v", lost)
		}
		if missed := h.find(t, "late", jobs.EventMissed); missed.State != jobs.Missed ||
			missed.Reason != reasons.Misfire {
			t.Errorf("missed: %+v", missed)
		}
		if skipped := h.find(t, "due", jobs.EventSkipped); skipped.State != jobs.Skipped ||
			skipped.Reason != reasons.Deadline {
			t.Errorf("skipped: %+v", skipped)
		}
	})
}

// A stuck listener delays neither firings nor other listeners nor the replica's shutdown.
func TestStuckListenerDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var h hearing
		stuck := make(chan struct{})
		o := c.options("a", takes(time.Millisecond), job(t, "job", time.Second))
		o.Listeners = []jobs.Listener{func(context.Context, jobs.Event) { <-stuck }, h.listen}
		stop := c.start(o)
		time.Sleep(10*time.Second + 500*time.Millisecond)
		if got := strings.Count(h.of("job"), "finished succeeded"); got < 9 {
			t.Errorf("the other listener heard of %d ends", got)
		}
		start := time.Now()
		stop()
		if took := time.Since(start); took > 6*time.Second {
			t.Errorf("the end took %s", took)
		}
		close(stuck)
	})
}

func TestHooksAreChecked(t *testing.T) {
	for _, test := range []struct {
		hook jobs.Hook
		want string
	}{
		{jobs.Hook{State: jobs.Failed}, `expected a webhook's name and a final state, found "failed"`},
		{jobs.Hook{Webhook: "w", State: jobs.Running}, `found "running"`},
		{jobs.Hook{Webhook: "w", State: "over"}, `found "over"`},
		{jobs.Hook{Webhook: "w", State: jobs.Skipped}, "<nil>"},
	} {
		c := newCluster(t)
		j := job(t, "job", time.Minute)
		j.Hooks = []jobs.Hook{test.hook}
		if _, err := engine.New(c.options("a", takes(0), j)); !strings.Contains(fmt.Sprint(err),
			test.want) {
			t.Errorf("%+v: got error %v, want %q", test.hook, err, test.want)
		}
	}
}

// The replica of a run reports the end that an operator gave the run in the store.
func TestListenersGetRunsThatOperatorsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		held, waits, released := once(t, "held", 10*time.Second, "orders"),
			once(t, "waits", 11*time.Second, "orders"), once(t, "released", 10*time.Second, "sales")
		waits.Wait = retry.Policy{Attempts: 100, Delay: time.Second, Backoff: retry.Constant}
		asked := job(t, "asked", 1000*time.Hour)
		var h, others hearing
		o, other := c.options("a", takes(20*time.Second), held, waits, released, asked),
			c.options("b", nil)
		o.Listeners, other.Listeners = []jobs.Listener{h.listen}, []jobs.Listener{others.listen}
		replica, stop := c.begin(o)
		stopOther := c.start(other)
		time.Sleep(15*time.Second + 300*time.Millisecond) // between two polls for triggered runs
		operations := operations.New(operations.Options{Control: c.store,
			Cancelled: replica.PublishCancelled, Locker: o.Locker})
		cancel := func(job string) {
			if _, err := operations.Cancel(t.Context(), byHand, c.runs(job)[0].ID); err != nil {
				t.Error(err)
			}
		}
		cancel("waits")
		if _, err := operations.Release(t.Context(), byHand,
			storage.ReleaseRequest{Resource: tables(t, "sales")[0].Resource,
				Token: c.runs("released")[0].Token}); err != nil {
			t.Error(err)
		}
		if _, err := c.store.Pause(t.Context(), byHand,
			storage.Target{Kind: storage.TargetAll}); err != nil {
			t.Error(err)
		}
		if _, err := operations.Trigger(t.Context(), byHand,
			storage.TriggerRequest{Job: "asked", Key: "key", EvenPaused: true}); err != nil {
			t.Error(err)
		}
		cancel("asked")
		time.Sleep(time.Minute)
		stop()
		stopOther()
		for job, want := range map[string]string{
			"waits":    "scheduled, finished cancelled cancelled",
			"released": "scheduled, started running, lost released",
			"asked":    "finished cancelled cancelled",
			"held":     "scheduled, started running, finished succeeded",
		} {
			if got := h.of(job); got != want {
				t.Errorf("%s: heard %s, want %s", job, got, want)
			}
			if got := others.of(job); got != "" {
				t.Errorf("%s: another replica heard %s", job, got)
			}
		}
		if e := h.find(t, "waits", jobs.EventFinished); e.Detail != "cancelled by ann" ||
			e.Run != c.runs("waits")[0].ID {
			t.Errorf("cancelled: %+v", e)
		}
	})
}

func TestListenersGetRunsCancelledWithTheirJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var h hearing
		o := c.options("a", takes(time.Minute), once(t, "held", 10*time.Second, "orders"))
		o.Listeners = []jobs.Listener{h.listen}
		o.Build = func(json.RawMessage) (jobs.Job, error) {
			j := once(t, "added", 11*time.Second, "orders")
			j.Wait = retry.Policy{Attempts: 100, Delay: time.Second, Backoff: retry.Constant}
			return j, nil
		}
		stop := c.start(o)
		spec, err := c.store.PutSpec(t.Context(), byHand,
			storage.Spec{Job: "added", Text: json.RawMessage(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		if err := c.store.RemoveSpec(t.Context(), byHand, "added", spec.Version); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		stop()
		if got, want := h.of("added"), "scheduled, finished cancelled cancelled"; got != want {
			t.Errorf("heard %s, want %s", got, want)
		}
	})
}
