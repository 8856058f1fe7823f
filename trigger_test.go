package holdfast_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// awaitReady waits until a replica has stored its jobs.
func awaitReady(t *testing.T, replica *holdfast.Replica) {
	t.Helper()
	for replica.Ready(t.Context()) != nil {
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

type helloParams struct {
	Name string `json:"name"`
}

// helloReplica returns a running replica with the job hello, whose name a trigger can override. The
// names of its runs go to the channel. A run for "nobody" fails.
func helloReplica(t *testing.T) (*holdfast.Replica, <-chan string) {
	t.Helper()
	greeted := make(chan string, 10)
	greet := func(_ context.Context, _ *jobs.Run, p helloParams) error {
		greeted <- p.Name
		if p.Name == "nobody" {
			return errors.New("nobody is here")
		}
		return nil
	}
	replica, err := holdfast.New(holdfast.WithSQLite(sqlite.Driver, t.TempDir()+"/test.db"),
		holdfast.WithLog(zerolog.Nop(), nil), holdfast.WithHandlers(jobs.Handle("greet", greet)),
		holdfast.WithJobs(holdfast.Job[helloParams]{Name: "hello", OnlyTriggered: true,
			Handler: "greet", Params: helloParams{"world"}, Overridable: []string{"name"},
			NoTables: true}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replica.Trigger(t.Context(),
		holdfast.Trigger[any]{Job: "hello"}); !errors.Is(err, holdfast.ErrNotOpen) {
		t.Errorf("a trigger before Open: got %v, want ErrNotOpen", err)
	}
	if _, err := replica.Wait(t.Context(), uuid.New()); !errors.Is(err, holdfast.ErrNotOpen) {
		t.Errorf("a wait before Open: got %v, want ErrNotOpen", err)
	}
	if err := replica.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := running(replica)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	awaitReady(t, replica)
	return replica, greeted
}

func TestTriggersHaveAnOutcomeAndARun(t *testing.T) {
	replica, greeted := helloReplica(t)
	ctx := t.Context()
	bob := holdfast.Trigger[helloParams]{Job: "hello", Key: "1", Params: helloParams{"Bob"},
		Actor: "anna", Reason: "a test"}
	first, err := replica.Trigger(ctx, bob)
	if err != nil || first.Outcome != holdfast.TriggerCreated || first.Run.ID == uuid.Nil {
		t.Fatalf("got %+v, %v, want a created run", first, err)
	}
	again, err := replica.Trigger(ctx, bob)
	if err != nil || again.Outcome != holdfast.TriggerExisting || again.Run.ID != first.Run.ID {
		t.Errorf("the key again: got %+v, %v, want run %s", again, err, first.Run.ID)
	}
	ended, err := replica.Wait(ctx, first.Run.ID)
	if err != nil || ended.State != jobs.Succeeded || <-greeted != "Bob" {
		t.Errorf("the run ended as %+v, %v, want success for Bob", ended, err)
	}
	plain, err := replica.Trigger(ctx, holdfast.Trigger[helloParams]{Job: "hello"})
	if err != nil || plain.Outcome != holdfast.TriggerCreated || <-greeted != "world" {
		t.Errorf("without params: got %+v, %v", plain, err)
	}
	other := bob
	other.Delay = time.Hour
	_, err = replica.Operations().Pause(ctx, storage.Action{Actor: "anna"},
		storage.Target{Kind: storage.TargetJob, Name: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	var params *jobs.ParamsError
	for name, refused := range map[string]struct {
		trigger holdfast.AnyTrigger
		want    func(error) bool
	}{
		"another time": {other, isError(storage.ErrKeyUsed)},
		"a pause":      {holdfast.Trigger[any]{Job: "hello"}, isError(storage.ErrPaused)},
		"no job":       {holdfast.Trigger[any]{Job: "nothing"}, isError(storage.ErrNotFound)},
		"other params": {holdfast.Trigger[map[string]int]{Job: "hello",
			Params: map[string]int{"rows": 1}},
			func(err error) bool { return errors.As(err, &params) }},
		"params without JSON": {holdfast.Trigger[func()]{Job: "hello", Params: func() {}},
			isError(storage.ErrBadInput)},
		"two times": {holdfast.Trigger[any]{Job: "hello", At: time.Now(), Delay: 1},
			isError(storage.ErrBadInput)},
	} {
		got, err := replica.Trigger(ctx, refused.trigger)
		if got.Outcome != holdfast.TriggerRefused || !refused.want(err) {
			t.Errorf("%s: got %+v, %v, want a refusal", name, got, err)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if got, err := replica.Trigger(cancelled, bob); err == nil || got.Outcome != "" {
		t.Errorf("with a cancelled context: got %+v, %v, want an unknown outcome", got, err)
	}
	later, err := replica.Trigger(ctx,
		holdfast.Trigger[any]{Job: "hello", Delay: time.Hour, EvenPaused: true})
	if err != nil || !later.Run.ScheduledAt.Equal(later.Run.CreatedAt.Add(time.Hour)) {
		t.Errorf("for a later time: got %+v, %v", later, err)
	}
	lines, err := replica.Operations().Audit(ctx, storage.AuditFilter{Action: "trigger"})
	if err != nil || len(lines) != 3 || lines[2].Actor != "anna" || lines[2].Reason != "a test" ||
		lines[0].Actor != "program" {
		t.Errorf("audit log: got %+v, %v", lines, err)
	}
}

// signalling is a context that notes when its end is waited for.
type signalling struct {
	context.Context
	once   sync.Once
	waited chan struct{}
}

func (s *signalling) Done() <-chan struct{} {
	s.once.Do(func() { close(s.waited) })
	return s.Context.Done()
}

// TestWaitEndsAtClose waits for a run of an earlier replica, in a replica that never runs.
func TestWaitEndsAtClose(t *testing.T) {
	dir := t.TempDir()
	earlier, err := openReplica(dir)
	if err != nil {
		t.Fatal(err)
	}
	stop := running(earlier)
	awaitReady(t, earlier)
	hello := holdfast.Trigger[any]{Job: "hello", Delay: time.Hour}
	answer, err := earlier.Trigger(t.Context(), hello)
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	replica, err := openReplica(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx := &signalling{Context: t.Context(), waited: make(chan struct{})}
	waited := make(chan error, 1)
	go func() {
		_, err := replica.Wait(ctx, answer.Run.ID)
		waited <- err
	}()
	<-ctx.waited
	replica.Close()
	if err := <-waited; !errors.Is(err, holdfast.ErrNotOpen) {
		t.Errorf("a wait at Close: got %v, want ErrNotOpen", err)
	}
}

// TestTriggersOutsideOfTheLifeOfAReplica checks the errors before a replica with the job is ready,
// and after Run has returned, which also ends a wait.
func TestTriggersOutsideOfTheLifeOfAReplica(t *testing.T) {
	replica, err := openReplica(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	hello := holdfast.Trigger[any]{Job: "hello", Delay: time.Hour}
	const early = "trigger: job hello: not found in the store: no replica with this job has " +
		"become ready yet"
	if _, err := replica.Trigger(t.Context(), hello); !errors.Is(err, storage.ErrNotFound) ||
		err.Error() != early {
		t.Errorf("before Run: got %v, want %s", err, early)
	}
	stop := running(replica)
	awaitReady(t, replica)
	const unknown = "trigger: job hallo: not found"
	if _, err := replica.Trigger(t.Context(), holdfast.Trigger[any]{Job: "hallo"}); err == nil ||
		err.Error() != unknown {
		t.Errorf("an unknown job: got %v, want %s", err, unknown)
	}
	answer, err := replica.Trigger(t.Context(), hello)
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := replica.Wait(context.Background(), answer.Run.ID)
		waited <- err
	}()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; !errors.Is(err, holdfast.ErrStopped) {
		t.Errorf("a wait when the replica stops: got %v, want ErrStopped", err)
	}
	replica.Close() // does nothing after Run
	if replica.Operations() == nil {
		t.Error("got no operations after Run and Close, want those before Close")
	}
	if got, err := replica.Trigger(t.Context(), hello); !errors.Is(err, holdfast.ErrStopped) ||
		got.Outcome != holdfast.TriggerRefused {
		t.Errorf("a trigger after Run: got %+v, %v, want ErrStopped", got, err)
	}
	if _, err := replica.PutJob(t.Context(), storage.Action{}, holdfast.Job[any]{},
		0); !errors.Is(err, holdfast.ErrStopped) {
		t.Errorf("a job after Run: got %v, want ErrStopped", err)
	}
	if _, err := replica.Backfill(t.Context(), holdfast.Backfill{
		Job: "hello"}); !errors.Is(err, holdfast.ErrStopped) {
		t.Errorf("a backfill after Run: got %v, want ErrStopped", err)
	}
	if err := replica.Health(); !errors.Is(err, holdfast.ErrStopped) {
		t.Errorf("health after Run: got %v, want ErrStopped", err)
	}
}

func TestTriggerResultsHaveJSONNames(t *testing.T) {
	for want, result := range map[string]holdfast.TriggerResult{
		`{"outcome":"refused"}`:       {Outcome: holdfast.TriggerRefused},
		`"outcome":"created","run":{`: {Outcome: holdfast.TriggerCreated, Run: storage.Record{Job: "a"}},
		`"waits_for":{`:               {WaitsFor: &storage.RunBlocker{}},
	} {
		if got, err := json.Marshal(result); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("got %s (%v), want %s in it", got, err, want)
		}
	}
}

func isError(want error) func(error) bool {
	return func(err error) bool { return errors.Is(err, want) }
}

func TestWaitReturnsTheEndOfARun(t *testing.T) {
	replica, _ := helloReplica(t)
	failing, err := replica.Trigger(t.Context(),
		holdfast.Trigger[helloParams]{Job: "hello", Params: helloParams{"nobody"}})
	if err != nil {
		t.Fatal(err)
	}
	ended, err := replica.Wait(t.Context(), failing.Run.ID)
	if err != nil || ended.State != jobs.Failed ||
		!strings.Contains(ended.Error, "nobody is here") {
		t.Errorf("got %+v, %v, want the failed run", ended, err)
	}
	unknown := uuid.New()
	if _, err := replica.Wait(t.Context(), unknown); !errors.Is(err, storage.ErrNotFound) ||
		err.Error() != "wait: run "+unknown.String()+": not found" {
		t.Errorf("an unknown run: got %v, want ErrNotFound and the run once", err)
	}
	later, err := replica.Trigger(t.Context(),
		holdfast.Trigger[any]{Job: "hello", Delay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("waited long enough")
	var last storage.Record
	// On a busy machine, the first waits may end before they have read the run.
	for limit := 300 * time.Millisecond; last.ID == uuid.Nil && limit < time.Minute; limit *= 2 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), limit, enough)
		last, err = replica.Wait(ctx, later.Run.ID)
		cancel()
		if !errors.Is(err, enough) {
			t.Errorf("a run that has not ended: got the error %v", err)
		}
	}
	if last.ID != later.Run.ID || last.State != jobs.Waiting {
		t.Errorf("a run that has not ended: got %+v", last)
	}
}

func TestJobsInGoAreAddedAtRunTime(t *testing.T) {
	replica, greeted := helloReplica(t)
	ctx, anna := t.Context(), storage.Action{Actor: "anna"}
	added := holdfast.Job[helloParams]{Name: "added", Schedule: schedule.Cron("0 3 1 1 *"),
		Timezone: "Europe/Berlin", Handler: "greet", Params: helloParams{"${HOME}"},
		Writes: []string{"greetings"}, Timeout: time.Minute, Priority: 7}
	spec, err := replica.PutJob(ctx, anna, added, 0)
	if err != nil || spec.Job != "added" || spec.Version != 1 {
		t.Fatalf("got %+v, %v, want version 1 of the job", spec, err)
	}
	for _, want := range []string{`"0 3 1 1 *"`, `"Europe/Berlin"`, `public.greetings`, `"1m"`} {
		if !strings.Contains(string(spec.Text), want) {
			t.Errorf("stored without %s: %s", want, spec.Text)
		}
	}
	added.Priority = 8
	if spec, err = replica.PutJob(ctx, anna, added, operations.AnyVersion); err != nil ||
		spec.Version != 2 {
		t.Errorf("a change: got %+v, %v, want version 2", spec, err)
	}
	run, err := replica.Trigger(ctx, holdfast.Trigger[any]{Job: "added"})
	if err == nil {
		_, err = replica.Wait(ctx, run.Run.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	if name := <-greeted; name != "${HOME}" {
		t.Errorf("the params are %q, want them as they were given", name)
	}

	_, err = replica.PutJob(ctx, anna, holdfast.Job[helloParams]{Name: "other", Jitter: -1,
		Run: func(context.Context, *jobs.Run, helloParams) error { return nil }}, 0)
	var refused *operations.SpecError
	if !errors.As(err, &refused) || len(refused.Problems) != 3 {
		t.Fatalf("got %v, want a *SpecError with three problems", err)
	}
	for i, key := range []string{"schedule", "tables", "handler"} {
		if refused.Problems[i].Key != key {
			t.Errorf("problem %d: got %+v, want one of %s", i+1, refused.Problems[i], key)
		}
	}
	_, err = replica.PutJob(ctx, anna, holdfast.Job[helloParams]{Name: "other",
		OnlyTriggered: true, Handler: "gret", NoTables: true}, 0)
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), `"greet"`) {
		t.Errorf("an unknown handler: got %v", err)
	}
}
