package admin

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// history is a jobs.History whose answers a test chooses. The real stores have
// a suite of their own; pages need states that are hard to bring about.
type history struct {
	now      time.Time
	locks    []jobs.LockView
	jobs     []jobs.JobView
	runs     []jobs.Record
	replicas []jobs.ReplicaView
	drift    []jobs.JobDrift
	err      error // of every question

	onLocks func() // called before each question for locks
	filters []jobs.RunFilter
}

func (h *history) Now(context.Context) (time.Time, error) { return h.now, h.err }

func (h *history) Locks(context.Context) ([]jobs.LockView, error) {
	if h.onLocks != nil {
		h.onLocks()
	}
	return slices.Clone(h.locks), h.err
}

func (h *history) Jobs(context.Context) ([]jobs.JobView, error) { return h.jobs, h.err }

func (h *history) Replicas(context.Context) ([]jobs.ReplicaView, error) { return h.replicas, h.err }

// Firing knows of the jobs, none of which was decided on.
func (h *history) Firing(_ context.Context, job string, due time.Time) (jobs.FiringView, error) {
	for _, v := range h.jobs {
		if v.Name != job {
			continue
		}
		view := jobs.FiringView{Now: h.now, Version: v.Version, Schedule: v.Schedule, Zone: v.Zone, CheckedUntil: h.now.Add(-time.Minute), UpdatedAt: v.UpdatedAt}
		for _, r := range h.runs {
			if r.Job == job && r.Key == "" && r.Due.Equal(due) {
				r.Output = ""
				view.Runs = append(view.Runs, r)
			}
		}
		return view, h.err
	}
	return jobs.FiringView{}, cmp.Or(h.err, jobs.ErrNotFound)
}

func (h *history) Drift(context.Context, int) ([]jobs.JobDrift, error) { return h.drift, h.err }

// Runs filters by state, job, replica and cursor; runs are kept youngest first.
func (h *history) Runs(_ context.Context, f jobs.RunFilter) ([]jobs.Record, error) {
	h.filters = append(h.filters, f)
	var found []jobs.Record
	passed := f.Before == nil
	for _, run := range h.runs {
		switch {
		case !passed:
			passed = run.ID == f.Before.ID
			continue
		case len(f.States) > 0 && !slices.Contains(f.States, run.State),
			f.Job != "" && run.Job != f.Job,
			f.Replica != "" && run.Replica != f.Replica:
			continue
		}
		run.Output = ""
		found = append(found, run)
	}
	return found[:min(len(found), f.Limit)], h.err
}

func (h *history) Run(_ context.Context, id uuid.UUID) (jobs.Record, error) {
	if h.err != nil {
		return jobs.Record{}, h.err
	}
	for _, run := range h.runs {
		if run.ID == id {
			return run, nil
		}
	}
	return jobs.Record{}, jobs.ErrNotFound
}

// stage1 answers from a map, or with an error.
type stage1 struct {
	holders map[locking.Resource]locking.Holder
	err     error
	asked   []locking.Resource
}

func (s *stage1) Inspect(_ context.Context, resources []locking.Resource) (map[locking.Resource]locking.Holder, error) {
	s.asked = append(s.asked, resources...)
	return s.holders, s.err
}

// noon is the store's clock in every state of the tests.
var noon = time.Date(2026, 3, 14, 3, 12, 15, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func pointer(t time.Time) *time.Time { return &t }

// id returns the n-th id, the same in each test.
func id(n int) uuid.UUID {
	u := uuid.UUID{0x01, 0x95, 0x91, 0x2a, 0x7c, 0x40, 0x70, 0, 0x80}
	u[12], u[13], u[14], u[15] = byte(n*37), byte(n*91), byte(n>>8), byte(n)
	return u
}

func table(name string) locking.Resource {
	resource, err := locking.Table(name, "public")
	if err != nil {
		panic(err)
	}
	return resource
}

func exclusive(tables ...string) []locking.Request {
	var requests []locking.Request
	for _, name := range tables {
		requests = append(requests, locking.Request{Resource: table(name), Mode: locking.Exclusive})
	}
	return requests
}

func job(name, cron string, tables ...string) jobs.JobView {
	own, err := locking.Job(name)
	if err != nil {
		panic(err)
	}
	requests := append(exclusive(tables...), locking.Request{Resource: own, Mode: locking.Exclusive})
	return jobs.JobView{Version: 3, Definition: jobs.Definition{
		Name: name, Schedule: cron, Zone: "Europe/Berlin", Handler: "sql", Resources: requests,
	}}
}

func lock(name string, holder jobs.Record, held time.Duration) jobs.LockView {
	return jobs.LockView{
		Resource: table(name), Mode: locking.Exclusive, Holder: owner(holder), Token: holder.Token,
		Since: ago(held), Expires: noon.Add(12 * time.Second),
	}
}

func owner(r jobs.Record) locking.Owner {
	return locking.Owner{Replica: r.Replica, Job: r.Job, Run: r.ID.String()}
}

func holders(locks []jobs.LockView) map[locking.Resource]locking.Holder {
	found := make(map[locking.Resource]locking.Holder)
	for _, l := range locks {
		found[l.Resource] = locking.Holder{Owner: l.Holder, Since: l.Since}
	}
	return found
}

func running(n int, job, replica string, since time.Duration) jobs.Record {
	return jobs.Record{
		ID: id(n), Job: job, Due: ago(since).Truncate(time.Second), State: jobs.Running, Attempt: 1, Replica: replica,
		Token: jobs.Token(1800 + n), CreatedAt: ago(since), StartedAt: pointer(ago(since)),
	}
}

func waiting(n int, job string, since time.Duration, resource string, blocker jobs.Record) jobs.Record {
	return jobs.Record{
		ID: id(n), Job: job, Due: ago(since).Truncate(time.Second), State: jobs.Waiting, Replica: "replica-2",
		CreatedAt: ago(since), WaitSince: ago(since), Reason: jobs.ReasonLockHeld, BlockedBy: &jobs.Blocker{Resource: resource, Holder: owner(blocker)},
	}
}

func done(n int, job, replica string, since, lasted time.Duration, state jobs.State) jobs.Record {
	start := ago(since + lasted)
	return jobs.Record{
		ID: id(n), Job: job, Due: start.Truncate(time.Second), State: state, Attempt: 1, Replica: replica,
		Token: jobs.Token(1700 + n), CreatedAt: start, StartedAt: pointer(start), FinishedAt: pointer(ago(since)),
	}
}

func beating(n int, name string, beat time.Duration, running int) jobs.ReplicaView {
	return jobs.ReplicaView{
		Session: id(9000 + n), Name: name, Version: "0.2.0", StartedAt: ago(26 * time.Hour),
		LastBeat: ago(beat), ExpiresAt: ago(beat).Add(15 * time.Second), Running: running,
	}
}
