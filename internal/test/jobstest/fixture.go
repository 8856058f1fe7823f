package jobstest

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Fixture is a store under test.
type Fixture struct {
	Store storage.Store // migrated and empty
	// Expire makes a session's TTL run out at once.
	Expire func(session uuid.UUID)
	// Second opens another replica's connection to the same data. It is called at most once, and
	// only by rules that need it. Other goroutines use the connection beside Store. Nil: Store.
	Second func() storage.Store
	// Pause inserts a pause of any time, which may have ended.
	Pause func(storage.Pause)
	// Pass moves the times of sessions, cursors and waiting runs into the past. Live sessions stay
	// live.
	Pass func(time.Duration)
	// PassEnded moves the times of ended sessions into the past, apart from their drains.
	PassEnded func(time.Duration)
	// Pooled says that notifications get lost in a pooler between the store and its database.
	Pooled bool
}

// Adoption returns a request for runs of the jobs. All have the default priority, and none is late.
func Adoption(known []uuid.UUID, limit int, names ...string) storage.Adoption {
	a := storage.Adoption{Known: known, Limit: limit, Late: limit}
	for _, name := range names {
		a.Jobs = append(a.Jobs, storage.AdoptedJob{Name: name, Priority: jobs.DefaultPriority,
			Threshold: 1000 * 24 * time.Hour})
	}
	return a
}

// rule is one requirement on every store.
type rule struct {
	name  string
	check func(c *check)
}

// Run checks every rule in parallel, each on a store of its own from open. open closes the store in
// a cleanup of t.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	groups := []struct {
		name  string
		rules []rule
	}{
		{"Sessions", sessionRules}, {"ReplicaSessions", replicaSessionRules},
		{"Definitions", definitionRules}, {"Absences", absenceRules},
		{"Drift", driftRules}, {"Start", startRules}, {"Conflicts", conflictRules},
		{"Waiters", waiterRules}, {"Reserves", reserveRules}, {"Roots", rootRules},
		{"Note", noteRules}, {"Finish", finishRules}, {"Sweep", sweepRules}, {"Adopt", adoptRules},
		{"Abandon", abandonRules},
		{"Recoveries", recoveryRules}, {"SavedState", savedStateRules},
		{"Successes", successRules}, {"Outbox", outboxRules},
		{"Misfires", misfireRules},
		{"Causes", causeRules}, {"ReservedPositions", positionRules}, {"Dependents", dependentRules},
		{"Trigger", triggerRules}, {"TriggerWaits", triggerWaitRules},
		{"TriggerTimes", triggerTimeRules}, {"TriggerAdopters", triggerAdopterRules},
		{"Revoke", revokeRules},
		{"Backfills", backfillRules}, {"BackfillSteps", backfillStepRules},
		{"BackfillRuns", backfillRunRules},
		{"History", historyRules}, {"Firing", firingRules}, {"Prune", pruneRules},
		{"RunLists", runListRules}, {"JobLists", jobListRules}, {"RunCounts", runCountRules},
		{"WaitHistory", waitHistoryRules},
		{"Histogram", histogramRules}, {"RetryWaits", retryWaitRules},
		{"RunAttempts", runAttemptRules},
		{"Actions", actionRules}, {"AuditChain", auditChainRules}, {"Pauses", pauseRules}, {"Cancels", cancelRules},
		{"Releases", releaseRules}, {"Drains", drainRules},
		{"Stops", stopRules},
		{"Specs", specRules}, {"ControlState", controlStateRules}, {"Watches", watchRules},
		{"Marks", markRules},
		{"Contention", contentionRules}, {"Model", modelRules},
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range group.rules {
				t.Run(r.name, func(t *testing.T) { r.check(newCheck(t, open(t))) })
			}
		})
	}
}

// testTimeout bounds a whole test. A working store is much faster, even on a busy machine.
const testTimeout = 8 * time.Minute

// ttl is so long that no session expires by itself.
const ttl = 10 * time.Minute

// epoch is the first scheduled time of all tests but those about misfires.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// check is one test of a store.
type check struct {
	*testing.T
	Fixture
	ctx         context.Context
	adopted     map[uuid.UUID][]uuid.UUID // session -> runs that it has adopted
	startedOnce map[uuid.UUID]bool        // the runs for which the test has requested something
	began       time.Time
}

func newCheck(t *testing.T, f Fixture) *check {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	second := f.Second
	f.Second = sync.OnceValue(func() storage.Store {
		if second == nil {
			return f.Store
		}
		return second()
	})
	return &check{T: t, Fixture: f, ctx: ctx, adopted: map[uuid.UUID][]uuid.UUID{},
		startedOnce: map[uuid.UUID]bool{},
		began:       time.Now()}
}

// must fails the test on an error.
func (c *check) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// session opens a session of the replica.
func (c *check) session(replica string) uuid.UUID {
	c.Helper()
	id := uuid.New()
	c.must(c.Store.Open(c.ctx, storage.Session{ID: id, Replica: replica, Version: "v1", TTL: ttl}))
	return id
}

// register gives definitions with the hash to a session of its own, which stays live, and returns
// their versions.
func (c *check) register(hash string, names ...string) map[string]int64 {
	c.Helper()
	return c.registerAll(c.session("registrar"), hash, names...)
}

// recovering registers jobs whose lost runs are recovered.
func (c *check) recovering(names ...string) {
	c.Helper()
	definitions := make([]storage.Definition, len(names))
	for i, name := range names {
		definitions[i] = definition(name, "recovering")
		definitions[i].Recover = true
	}
	_, err := c.Store.Register(c.ctx, c.session("registrar"), definitions)
	c.must(err)
}

// firing returns the job's n-th firing.
func firing(job string, n int) storage.Firing {
	return storage.Firing{Job: job, ScheduledAt: epoch.Add(time.Duration(n) * time.Second)}
}

// request requests the job's n-th firing, which has waited since its scheduled time.
func request(job string, n int, requests ...locking.Request) storage.StartRequest {
	f := firing(job, n)
	return storage.StartRequest{Run: uuid.New(), Firing: f, Attempt: 1, Requests: requests,
		WaitSince: f.ScheduledAt, Reserve: time.Hour}
}

// start requests a decision on each request, with New in the first request for a run.
func (c *check) start(session uuid.UUID, requests ...storage.StartRequest) []storage.StartResult {
	c.Helper()
	results, err := StartDecided(c.ctx, c.Store, session, c.markNew(requests))
	c.must(err)
	if len(results) != len(requests) {
		c.Fatalf("%d requests got %d results", len(requests), len(results))
	}
	return results
}

// markNew sets New in the requests for runs for which the test has requested nothing yet.
func (c *check) markNew(requests []storage.StartRequest) []storage.StartRequest {
	requests = slices.Clone(requests)
	for i := range requests {
		requests[i].New = !c.startedOnce[requests[i].Run]
		c.startedOnce[requests[i].Run] = true
	}
	return requests
}

// StartDecided is Start of the store. It asks again, without New, for the requests that the store
// leaves undecided.
func StartDecided(ctx context.Context, store storage.Store, session uuid.UUID,
	requests []storage.StartRequest) ([]storage.StartResult, error) {
	results, err := store.Start(ctx, session, requests)
	if err != nil {
		return nil, err
	}
	var again []storage.StartRequest
	var indexes []int
	for i, r := range results {
		if r.Outcome == storage.StartUndecided {
			request := requests[i]
			request.New = false
			again, indexes = append(again, request), append(indexes, i)
		}
	}
	if len(again) == 0 {
		return results, nil
	}
	decided, err := store.Start(ctx, session, again)
	if err != nil {
		return nil, err
	}
	for i, index := range indexes {
		results[index] = decided[i]
	}
	return results, nil
}

// granted starts the request and fails the test unless it is granted.
func (c *check) granted(session uuid.UUID, r storage.StartRequest) jobs.Token {
	c.Helper()
	result := c.start(session, r)[0]
	if result.Outcome != storage.StartGranted || result.Token == 0 {
		c.Fatalf("start of %s: %+v (blocked by %+v), want granted", r.Firing.Job,
			result, result.Blocker)
	}
	return result.Token
}

// blocked starts the request and fails the test unless the holder's run blocks it.
func (c *check) blocked(session uuid.UUID, r storage.StartRequest, reason jobs.Reason,
	by storage.StartRequest) *jobs.Blocker {
	c.Helper()
	result := c.start(session, r)[0]
	if result.Outcome != storage.StartBlocked || result.Blocker == nil || result.Reason != reason {
		c.Fatalf("start of %s: %+v, want blocked with reason %s", r.Firing.Job, result,
			reason)
	}
	if got := result.Blocker.Holder; got.Run != by.Run.String() || got.Job != by.Firing.Job {
		c.Fatalf("%s is blocked by %+v, want run %s of %s", r.Firing.Job, got, by.Run,
			by.Firing.Job)
	}
	return result.Blocker
}

// outcome starts the request and fails the test unless it has this outcome.
func (c *check) outcome(session uuid.UUID, r storage.StartRequest, want storage.StartOutcome) {
	c.Helper()
	if result := c.start(session, r)[0]; result.Outcome != want || result.Token != 0 {
		c.Fatalf("start of %s: %+v (blocked by %+v), want outcome %d without a token",
			r.Firing.Job, result, result.Blocker, want)
	}
}

// finish ends an attempt and reports whether that takes effect.
func (c *check) finish(r storage.StartRequest, token jobs.Token, state jobs.State) bool {
	c.Helper()
	done, err := c.Store.Finish(c.ctx,
		[]storage.FinishRequest{{Run: r.Run, Token: token, State: state}})
	c.must(err)
	if len(done) != 1 {
		c.Fatalf("1 finish got %d answers", len(done))
	}
	return done[0]
}

// finished ends an attempt and fails the test unless that takes effect.
func (c *check) finished(r storage.StartRequest, token jobs.Token, state jobs.State) {
	c.Helper()
	if !c.finish(r, token, state) {
		c.Fatalf("finish of %s as %s was refused", r.Firing.Job, state)
	}
}

// note writes one note, with New if it is the first request for its run, and reports whether it
// takes effect.
func (c *check) note(session uuid.UUID, n storage.Note) bool {
	c.Helper()
	n.New = !c.startedOnce[n.Run]
	c.startedOnce[n.Run] = true
	recorded, err := c.Store.Note(c.ctx, session, []storage.Note{n})
	c.must(err)
	if len(recorded) != 1 {
		c.Fatalf("1 note got %d answers", len(recorded))
	}
	return recorded[0]
}

// noteOf returns a note about the run of a request.
func noteOf(r storage.StartRequest, state jobs.State, reason jobs.Reason) storage.Note {
	n := storage.Note{Run: r.Run, Firing: r.Firing, Version: r.Version, State: state,
		Reason:    reason,
		WaitSince: r.WaitSince, Reserve: r.Reserve}
	if state == jobs.Waiting {
		n.Requests = r.Requests
	}
	return n
}

func (c *check) sweep() storage.Swept {
	c.Helper()
	swept, err := c.Store.Sweep(c.ctx)
	c.must(err)
	return swept
}

// adopt adopts runs for a session that knows the runs it has adopted before.
func (c *check) adopt(session uuid.UUID, limit int, names ...string) []storage.Record {
	c.Helper()
	records := c.adoptKnowing(session, c.adopted[session], limit, names...)
	for _, r := range records {
		c.adopted[session] = append(c.adopted[session], r.ID)
	}
	return records
}

func (c *check) adoptKnowing(session uuid.UUID, known []uuid.UUID, limit int,
	names ...string) []storage.Record {
	c.Helper()
	records, err := c.Store.Adopt(c.ctx, session, Adoption(known, limit, names...))
	c.must(err)
	return records
}

// action is the actor of the tests.
var action = storage.Action{Actor: "ann", Via: "go"}

// trigger triggers the job with a key.
func (c *check) trigger(job, key string) (storage.Record, error) {
	answer, err := c.Store.Trigger(c.ctx, action, storage.TriggerRequest{Job: job, Key: key})
	return answer.Record, err
}

// record returns the run and fails the test unless it is in this state.
func (c *check) record(id uuid.UUID, state jobs.State) storage.Record {
	c.Helper()
	record, err := c.Store.Run(c.ctx, id)
	c.must(err)
	if record.ID != id || record.State != state {
		c.Fatalf("run %s is %s (%+v), want %s", id, record.State, record, state)
	}
	return record
}

// same fails the test unless both records are equal.
func (c *check) same(got, want storage.Record) {
	c.Helper()
	if !reflect.DeepEqual(got, want) {
		c.Errorf("got %+v, want %+v", got, want)
	}
}

func (c *check) locks() []storage.LockView {
	c.Helper()
	locks, err := c.Store.Locks(c.ctx)
	c.must(err)
	return locks
}

func (c *check) now() time.Time {
	c.Helper()
	now, err := c.Store.Now(c.ctx)
	c.must(err)
	return now
}

// equal fails the test unless the two are the same.
func equal[T comparable](c *check, what string, got, want T) {
	c.Helper()
	if got != want {
		c.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// within fails the test unless from <= got <= to.
func within(c *check, what string, got, from, to time.Time) {
	c.Helper()
	if got.Before(from) || got.After(to) {
		c.Errorf("%s: got %s, want %s to %s", what, got, from, to)
	}
}

// The requests below have valid names.
func table(name string) locking.Request {
	return ask(locking.KindTable, name, locking.Exclusive, 0)
}
func shared(name string) locking.Request { return ask(locking.KindTable, name, locking.Shared, 0) }
func path(name string) locking.Request {
	return ask(locking.KindPath, name, locking.Exclusive, 0)
}
func ownName(job string) locking.Request { return ask(locking.KindJob, job, locking.Exclusive, 0) }
func slot(name string, n int) locking.Request {
	return ask(locking.KindSlot, name, locking.Slotted, n)
}

func ask(kind locking.Kind, name string, mode locking.Mode, slots int) locking.Request {
	resource, err := locking.ParseKey(string(kind) + ":" + name)
	if err != nil {
		panic(err)
	}
	return locking.Request{Resource: resource, Mode: mode, Slots: slots}
}
