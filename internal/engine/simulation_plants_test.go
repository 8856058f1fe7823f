package engine_test

import (
	"context"
	"errors"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/test/simulation"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// planted is a store with a fault, which it has once or always.
type planted struct {
	storage.Store
	note         func(n storage.Note) (forget bool)
	misfired     func(m *storage.Misfired) (forget bool)
	start        func(r *storage.StartRequest)
	started      func(r storage.StartRequest, result *storage.StartResult)
	adopted      func(r *storage.Record)
	controlState func(o *storage.ControlState)
	trigger      func(r *storage.TriggerRequest)
	put          func(err error) error
	deaf         map[string]bool // actions that the store confirms and does not do
}

func (p *planted) Adopt(ctx context.Context, session uuid.UUID,
	a storage.Adoption) ([]storage.Record, error) {
	records, err := p.Store.Adopt(ctx, session, a)
	for i := range records {
		if p.adopted != nil {
			p.adopted(&records[i])
		}
	}
	return records, err
}

func (p *planted) ControlState(ctx context.Context, session uuid.UUID,
	since int64) (storage.ControlState, error) {
	o, err := p.Store.ControlState(ctx, session, since)
	if p.controlState != nil {
		p.controlState(&o)
	}
	return o, err
}

func (p *planted) Trigger(ctx context.Context, action storage.Action,
	r storage.TriggerRequest) (storage.Triggered, error) {
	if p.trigger != nil {
		p.trigger(&r)
	}
	return p.Store.Trigger(ctx, action, r)
}

func (p *planted) PutSpec(ctx context.Context, action storage.Action, s storage.Spec,
	checks ...storage.SpecCheck) (storage.Spec, error) {
	put, err := p.Store.PutSpec(ctx, action, s, checks...)
	if p.put != nil {
		err = p.put(err)
	}
	return put, err
}

func (p *planted) RemoveSpec(ctx context.Context, action storage.Action, job string, version int64,
	checks ...storage.SpecCheck) error {
	if p.deaf["remove"] {
		return nil
	}
	return p.Store.RemoveSpec(ctx, action, job, version, checks...)
}

func (p *planted) Release(ctx context.Context, action storage.Action,
	r storage.ReleaseRequest) (locking.Released, error) {
	if !p.deaf["release"] {
		return p.Store.Release(ctx, action, r)
	}
	held, err := p.Store.Locks(ctx)
	for _, lock := range held {
		if lock.Token == r.Token {
			return locking.Released{ID: uuid.MustParse(lock.Holder.Run)}, err
		}
	}
	return locking.Released{}, storage.ErrConflict
}

func (p *planted) Drain(ctx context.Context, action storage.Action, session uuid.UUID,
	drain bool) error {
	if p.deaf["drain"] {
		return nil
	}
	return p.Store.Drain(ctx, action, session, drain)
}

func (p *planted) Note(ctx context.Context, session uuid.UUID,
	notes []storage.Note) ([]bool, error) {
	if p.note == nil {
		return p.Store.Note(ctx, session, notes)
	}
	forgotten := make([]bool, len(notes))
	var rest []storage.Note
	for i, n := range notes {
		if forgotten[i] = p.note(n); !forgotten[i] {
			rest = append(rest, n)
		}
	}
	written, err := p.Store.Note(ctx, session, rest)
	if err != nil {
		return nil, err
	}
	for i, f := range forgotten {
		if f {
			written = slices.Insert(written, i, true)
		}
	}
	return written, nil
}

func (p *planted) CheckMisfires(ctx context.Context, checks []storage.MisfireCheck,
	find func(string, storage.Cursor) []storage.Misfired) (map[string]time.Time, error) {
	return p.Store.CheckMisfires(ctx, checks,
		func(job string, c storage.Cursor) []storage.Misfired {
			found := find(job, c)
			if p.misfired == nil {
				return found
			}
			var kept []storage.Misfired
			for _, m := range found {
				if !p.misfired(&m) {
					kept = append(kept, m)
				}
			}
			return kept
		})
}

func (p *planted) Start(ctx context.Context, session uuid.UUID,
	requests []storage.StartRequest) ([]storage.StartResult, error) {
	if p.start != nil {
		requests = slices.Clone(requests)
		for i := range requests {
			p.start(&requests[i])
		}
	}
	results, err := p.Store.Start(ctx, session, requests)
	for i := range results {
		if p.started != nil {
			p.started(requests[i], &results[i])
		}
	}
	return results, err
}

// plant is a fault that the oracle must find.
type plant struct {
	name string
	// factors for the rates of faults and of operators' actions
	many, people float64
	into         planted
	job          func(job *jobs.Job) // changes the jobs of all replicas
	add          func(key string) bool
	want         string // of a violation; "" for none
	everyTime    bool   // not only in a soak
}

// plants returns all plants with new state.
func plants() []plant {
	var once atomic.Bool
	var asked sync.Map // runs that the store may know, and firings whose notes it lost
	return []plant{
		{name: "nothing", many: 1},
		{everyTime: true, name: "a scheduled time that nobody started is forgotten", many: 1,
			want: "nothing became of it", into: planted{
				misfired: func(m *storage.Misfired) bool {
					return m.State == jobs.Missed && !strings.Contains(m.Detail, "one by one") &&
						once.CompareAndSwap(false, true)
				},
			}},
		{name: "a note is lost and its scheduled time is not checked",
			want: "nothing became of it", into: planted{
				start: func(r *storage.StartRequest) { asked.Store(r.Run, true) },
				note: func(n storage.Note) bool {
					// replicas resume runs that wait in the store, so the note must be the first
					// request for the run
					_, known := asked.Load(n.Run)
					if n.State == jobs.Skipped && !known {
						asked.Store(n.Firing, true)
					}
					return n.State == jobs.Skipped && !known
				},
				misfired: func(m *storage.Misfired) bool {
					_, lost := asked.Load(m.Firing)
					return lost
				},
			}},
		{everyTime: true, name: "a firing that another has runs again", want: "no record",
			into: planted{
				started: func(_ storage.StartRequest, result *storage.StartResult) {
					if result.Outcome == storage.StartDuplicate &&
						once.CompareAndSwap(false, true) {
						result.Outcome, result.Token = storage.StartGranted, 1<<40
					}
				},
			}, many: 1},
		{everyTime: true, name: "conflicts are not seen", want: "at the same time", into: planted{start: func(r *storage.StartRequest) { r.Requests = nil }}},
		{name: "a time that is not scheduled runs", want: "never due",
			into: planted{start: func(r *storage.StartRequest) {
				if r.Firing.Key == "" && once.CompareAndSwap(false, true) {
					r.Firing.ScheduledAt = r.Firing.ScheduledAt.Add(-time.Millisecond)
				}
			}}},
		{name: "a group's limit per cluster is ignored", want: "has slot", job: func(job *jobs.Job) { job.GroupLimits.PerCluster = 0 }},
		{name: "a group's limit per replica is ignored", want: "of group", job: func(job *jobs.Job) { job.GroupLimits.PerReplica = 0 }},
		{name: "deadlines are ignored", want: "its deadline is", job: func(job *jobs.Job) { job.Deadline = 0 }, many: 3},
		{name: "deadlines are too early", want: "skipped for its deadline",
			job: func(job *jobs.Job) {
				if job.Deadline > 0 {
					job.Deadline = job.Schedule.MaxDelay() + time.Second
				}
			}},
		{name: "after an outage all runs late", want: "is to be skipped", job: func(job *jobs.Job) { job.Misfire = jobs.MisfireRunAll }, many: 3},
		{name: "after an outage nothing runs late", want: "is not run late", job: func(job *jobs.Job) { job.Misfire = jobs.MisfireSkip }, many: 3},
		{name: "after a pause all runs late", want: "is to be skipped", job: func(job *jobs.Job) { job.MisfireBy.Paused = jobs.MisfireRunAll }, many: 3},
		{name: "too much runs late", want: "is run late, after", job: func(job *jobs.Job) { job.MisfireBy.Limit = 1000 }, many: 3},
		{name: "firings that are too old run late", want: "are allowed", job: func(job *jobs.Job) { job.MisfireBy.MaxAge = 0 }, many: 3},
		{name: "the cause of a misfire is wrong", want: "is recorded as",
			into: planted{misfired: func(m *storage.Misfired) bool {
				if m.Reason == reasons.Paused {
					m.Reason = reasons.Misfire
				}
				return false
			}}, many: 3},
		{name: "an outage is blamed on workers", want: "is recorded as no_worker",
			into: planted{misfired: func(m *storage.Misfired) bool {
				if m.Reason == reasons.Misfire {
					m.Reason = reasons.NoWorker
				}
				return false
			}}, many: 3},
		{name: "no replica passes a gate", want: "had workers free", add: func(key string) bool {
			return strings.Contains(key, ":gate:") && crc32.ChecksumIEEE([]byte(key))%5 == 0
		}, many: 1}, // without other faults, another rule would fill the list of violations
		{name: "no firing keeps waiting for a lock", want: "is to wait until", job: func(job *jobs.Job) { job.MisfireBy.LockHeld = jobs.MisfireSkip }},
		{name: "every firing keeps waiting for a lock", want: "waited on for a lock", job: func(job *jobs.Job) { job.MisfireBy.LockHeld = jobs.MisfireRunOnce }},
		{name: "a repeated trigger runs again", want: "two answers", people: 5, into: planted{trigger: func(r *storage.TriggerRequest) { r.Key = uuid.NewString() }}},
		{name: "a trigger's params are lost", want: "ran with params", people: 5, into: planted{adopted: func(r *storage.Record) { r.Params = nil }}},
		{name: "a trigger's params are not compared", want: ", then with", people: 5, into: planted{trigger: func(r *storage.TriggerRequest) { r.Params = nil }}},
		{name: "a trigger's time is lost", want: "triggered at", people: 5, into: planted{trigger: func(r *storage.TriggerRequest) { r.At, r.Delay = time.Time{}, 0 }}},
		{name: "a paused job is triggered", want: "triggered although paused", people: 5, into: planted{trigger: func(r *storage.TriggerRequest) { r.EvenPaused = true }}},
		{name: "cancels do not reach replicas", want: "was cancelled", people: 5, into: planted{controlState: func(o *storage.ControlState) { o.Cancels = nil }}},
		{name: "releases are not made", want: "lock was released", people: 5, into: planted{deaf: map[string]bool{"release": true}}},
		{name: "drains are not made", want: "which was drained", people: 5, into: planted{deaf: map[string]bool{"drain": true}}},
		{name: "two concurrent additions of a job succeed", want: "won", people: 5,
			into: planted{put: func(err error) error {
				if errors.Is(err, storage.ErrConflict) {
					return nil
				}
				return err
			}}},
		{name: "added jobs do not reach replicas", want: "is not active", people: 5, into: planted{controlState: func(o *storage.ControlState) { o.Specs = nil }}},
		{name: "removals are not made", want: "its job was removed", people: 2, into: planted{deaf: map[string]bool{"remove": true}}},
	}
}

// The oracle finds each of these faults, and finds nothing without a fault. A fault has an effect
// only in an hour with the affected events, so there are several hours.
func TestOracleFindsPlantedFaults(t *testing.T) {
	const hours = 5
	for i, c := range plants() {
		t.Run(c.name, func(t *testing.T) {
			if !c.everyTime {
				soak.Only(t)
			}
			t.Parallel()
			for seed := range uint64(hours) {
				report := simulate(t, plants()[i].hour(1+seed)) // hours share no state
				t.Log(report)
				switch {
				case c.want == "" && len(report.Violations) > 0:
					t.Fatalf("got wrong violations: %q", report.Violations)
				case c.want == "" || slices.ContainsFunc(report.Violations, func(v string) bool {
					return strings.Contains(v, c.want)
				}):
					return
				}
				t.Logf("not in hour %d: %q; but %q", seed+1, c.want, report.Violations)
			}
			t.Errorf("not found in %d hours: %q", hours, c.want)
		})
	}
}

// hour returns a simulation of the seed with the fault.
func (c plant) hour(seed uint64) simulated {
	how := hour(seed)
	how.within, how.settle, how.deploys = soak.Pick(4*time.Minute, 15*time.Minute),
		soak.Pick(4*time.Minute, 20*time.Minute), 1
	how.often = simulation.Often{Faults: c.many, People: max(c.many, c.people)}
	how.plantJob, how.plantAdd = c.job, c.add
	how.plant = func(link storage.Store) storage.Store {
		into := c.into
		into.Store = link
		return &into
	}
	return how
}
