package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// openLog is a log that tests may read while replicas write to it.
type openLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *openLog) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

func (j *openLog) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// operators serves a control state that the test sets.
type operators struct {
	mu    sync.Mutex
	now   storage.ControlState
	deaf  bool // listeners get no notifications
	fail  error
	asked int
	heard []func()
}

// obeying is a store whose control state comes from operators.
type obeying struct {
	storage.Store
	operators *operators
}

func (o obeying) ControlState(ctx context.Context, session uuid.UUID,
	since int64) (storage.ControlState, error) {
	return o.operators.ControlState(ctx, session, since)
}

func (o obeying) Heartbeat(ctx context.Context, session uuid.UUID,
	v storage.ReplicaStatus) (storage.HeartbeatReply, error) {
	reply, err := o.Store.Heartbeat(ctx, session, v)
	o.operators.set(func(ops *operators) {
		reply.Generation, reply.Draining = ops.now.Generation, ops.now.Draining
	})
	return reply, err
}

func (o obeying) Listen(ctx context.Context, heard func()) error {
	return o.operators.Listen(ctx, heard)
}

func (o *operators) ControlState(_ context.Context, session uuid.UUID,
	since int64) (storage.ControlState, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	if o.fail != nil {
		return storage.ControlState{}, o.fail
	}
	now := o.now
	if now.Generation == since {
		now.Pauses, now.Specs = nil, nil
	}
	now.Cancels = maps.Clone(now.Cancels)
	return now, nil
}

func (o *operators) Listen(ctx context.Context, heard func()) error {
	o.mu.Lock()
	if o.deaf {
		o.mu.Unlock()
		return fmt.Errorf("listen: %w", storage.ErrUnavailable)
	}
	o.heard = append(o.heard, heard)
	o.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// setState changes the control state, notifies all replicas and waits until they have applied it.
func (o *operators) setState(change func(*storage.ControlState)) {
	o.mu.Lock()
	change(&o.now)
	o.now.Generation++
	for _, heard := range o.heard {
		heard()
	}
	o.mu.Unlock()
	synctest.Wait()
}

func (o *operators) set(change func(*operators)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change(o)
}

func pausing(kind storage.TargetKind, name string) func(*storage.ControlState) {
	return func(o *storage.ControlState) {
		o.Pauses = append(slices.Clone(o.Pauses),
			storage.Pause{ID: uuid.New(), Target: storage.Target{Kind: kind, Name: name},
				At: time.Now(), By: "anna"})
	}
}

func resuming(o *storage.ControlState) { o.Pauses = nil }

// built builds a job from the text of a spec, which names an interval and a handler.
func built(t *testing.T) func(json.RawMessage) (jobs.Job, error) {
	return func(text json.RawMessage) (jobs.Job, error) {
		var logged struct {
			Name, Every, Handler string
		}
		if err := json.Unmarshal(text, &logged); err != nil {
			return jobs.Job{}, err
		}
		interval, err := time.ParseDuration(logged.Every)
		if err != nil {
			return jobs.Job{}, err
		}
		j := job(t, logged.Name, interval)
		j.Handler = logged.Handler
		return j, nil
	}
}

func spec(name, every, handler string, version int64) storage.Spec {
	return storage.Spec{Job: name,
		Text:    fmt.Appendf(nil, `{"name": %q, "every": %q, "handler": %q}`, name, every, handler),
		Version: version, ChangedBy: "anna"}
}

// scheduledTimes returns the scheduled times of a job's runs in seconds since start. It fails the
// test for runs that did not succeed.
func (c *cluster) scheduledTimes(start time.Time, job string) []int {
	c.t.Helper()
	var seconds []int
	for _, r := range c.runs(job) {
		if r.State == jobs.Missed {
			continue
		}
		if r.State != jobs.Succeeded {
			c.t.Errorf("%s at scheduled time %s: %s %s", job, r.ScheduledAt, r.State, r.Reason)
		}
		seconds = append(seconds, int(r.ScheduledAt.Sub(start).Seconds()))
	}
	return seconds
}

func (c *cluster) expectScheduledTimes(start time.Time, job string, want ...int) {
	c.t.Helper()
	if got := c.scheduledTimes(start, job); !slices.Equal(got, want) {
		c.t.Errorf("%s was fired at %v, want %v", job, got, want)
	}
}

func TestPausedJobsDoNotFireUntilResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ops, start := newCluster(t), &operators{}, time.Now()
		one, other, grouped := job(t, "one", 10*time.Second), job(t, "other", 10*time.Second),
			job(t, "grouped", 10*time.Second)
		grouped.Group = "night"
		for _, j := range []*jobs.Job{&one, &other, &grouped} {
			// all jobs with the same scheduled time start together
			j.Misfire, j.Overlap = jobs.MisfireSkip, jobs.OverlapAllow
		}
		var log openLog
		o := c.options("a", takes(0), one, other, grouped)
		o.Store, o.Log = obeying{c.store, ops}, zerolog.New(&log).Level(zerolog.InfoLevel)
		stop := c.start(o)
		time.Sleep(15 * time.Second)
		ops.setState(pausing(storage.TargetJob, "one"))
		time.Sleep(10 * time.Second) // 25 s
		ops.setState(pausing(storage.TargetGroup, "night"))
		time.Sleep(10 * time.Second) // 35 s
		synctest.Wait()
		before := len(log.String())
		time.Sleep(4 * time.Second) // 39 s
		synctest.Wait()
		if logged := log.String()[before:]; logged != "" {
			t.Errorf("logged while paused: %s", logged)
		}
		ops.setState(resuming)
		time.Sleep(6 * time.Second) // 45 s
		ops.setState(pausing(storage.TargetAll, ""))
		time.Sleep(20 * time.Second)
		stop()
		// Scheduled times within the threshold before the resume may still start.
		c.expectScheduledTimes(start, "one", 10, 20, 30, 40)
		c.expectScheduledTimes(start, "other", 10, 20, 30, 40)
		c.expectScheduledTimes(start, "grouped", 10, 20, 30, 40)
		for name, since := range map[string]time.Duration{"one": 15 * time.Second,
			"grouped": 25 * time.Second} {
			for _, r := range c.runs(name) {
				if started := r.StartedAt.Sub(start); started > since && started < 39*time.Second {
					t.Errorf("%s was started after %s, while it was paused", name, started)
				}
			}
		}
	})
}

func TestMisfirePolicyDecidesScheduledTimesOfALongPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ops, start := newCluster(t), &operators{}, time.Now()
		j := job(t, "job", 10*time.Second)
		j.Misfire, j.MisfireBy.NoWorker, j.Overlap = jobs.MisfireSkip, jobs.MisfireSkip,
			jobs.OverlapAllow
		o := c.options("a", takes(0), j)
		o.Store = obeying{c.store, ops}
		stop := c.start(o)
		time.Sleep(15 * time.Second)
		ops.setState(pausing(storage.TargetJob, "job"))
		time.Sleep(100 * time.Second)
		ops.setState(resuming)
		time.Sleep(time.Second) // 116 s
		stop()
		c.expectScheduledTimes(start, "job", 10, 90, 100, 110)
	})
}

func TestAddedJobIsFiredChangedAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ops, start := newCluster(t), &operators{}, time.Now()
		var stops []func()
		var passed atomic.Int32
		for _, name := range []string{"a", "b", "c"} {
			o := c.options(name, takes(3*time.Second), job(t, "own", time.Hour))
			o.Middleware = []jobs.Middleware{func(next jobs.HandlerFunc) jobs.HandlerFunc {
				return func(ctx context.Context, run *jobs.Run) error {
					passed.Add(1)
					return next(ctx, run)
				}
			}}
			o.Store, o.Build = obeying{c.store, ops}, built(t)
			stops = append(stops, c.start(o))
		}
		time.Sleep(5 * time.Second)
		ops.setState(func(o *storage.ControlState) {
			o.Specs = []storage.Spec{spec("added", "10s", "work", 1)}
		})
		time.Sleep(26 * time.Second) // 31 s: it runs
		ops.setState(func(o *storage.ControlState) {
			o.Specs = []storage.Spec{spec("added", "20s", "work", 2)}
		})
		time.Sleep(30 * time.Second) // 61 s: it runs again
		ops.setState(func(o *storage.ControlState) { o.Specs = nil })
		time.Sleep(time.Minute)
		for _, stop := range stops {
			stop()
		}
		// each run succeeded, also those during a change
		c.expectScheduledTimes(start, "added", 10, 20, 30, 40, 60)
		if passed.Load() != 5 {
			t.Errorf("%d runs of 5 passed through the middleware", passed.Load())
		}
		views, err := c.store.Jobs(t.Context())
		if err != nil || len(views) != 2 {
			t.Errorf("jobs %+v, %v", views, err)
		}
	})
}

// An earlier definition that is added again is newer than the one that it replaces.
func TestAddedJobThatIsChangedBackIsFired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ops, start := newCluster(t), &operators{}, time.Now()
		hasListeners, deaf := c.options("a", takes(0)), c.options("b", takes(0))
		hasListeners.Store, hasListeners.Build = obeying{c.store, ops}, built(t)
		stale := &operators{}
		deaf.Store, deaf.Build = obeying{c.store, stale}, built(t)
		stop, stopDeaf := c.start(hasListeners), c.start(deaf)
		time.Sleep(5 * time.Second)
		for version, every := range []string{"10s", "20s", "10s"} {
			controlState := func(o *storage.ControlState) {
				o.Specs = []storage.Spec{spec("added", every, "work", int64(version+1))}
			}
			ops.setState(controlState)
			if version < 2 { // the last change does not reach the replica
				stale.setState(controlState)
			}
		}
		time.Sleep(30 * time.Second)
		stop()
		stopDeaf()
		c.expectScheduledTimes(start, "added", 10, 20, 30)
	})
}

func TestAddedJobWithUnknownHandlerIsLoggedOnceAndLeftToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ops, start := newCluster(t), &operators{}, time.Now()
		var log, theirs openLog
		knows, not := c.options("knows", takes(0)), c.options("not", nil, jobs.Job{})
		not.Jobs = nil
		knows.Store, knows.Build, knows.Log = obeying{c.store, ops}, built(t), zerolog.New(&theirs)
		not.Store, not.Build, not.Log = obeying{c.store, ops}, built(t),
			zerolog.New(&log).Level(zerolog.WarnLevel)
		stop, stopNot := c.start(knows), c.start(not)
		time.Sleep(5 * time.Second)
		ops.setState(func(o *storage.ControlState) {
			o.Specs = []storage.Spec{spec("added", "10s", "work", 1),
				spec("wrong", "soon", "work", 1), spec("renamed", "10s", "work", 1)}
			o.Specs[2].Job = "alias"
		})
		for range 10 {
			ops.setState(pausing(storage.TargetJob, "nothing"))
			time.Sleep(3 * time.Second)
		}
		stop()
		stopNot()
		c.expectScheduledTimes(start, "added", 10, 20, 30)
		if n := strings.Count(theirs.String(), `spec names the job \"renamed\"`); n != 1 {
			t.Errorf("a job with two names is logged %d times: %s", n, theirs.String())
		}
		for _, name := range []string{"added", "wrong", "alias"} {
			if n := strings.Count(log.String(), fmt.Sprintf(`"job":%q`, name)); n != 1 {
				t.Errorf("%s is logged %d times: %s", name, n, log.String())
			}
		}
		for _, r := range c.runs("added") {
			if r.Replica != "knows" {
				t.Errorf("run on %s", r.Replica)
			}
		}
	})
}

// withdrawals notes the jobs whose definitions a replica withdraws.
type withdrawals struct {
	storage.Store
	mu   sync.Mutex
	jobs []string
}

func (w *withdrawals) Withdraw(ctx context.Context, session uuid.UUID, table string,
	names []string) error {
	err := w.Store.Withdraw(ctx, session, table, names)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs = append(w.jobs, names...)
	return err
}

// A replica that cannot fire an added job any more must not count as one that has the job:
// otherwise nobody decides on its firings when the other replicas have stopped.
func TestAddedJobThatCannotBeFiredAnyMoreIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ops, start := newCluster(t), &operators{}, time.Now()
		store := &withdrawals{Store: obeying{c.store, ops}}
		o := c.options("a", takes(0))
		o.Store, o.Build = store, built(t)
		stop := c.start(o)
		time.Sleep(5 * time.Second)
		for version, handler := range []string{"work", "unknown"} {
			ops.setState(func(o *storage.ControlState) {
				o.Specs = []storage.Spec{spec("added", "10s", handler, int64(version+1))}
			})
			time.Sleep(20 * time.Second)
		}
		stop()
		c.expectScheduledTimes(start, "added", 10, 20)
		if !slices.Equal(store.jobs, []string{"added"}) {
			t.Errorf("got %q, want the added job", store.jobs)
		}
	})
}

func TestConfiguredJobReplacesAnAddedJobOfItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ops, start := newCluster(t), &operators{}, time.Now()
		var log openLog
		o := c.options("a", takes(0), job(t, "job", 10*time.Second))
		o.Store, o.Build, o.Log = obeying{c.store, ops}, built(t), zerolog.New(&log)
		stop := c.start(o)
		ops.setState(func(o *storage.ControlState) {
			o.Specs = []storage.Spec{
				spec("job", "1s", "work", 1)}
		})
		time.Sleep(15 * time.Second)
		ops.setState(func(o *storage.ControlState) { o.Specs = nil })
		time.Sleep(10 * time.Second)
		stop()
		c.expectScheduledTimes(start, "job", 10, 20)
		if n := strings.Count(log.String(), "the configuration has a job of that name"); n != 1 {
			t.Errorf("got %d times: %s", n, log.String())
		}
	})
}

func TestCancelledRunNamesTheActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ops := newCluster(t), &operators{}
		slow := jobs.Handle("work", func(ctx context.Context, _ *jobs.Run, _ struct{}) error {
			<-ctx.Done()
			time.Sleep(3 * time.Second)
			return context.Cause(ctx)
		})
		var log bytes.Buffer
		o := c.options("a", []jobs.Registration{slow}, once(t, "job", 10*time.Second, "orders"))
		o.Store, o.Log = obeying{c.store, ops}, zerolog.New(zerolog.SyncWriter(&log))
		stop := c.start(o)
		time.Sleep(11 * time.Second)
		run := c.runs("job")[0]
		if run.State != jobs.Running {
			t.Fatalf("run: %+v", run)
		}
		ops.setState(func(o *storage.ControlState) {
			o.Cancels = map[uuid.UUID]string{run.ID: "anna"}
		})
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if r := c.runs("job")[0]; r.State != jobs.Cancelled || r.Reason != reasons.Cancelled ||
			!strings.Contains(r.Detail, "anna") {
			t.Errorf("run: %+v", r)
		}
		stop()
		if n := strings.Count(log.String(), "run cancelled"); n != 1 {
			t.Errorf("got %d times: %s", n, log.String())
		}
	})
}

// If a replica gets no notification of a pause, it learns of the pause from the store's refusal of
// a start.
func TestRefusedStartReadsTheControlStateAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ops := newCluster(t), &operators{deaf: true}
		o := c.options("a", takes(0), job(t, "job", 10*time.Second))
		o.Store = obeying{c.store, ops}
		stop := c.start(o)
		asked := func() (n int) {
			ops.set(func(o *operators) { n = o.asked })
			return n
		}
		time.Sleep(9800 * time.Millisecond)
		if _, err := c.store.Pause(t.Context(), byHand,
			storage.Target{Kind: storage.TargetAll}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(199 * time.Millisecond)
		before := asked()
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if n := asked() - before; n != 1 {
			t.Errorf("got %d reads of the control state, want one more", n)
		}
		if records := c.runs("job"); len(records) != 0 {
			t.Errorf("runs: %+v", records)
		}
		stop()
	})
}

// In SQLite, a run inside a transaction has the only writer, so a cancel cannot be written before
// the handler ends.
func TestCancelReachesARunInsideATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFileCluster(t)
		work := jobs.Handle("work", func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			return run.InTx(ctx, func(jobs.Tx) error { return sleep.For(ctx, time.Hour) })
		})
		stop := c.start(c.options("a", []jobs.Registration{work}, once(t, "job", 10*time.Second)))
		time.Sleep(15 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := c.store.Cancel(ctx, byHand, c.runs("job")[0].ID); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if got := c.outcomes("job"); !slices.Equal(got, []string{"cancelled cancelled"}) {
			t.Errorf("got %v", got)
		}
		stop()
	})
}

// A cancel that arrives between two attempts ends the next attempt.
func TestCancelReachesTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ops := newCluster(t), &operators{}
		fails := jobs.Handle("work", func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			if run.Attempt == 1 {
				return errors.New("not yet")
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		j := once(t, "job", 10*time.Second)
		j.Retry.Attempts, j.Retry.Delay = 3, 10*time.Second
		o := c.options("a", []jobs.Registration{fails}, j)
		o.Store = obeying{c.store, ops}
		stop, start := c.start(o), time.Now()
		time.Sleep(15 * time.Second)
		run := c.runs("job")[0]
		ops.setState(func(o *storage.ControlState) {
			o.Cancels = map[uuid.UUID]string{run.ID: "anna"}
		})
		time.Sleep(7 * time.Second)
		if r := c.runs("job")[0]; r.State != jobs.Cancelled || r.Attempt != 2 ||
			r.FinishedAt.Sub(start) > 21*time.Second {
			t.Errorf("run: %+v", r)
		}
		stop()
	})
}

func TestDrainedReplicaStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ops, start := newCluster(t), &operators{}, time.Now()
		j := job(t, "job", 10*time.Second)
		j.Misfire, j.MisfireBy.NoWorker = jobs.MisfireSkip, jobs.MisfireSkip
		var log openLog
		o := c.options("a", takes(8*time.Second), j, once(t, "triggered", 100*time.Hour))
		o.Log = zerolog.New(&log)
		o.Store = obeying{c.store, ops}
		replica, stop := c.begin(o)
		time.Sleep(11 * time.Second)
		ops.setState(func(o *storage.ControlState) { o.Draining = true })
		if err := replica.Ready(t.Context()); !errors.Is(err, engine.ErrNotReady) ||
			!strings.Contains(err.Error(), "drained") {
			t.Errorf("ready: %v", err)
		}
		if _, err := c.store.Trigger(t.Context(), byHand,
			storage.TriggerRequest{Job: "triggered", Key: "now"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(54 * time.Second) // 65 s
		synctest.Wait()
		if logged := log.String(); strings.Contains(logged, "adopted") {
			t.Errorf("logged while drained: %s", logged)
		}
		c.expectScheduledTimes(start, "job", 10)
		if r := c.runs("triggered"); len(r) != 1 || r[0].State != jobs.Waiting {
			t.Errorf("triggered: %+v", r)
		}
		ops.setState(func(o *storage.ControlState) { o.Draining = false })
		if err := replica.Ready(t.Context()); err != nil {
			t.Errorf("ready: %v", err)
		}
		time.Sleep(20 * time.Second)
		stop()
		if r := c.runs("triggered"); len(r) != 1 || r[0].State != jobs.Succeeded {
			t.Errorf("triggered: %+v", r)
		}
		last := c.runs("job")
		if r := last[len(last)-1]; r.State != jobs.Succeeded ||
			r.ScheduledAt.Sub(start) < 70*time.Second {
			t.Errorf("afterwards: %+v", r)
		}
	})
}

// The queued runs of a drained replica are released at once. Other replicas may adopt them, and so
// may this replica after the drain.
func TestDrainedReplicaReleasesItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ops := newCluster(t), &operators{}
		o := c.options("a", takes(10*time.Second), once(t, "first", 10*time.Second),
			once(t, "second", 100*time.Hour))
		o.Store, o.Workers = obeying{c.store, ops}, 1
		stop := c.start(o)
		time.Sleep(11 * time.Second)
		if _, err := c.store.Trigger(t.Context(), byHand,
			storage.TriggerRequest{Job: "second", Key: "now"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second) // it is queued behind the first
		ops.setState(func(o *storage.ControlState) { o.Draining = true })
		time.Sleep(20 * time.Second)
		if got := c.outcomes("second"); !slices.Equal(got, []string{"waiting triggered"}) {
			t.Errorf("drained: %v", got)
		}
		ops.setState(func(o *storage.ControlState) { o.Draining = false })
		time.Sleep(15 * time.Second)
		if got := c.outcomes("second"); !slices.Equal(got, []string{"succeeded"}) {
			t.Errorf("afterwards: %v", got)
		}
		stop()
	})
}

// No other replica may adopt a run between two attempts from a drained replica, so this replica
// makes the next attempt, also of a run that it has adopted and that waits for a worker.
func TestDrainedReplicaMakesFurtherAttemptsOfAdoptedRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ops := newCluster(t), &operators{}
		work := jobs.Handle("work", func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			if run.Job == "long" {
				return sleep.For(ctx, time.Minute)
			}
			if run.Attempt == 1 {
				return errors.New("no")
			}
			return nil
		})
		flaky := once(t, "flaky", 10*time.Second)
		flaky.Retry = retry.Policy{Attempts: 3, Delay: 20 * time.Second}
		stopFirst := c.start(c.options("first", []jobs.Registration{work}, flaky))
		time.Sleep(15 * time.Second)
		o := c.options("second", []jobs.Registration{work}, flaky, once(t, "long", time.Second))
		o.Store, o.Workers = obeying{c.store, ops}, 1
		stop := c.start(o)
		time.Sleep(5 * time.Second)
		stopFirst()
		time.Sleep(20 * time.Second) // the run is queued behind the long one
		ops.setState(func(o *storage.ControlState) { o.Draining = true })
		time.Sleep(time.Minute)
		if got := c.outcomes("flaky"); !slices.Equal(got, []string{"succeeded"}) {
			t.Errorf("got %v, want the second attempt", got)
		}
		stop()
	})
}

// A replica obeys actions within a second without notifications. It keeps the last control state
// while the store is unavailable.
func TestControlStateIsReadEachSecondAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ops, start := newCluster(t), &operators{deaf: true}, time.Now()
		var log openLog
		j := job(t, "job", 2*time.Second)
		j.MisfireThreshold = time.Second
		j.Misfire, j.MisfireBy.NoWorker = jobs.MisfireSkip, jobs.MisfireSkip
		o := c.options("a", takes(0), j)
		o.Store, o.Log = obeying{c.store, ops}, zerolog.New(&log).Level(zerolog.WarnLevel)
		stop := c.start(o)
		time.Sleep(4*time.Second + 500*time.Millisecond)
		ops.setState(pausing(storage.TargetJob, "job"))
		time.Sleep(time.Second)
		ops.set(func(o *operators) { o.fail = storage.ErrUnavailable })
		time.Sleep(20 * time.Second)
		ops.set(func(o *operators) { o.fail = nil })
		ops.setState(resuming)
		time.Sleep(3 * time.Second) // 28.5 s
		stop()
		var ran []int
		for _, r := range c.runs("job") {
			if r.State == jobs.Succeeded {
				ran = append(ran, int(r.ScheduledAt.Sub(start).Seconds()))
			}
		}
		if want := []int{2, 4, 26, 28}; !slices.Equal(ran, want) {
			t.Errorf("fired at %v, want %v", ran, want)
		}
		for text, most := range map[string]int{"read control state failed": 1,
			"listen for operator actions failed": 2} {
			if n := strings.Count(log.String(), text); n < 1 || n > most {
				t.Errorf("got %q %d times in the log: %s", text, n, log.String())
			}
		}
	})
}

// An operator releases the locks of a run. Its replica learns of it at once, and the locks are free
// even if the handler ignores its context.
func TestReleasedRunEndsAtOnceAndFreesItsLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFileCluster(t)
		reported := make(chan error, 1)
		deaf := jobs.Handle("work", func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			if run.Job == "deaf" {
				<-ctx.Done()
				reported <- context.Cause(ctx)
				time.Sleep(9 * time.Second)
			}
			return nil
		})
		next := once(t, "next", 22*time.Second, "orders")
		next.Wait.Attempts = 1
		o := c.options("a", []jobs.Registration{deaf}, once(t, "deaf", 10*time.Second, "orders"),
			next)
		stop := c.start(o)
		time.Sleep(20*time.Second + 100*time.Millisecond) // the replica has just sent a heartbeat
		run := c.runs("deaf")[0]
		released, err := c.store.Release(t.Context(), byHand,
			storage.ReleaseRequest{Resource: o.Jobs[0].Resources[0].Resource, Token: run.Token})
		if err != nil || released.Token != run.Token {
			t.Fatalf("released %+v, %v", released, err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		select {
		case cause := <-reported:
			if !errors.Is(cause, jobs.ErrClaimLost) {
				t.Errorf("got %v", cause)
			}
		default:
			t.Error("report of the lost claim within a second: got none, want one")
		}
		time.Sleep(3 * time.Second) // the handler continues
		if got := c.outcomes("next"); !slices.Equal(got, []string{"succeeded"}) {
			t.Errorf("next: %v", got)
		}
		if got := c.outcomes("deaf"); !slices.Equal(got, []string{"lost released"}) {
			t.Errorf("deaf: %v", got)
		}
		stop()
	})
}

// countedPolls is a store that counts the polls of the control state.
type countedPolls struct {
	storage.Store
	polls *atomic.Int64
	deaf  bool // Listen fails
}

func (s countedPolls) ControlState(ctx context.Context, session uuid.UUID,
	since int64) (storage.ControlState, error) {
	s.polls.Add(1)
	return s.Store.ControlState(ctx, session, since)
}

func (s countedPolls) Listen(ctx context.Context, heard func()) error {
	if s.deaf {
		return storage.ErrUnavailable
	}
	return s.Store.Listen(ctx, heard)
}

// A replica does not poll while it listens and has no runs: its heartbeats read whether the control
// state has changed.
func TestIdleReplicaPollsSeldom(t *testing.T) {
	for name, test := range map[string]struct {
		deaf        bool
		run, every  time.Duration // of the job
		least, most int64         // polls in a minute
	}{
		"idle":              {false, 0, time.Hour, 0, 0},
		"with quick runs":   {false, 0, time.Second, 0, 1},
		"with a run":        {false, 10 * time.Minute, 2 * time.Second, 79, 81},
		"without listening": {true, 0, time.Hour, 79, 90},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			o := c.options("a", takes(test.run), job(t, "job", test.every))
			polls := &atomic.Int64{}
			o.Store = countedPolls{c.store, polls, test.deaf}
			stop := c.start(o)
			time.Sleep(10 * time.Second)
			polls.Store(0)
			time.Sleep(time.Minute)
			if n := polls.Load(); n < test.least || n > test.most {
				t.Errorf("%s: got %d polls in a minute, want %d to %d", name, n, test.least,
					test.most)
			}
			stop()
		})
	}
}

// The notification of an action can be lost.
func TestHeartbeatFindsAnUnannouncedAction(t *testing.T) {
	for name, change := range map[string]func(*storage.ControlState){
		"pause": pausing(storage.TargetJob, "job"),
		"drain": func(o *storage.ControlState) { o.Draining = true },
	} {
		synctest.Test(t, func(t *testing.T) {
			c, ops := newCluster(t), &operators{}
			o := c.options("a", takes(0), job(t, "job", time.Hour))
			o.Store = obeying{c.store, ops}
			replica, stop := c.begin(o)
			time.Sleep(12 * time.Second)
			ops.setState(func(*storage.ControlState) {}) // which says that it listens
			ops.set(func(o *operators) {
				change(&o.now)
				o.asked = 0
				if name == "pause" {
					o.now.Generation++
				}
			})
			time.Sleep(o.Heartbeat)
			synctest.Wait()
			ops.set(func(o *operators) {
				if o.asked != 1 {
					t.Errorf("%s: got %d polls within a heartbeat of an action, want 1", name,
						o.asked)
				}
			})
			if drained := replica.Ready(t.Context()) != nil; drained != (name == "drain") {
				t.Errorf("%s: the replica is drained: %v", name, drained)
			}
			stop()
		})
	}
}

// A replica that begins a run polls soon, although it was idle.
func TestReplicaThatBeginsARunPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		polls := &atomic.Int64{}
		o := c.options("a", takes(time.Minute), once(t, "job", 31*time.Second))
		o.Store = countedPolls{c.store, polls, false}
		stop := c.start(o)
		time.Sleep(31*time.Second - time.Millisecond)
		before := polls.Load()
		time.Sleep(751 * time.Millisecond)
		synctest.Wait()
		if n := polls.Load() - before; n != 1 {
			t.Errorf("got %d polls within 750 ms of the begin of the run, want 1", n)
		}
		stop()
	})
}
