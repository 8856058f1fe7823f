package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// history is a storage.History whose results a test sets, because pages show states that are hard
// to reach with a real store. The real stores have a conformance suite.
type history struct {
	now      time.Time
	locks    []storage.LockView
	jobs     []storage.JobView
	runs     []storage.Record
	unlisted []storage.Record                   // runs that only Run returns
	attempts map[uuid.UUID][]storage.RunAttempt // by run, with their output
	replicas []storage.ReplicaView
	sessions []storage.ReplicaSession // beside those of replicas
	drift    []storage.JobDrift
	err      error // returned by every call

	onLocks  func() // called before each call of Locks
	onJob    func() // called before each call of Job
	saved    map[string]json.RawMessage
	pauses   []storage.Pause
	blocked  []storage.WaitSummary
	quarters []storage.Quarter
	ended    *storage.EndedRuns         // nil: those of runs
	typical  map[string]storage.Typical // of jobs without an entry: computed from runs
	restart  []storage.Restart
	audit    []storage.Audited
	backfill []storage.Backfill // the youngest first

	mu         sync.Mutex // guards the fields below, because pages send queries concurrently
	filters    []storage.RunFilter
	jobFilters []storage.JobFilter
	counted    [][]storage.JobPart // of each call of CountRuns
	indexes    map[string]int      // index in jobs, by name
}

func (h *history) Now(context.Context) (time.Time, error) { return h.now, h.err }

func (h *history) Locks(context.Context) ([]storage.LockView, error) {
	if h.onLocks != nil {
		h.onLocks()
	}
	return slices.Clone(h.locks), h.err
}

func (h *history) Jobs(context.Context) ([]storage.JobView, error) { return h.jobs, h.err }

func (h *history) Replicas(context.Context) ([]storage.ReplicaView, error) {
	return h.replicas, h.err
}

// ReplicaSessions returns the times of the replicas, and those of further sessions.
func (h *history) ReplicaSessions(_ context.Context, since time.Time,
	n int) ([]storage.ReplicaSession, error) {
	all := slices.Clone(h.sessions)
	for _, r := range h.replicas {
		all = append(all, storage.ReplicaSession{Session: r.Session, Name: r.Name,
			Version: r.Version, StartedAt: r.StartedAt, ExpiresAt: r.ExpiresAt, EndedAt: r.EndedAt,
			Stopped: r.Stopped, Drains: storage.NewDrains(nil)})
	}
	all = slices.DeleteFunc(all, func(s storage.ReplicaSession) bool {
		return s.EndedAt != nil && s.EndedAt.Before(since)
	})
	slices.SortStableFunc(all, func(a, b storage.ReplicaSession) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.StartedAt.Compare(b.StartedAt))
	})
	return all[:min(n, len(all))], h.err
}

// Firing returns firings of known jobs. None of them has a record.
func (h *history) Firing(_ context.Context, job string,
	scheduledAt time.Time) (storage.FiringView, error) {
	if !storable(job) {
		return storage.FiringView{}, errUnstorable
	}
	for _, v := range h.jobs {
		if v.Name != job {
			continue
		}
		view := storage.FiringView{Now: h.now, Version: v.Version, Hash: v.Hash,
			Schedule: v.Schedule, Zone: v.Zone, Group: v.Group,
			CheckedUntil: h.now.Add(-time.Minute), UpdatedAt: v.UpdatedAt}
		for _, r := range h.runs {
			if r.Job == job && r.Key == "" && r.ScheduledAt.Equal(scheduledAt) {
				r.Output = ""
				view.Runs = append(view.Runs, r)
			}
		}
		return view, h.err
	}
	return storage.FiringView{}, cmp.Or(h.err, storage.ErrNotFound)
}

func (h *history) Drift(context.Context, int) ([]storage.JobDrift, error) { return h.drift, h.err }

// Runs filters the runs, which are sorted by time, the newest first.
func (h *history) Runs(_ context.Context, f storage.RunFilter) ([]storage.Record, error) {
	h.mu.Lock()
	h.filters = append(h.filters, f)
	h.mu.Unlock()
	index := func(c *storage.RunCursor) int {
		if c == nil {
			return 0
		}
		return slices.IndexFunc(h.runs, func(r storage.Record) bool { return r.ID == c.ID })
	}
	before, after := index(f.Before), index(f.After)
	var found []storage.Record
	for i := range h.runs {
		run := &h.runs[i] // avoids copies of thousands of runs
		switch {
		case f.Before != nil && i <= before, f.After != nil && i >= after,
			len(f.States) > 0 && !slices.Contains(f.States, run.State),
			f.Job != "" && run.Job != f.Job, !strings.HasPrefix(run.Job, f.JobPrefix),
			f.Group != "" && !h.inGroup(run.Job, f.Group),
			f.Replica != "" && run.Replica != f.Replica,
			f.Reason != "" && run.Reason != f.Reason,
			f.Backfill != uuid.Nil && run.Backfill != f.Backfill,
			!strings.Contains(strings.ToLower(run.Error), strings.ToLower(f.Error)),
			f.Later != nil && run.StartsLater(noon) != *f.Later,
			!f.From.IsZero() && run.CreatedAt.Before(f.From),
			!f.Until.IsZero() && !run.CreatedAt.Before(f.Until),
			f.Resource != nil && !h.locksIt(run.Job, *f.Resource):
			continue
		}
		found = append(found, *run)
		found[len(found)-1].Output = ""
	}
	limit := min(len(found), f.Limit)
	if f.After != nil && f.Before == nil {
		return found[len(found)-limit:], h.err
	}
	return found[:limit], h.err
}

func (h *history) locksIt(job string, resource locking.Resource) bool {
	index := h.index(job)
	return index >= 0 && slices.ContainsFunc(h.jobs[index].Resources, func(r locking.Request) bool {
		return r.Resource.Related(resource)
	})
}

func (h *history) ListJobs(_ context.Context, f storage.JobFilter) ([]storage.JobView, error) {
	h.mu.Lock()
	h.jobFilters = append(h.jobFilters, f)
	h.mu.Unlock()
	var found []storage.JobView
	last := h.lastRuns()
	for i := range h.jobs {
		if j := &h.jobs[i]; f.Names != nil && !slices.Contains(f.Names, j.Name) ||
			f.Group != "" && j.Group != f.Group || f.Ungrouped && j.Group != "" ||
			f.After != "" && j.Name <= f.After || f.Before != "" && j.Name >= f.Before {
			continue
		}
		v := h.complete(h.jobs[i], last)
		switch {
		case f.Text != "" && !strings.Contains(strings.ToLower(v.Name+v.Description),
			strings.ToLower(f.Text)),
			f.Source != "" && v.Source != f.Source, f.Paused != nil &&
				*f.Paused != (len(v.Pauses) > 0),
			f.State.Final() && f.State != "" && (v.Last == nil || v.Last.State != f.State),
			f.State != "" && !f.State.Final() &&
				!slices.ContainsFunc(h.runs, func(r storage.Record) bool {
					return r.Job == v.Name && r.State == f.State
				}):
			continue
		}
		found = append(found, v)
	}
	slices.SortFunc(found, func(a, b storage.JobView) int {
		return strings.Compare(a.Name, b.Name)
	})
	limit := min(len(found), f.Limit)
	if f.Before != "" && f.After == "" {
		return found[len(found)-limit:], h.err
	}
	return found[:limit], h.err
}

func (h *history) JobStates(context.Context) ([]storage.JobState, error) {
	type has struct {
		job   string
		state jobs.State
	}
	active, last := make(map[has]bool), h.lastRuns()
	for i := range h.runs {
		if r := &h.runs[i]; !r.State.Final() && !r.StartsLater(h.now) {
			active[has{r.Job, r.State}] = true
		}
	}
	var states []storage.JobState
	for i := range h.jobs {
		v := h.complete(h.jobs[i], last)
		states = append(states, storage.JobState{Job: v.Name, Description: v.Description,
			Group: v.Group, Source: v.Source, Paused: len(v.Pauses) > 0,
			Waiting: active[has{v.Name, jobs.Waiting}], Running: active[has{v.Name, jobs.Running}],
			Schedule: v.Schedule, Zone: v.Zone, Handler: v.Handler})
		if v.Last != nil {
			states[i].Last = v.Last.State
		}
	}
	slices.SortFunc(states, func(a, b storage.JobState) int {
		return strings.Compare(a.Job, b.Job)
	})
	return states, h.err
}

// complete adds the job's last run, unless the test has set one, and its pauses.
func (h *history) complete(v storage.JobView, last map[string]*storage.Record) storage.JobView {
	if v.Last == nil {
		v.Last = last[v.Name]
	}
	for _, p := range h.pauses {
		if p.Covers(v.Name, v.Group) {
			v.Pauses = append(v.Pauses, p)
		}
	}
	return v
}

func (h *history) lastRuns() map[string]*storage.Record {
	last := make(map[string]*storage.Record)
	for i := range h.runs {
		if run := &h.runs[i]; last[run.Job] == nil && run.State.Final() {
			last[run.Job] = run
		}
	}
	return last
}

// errUnstorable is the error of PostgreSQL for a name that it cannot store.
var errUnstorable = errors.New("invalid byte sequence for encoding \"UTF8\"")

func (h *history) Job(_ context.Context, name string) (storage.JobView, error) {
	if !storable(name) {
		return storage.JobView{}, errUnstorable
	}
	if h.onJob != nil {
		h.onJob()
	}
	for _, v := range h.jobs {
		if v.Name == name && h.err == nil {
			return h.complete(v, h.lastRuns()), nil
		}
	}
	return storage.JobView{}, cmp.Or(h.err, storage.ErrNotFound)
}

// scheduledTimes returns the next scheduled times of the job's schedule, as a replica with that job
// does.
func (h *history) scheduledTimes(job string, from time.Time, n int) []time.Time {
	index := h.index(job)
	if index < 0 {
		return nil
	}
	v := &h.jobs[index]
	zone, err := time.LoadLocation(v.Zone)
	if err != nil {
		panic(err)
	}
	parsed, err := schedule.ParseText(v.Schedule, zone)
	if err != nil {
		return nil // not in this replica's cron table
	}
	return parsed.Upcoming(from, n)
}

// index returns the index of a job in jobs, or -1.
func (h *history) index(job string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i, known := h.indexes[job]; known && i < len(h.jobs) && h.jobs[i].Name == job {
		return i
	}
	if len(h.indexes) == len(h.jobs) { // no job was added since the last call
		if _, known := h.indexes[job]; !known {
			return -1
		}
	}
	h.indexes = make(map[string]int, len(h.jobs))
	for i := range h.jobs {
		if _, known := h.indexes[h.jobs[i].Name]; !known {
			h.indexes[h.jobs[i].Name] = i
		}
	}
	if i, known := h.indexes[job]; known {
		return i
	}
	return -1
}

func (h *history) inGroup(job, group string) bool {
	i := h.index(job)
	return i >= 0 && h.jobs[i].Group == group
}

func (h *history) Groups(context.Context) ([]storage.Group, error) {
	counts := make(map[string]int)
	for _, v := range h.jobs {
		if v.Group != "" {
			counts[v.Group]++
		}
	}
	var groups []storage.Group
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		groups = append(groups, storage.Group{Name: name, Jobs: counts[name]})
	}
	return groups, h.err
}

func (h *history) Resources(context.Context) ([]locking.Resource, error) {
	known := make(map[locking.Resource]bool)
	for _, v := range h.jobs {
		for _, r := range v.Resources {
			if r.Resource.Kind() != locking.KindJob {
				known[r.Resource] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(known), func(a, b locking.Resource) int {
		return strings.Compare(a.Key(), b.Key())
	}), h.err
}

func (h *history) FailuresBefore(_ context.Context,
	runs []storage.RunBefore) (map[string]storage.FailedRuns, error) {
	found := make(map[string]storage.FailedRuns)
	for _, of := range runs {
		var outcomes []storage.Outcome
		for _, r := range h.runs { // the youngest first
			order := cmp.Or(r.CreatedAt.Compare(of.Before.CreatedAt),
				bytes.Compare(r.ID[:], of.Before.ID[:]))
			if r.Job == of.Job && r.Backfill == uuid.Nil && order < 0 {
				outcomes = append(outcomes, storage.Outcome{State: r.State,
					ScheduledAt: r.ScheduledAt, FinishedAt: r.FinishedAt})
			}
		}
		found[of.Job] = storage.CountFailures(outcomes)
	}
	return found, h.err
}

func (h *history) Outcomes(_ context.Context, of []storage.OutcomesOf,
	n int) (map[string][]storage.Outcome, error) {
	found := make(map[string][]storage.Outcome)
	for i := range h.runs {
		r := &h.runs[i]
		selected := slices.ContainsFunc(of, func(o storage.OutcomesOf) bool {
			return o.Job == r.Job && r.CreatedAt.After(o.After)
		})
		if selected && r.Backfill == uuid.Nil && len(found[r.Job]) < n {
			found[r.Job] = append(found[r.Job], storage.Outcome{
				Run: r.ID, ScheduledAt: r.ScheduledAt, State: r.State, Reason: r.Reason,
				StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
				RetryWaits: r.RetryWaits, CreatedAt: r.CreatedAt,
			})
		}
	}
	return found, h.err
}

func (h *history) EndCounts(ctx context.Context, since time.Time) ([]storage.EndCount, error) {
	all, err := h.JobEndCounts(ctx, "", since)
	return slices.DeleteFunc(all, func(t storage.EndCount) bool {
		return t.State == jobs.Succeeded
	}), err
}

func (h *history) JobEndCounts(_ context.Context, job string,
	since time.Time) (all []storage.EndCount, err error) {
	for i := range h.runs {
		r := &h.runs[i]
		if job != "" && r.Job != job || !r.State.Final() || r.CreatedAt.Before(since) {
			continue
		}
		index := slices.IndexFunc(all, func(t storage.EndCount) bool {
			return t.Job == r.Job && t.State == r.State && t.Reason == r.Reason
		})
		if index < 0 {
			index = len(all)
			all = append(all, storage.EndCount{Job: r.Job, State: r.State, Reason: r.Reason,
				Last: r.CreatedAt})
		}
		all[index].Runs++
	}
	return all, h.err
}

func (h *history) EndedJobs(_ context.Context,
	f storage.EndedJobsFilter) (storage.EndedJobs, error) {
	var counts []storage.EndCount
	considered := make(map[jobs.State]int)
	for i := range h.runs {
		r := &h.runs[i]
		if !slices.Contains(f.States, r.State) || r.CreatedAt.Before(f.From) ||
			!r.CreatedAt.Before(f.Until) {
			continue
		}
		if considered[r.State]++; considered[r.State] <= f.Most+1 {
			counts = append(counts, storage.EndCount{Job: r.Job, State: r.State, Runs: 1})
		}
	}
	return storage.NewEndedJobs(counts, f), h.err
}

func (h *history) CountRuns(_ context.Context, parts []storage.JobPart,
	most int) ([]storage.JobPartCount, error) {
	h.mu.Lock()
	h.counted = append(h.counted, parts)
	h.mu.Unlock()
	counts := make([]storage.JobPartCount, len(parts))
	partsOf := make(map[string][]int)
	for k, p := range parts {
		partsOf[p.Job] = append(partsOf[p.Job], k)
	}
	for i := range h.runs {
		r := &h.runs[i]
		for _, k := range partsOf[r.Job] {
			if p := parts[k]; r.CreatedAt.Before(p.From) || !r.CreatedAt.Before(p.Until) {
				continue
			}
			if counts[k].Runs++; r.State.Final() && r.State != jobs.Succeeded {
				counts[k].Add(r.State, 1, r.ScheduledAt)
			}
		}
	}
	for k := range counts {
		counts[k].Bound(most)
	}
	return counts, h.err
}

func (h *history) CountFiltered(ctx context.Context, f storage.RunFilter,
	most int) (c storage.RunCount, err error) {
	f.States, f.Before, f.After, f.Later, f.Limit = nil, nil, nil, nil, len(h.runs)
	found, err := h.Runs(ctx, f)
	for _, r := range found {
		if c.Runs++; r.State.Final() && r.State != jobs.Succeeded {
			c.AddUnsuccessful(r.State, 1, 1, most)
		}
	}
	c.More, c.Runs = c.Runs > most, min(c.Runs, most)
	if f.Reason != "" || f.Error != "" {
		c.OnlyUnsuccessful()
	}
	return c, err
}

func (h *history) FiringRuns(_ context.Context, f storage.Firing) ([]storage.Record, error) {
	var chain []storage.Record
	for _, r := range h.runs {
		if r.Job == f.Job && r.Key == f.Key && (f.Key != "" || r.ScheduledAt.Equal(f.ScheduledAt)) {
			chain = append(chain, r)
		}
	}
	slices.SortFunc(chain, func(a, b storage.Record) int { return a.Recovery - b.Recovery })
	return chain, h.err
}

// RunsBetween filters the runs by id.
func (h *history) RunsBetween(_ context.Context, first, last uuid.UUID,
	limit int) ([]storage.Record, error) {
	var found []storage.Record
	for _, r := range h.runs {
		if text := r.ID.String(); text >= first.String() && text <= last.String() {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b storage.Record) int {
		return strings.Compare(a.ID.String(), b.ID.String())
	})
	return found[:min(limit, len(found))], h.err
}

// JobRequests returns the jobs that lock resources besides their own names.
func (h *history) JobRequests(context.Context) ([]storage.JobRequests, error) {
	var requests []storage.JobRequests
	for _, v := range h.jobs {
		named := slices.DeleteFunc(slices.Clone(v.Resources), func(r locking.Request) bool {
			return r.Resource.Kind() == locking.KindJob
		})
		if len(named) > 0 && !v.Removed {
			requests = append(requests, storage.JobRequests{Job: v.Name, Requests: named})
		}
	}
	return requests, h.err
}

// RunIntervals returns the runs that overlap the interval of the filter.
func (h *history) RunIntervals(_ context.Context,
	f storage.RunIntervalFilter) ([]storage.RunInterval, error) {
	var found []storage.RunInterval
	counts := make(map[string]int)
	for i := range h.runs {
		r := &h.runs[i]
		if !slices.Contains(f.Jobs, r.Job) || !r.CreatedAt.Before(f.Until) ||
			r.State.Final() && records.Ended(*r).Before(f.From) {
			continue
		}
		if counts[r.Job]++; counts[r.Job] <= f.Each {
			found = append(found, storage.RunInterval{
				Run: r.ID, Job: r.Job, ScheduledAt: r.ScheduledAt, State: r.State, Reason: r.Reason,
				Replica: r.Replica, CreatedAt: r.CreatedAt,
				StartedAt: r.StartedAt, FinishedAt: r.FinishedAt, RetryWaits: r.RetryWaits,
				BlockedBy: r.BlockedBy,
			})
		}
	}
	return found, h.err
}

func (h *history) WaitSummaries(_ context.Context, from,
	until time.Time) ([]storage.WaitSummary, error) {
	var found []storage.WaitSummary
	for _, b := range h.blocked {
		if !b.Last.Before(from) && b.Last.Before(until) {
			found = append(found, b)
		}
	}
	return storage.MergeWaitSummaries(found), h.err
}

// EndedRuns returns ended, or counts the runs.
func (h *history) EndedRuns(context.Context, int) (storage.EndedRuns, error) {
	if h.ended != nil {
		return *h.ended, h.err
	}
	byState := make(map[jobs.State]int)
	for i := range h.runs {
		byState[h.runs[i].State]++
	}
	return storage.NewEndedRuns(byState, false), h.err
}

func (h *history) Histogram(_ context.Context, from, until time.Time,
	part time.Duration) ([]storage.Quarter, error) {
	var found []storage.Quarter
	for _, q := range h.quarters {
		if q.From.Before(from) || !q.From.Before(until) {
			continue
		}
		at := from.Add(q.From.Sub(from) / part * part)
		if n := len(found); n == 0 || !found[n-1].From.Equal(at) {
			found = append(found, storage.Quarter{From: at, Runs: make(map[jobs.State]int)})
		}
		last := &found[len(found)-1]
		for state, n := range q.Runs {
			last.Runs[state] += n
		}
		last.Delays.Add(q.Delays)
	}
	return found, h.err
}

func (h *history) Typical(ctx context.Context, names []string) (map[string]storage.Typical, error) {
	found := make(map[string]storage.Typical)
	for _, name := range names {
		if t, chosen := h.typical[name]; chosen {
			found[name] = t
		}
	}
	return found, h.err
}

// NoteRestart implements storage.Restarts.
func (h *history) NoteRestart(_ context.Context, r storage.Restart) error {
	h.restart = append(h.restart, r)
	return h.err
}

// Restarts implements storage.Restarts.
func (h *history) Restarts(_ context.Context, from, until time.Time) ([]storage.Restart, error) {
	return slices.DeleteFunc(slices.Clone(h.restart), func(r storage.Restart) bool {
		return r.NoticedAt.Before(from) || !r.NoticedAt.Before(until)
	}), h.err
}

// PreviousSuccess implements storage.JobProgress.
func (h *history) PreviousSuccess(context.Context, string, time.Time) (time.Time, error) {
	return time.Time{}, nil
}

// Saved implements storage.JobProgress.
func (h *history) Saved(_ context.Context, job string) (json.RawMessage, error) {
	return h.saved[job], h.err
}

// auditOf is the part of a control that pages read.
type auditOf struct {
	storage.Control // the other methods are not used
	*history
}

// ControlState returns the active pauses.
func (h auditOf) ControlState(context.Context, uuid.UUID, int64) (storage.ControlState, error) {
	return storage.ControlState{Pauses: h.pauses}, h.err
}

// Audit filters the entries, which are sorted by time, the newest first.
func (h auditOf) Audit(_ context.Context, f storage.AuditFilter) ([]storage.Audited, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	var found []storage.Audited
	for _, line := range h.audit {
		if f.Actor != "" && line.Actor != f.Actor || f.Action != "" && line.Action != f.Action ||
			f.Target != "" && line.Target != f.Target || line.At.Before(f.Since) ||
			!f.Until.IsZero() && !line.At.Before(f.Until) ||
			f.Before != nil && cmp.Or(line.At.Compare(f.Before.CreatedAt),
				strings.Compare(line.ID.String(), f.Before.ID.String())) >= 0 {
			continue
		}
		found = append(found, line)
	}
	return found[:min(len(found), f.Limit)], h.err
}

func (h *history) Run(_ context.Context, id uuid.UUID) (storage.Record, error) {
	if h.err != nil {
		return storage.Record{}, h.err
	}
	for _, list := range [][]storage.Record{h.runs, h.unlisted} {
		for i := range list { // without copies: bulk actions look up each of a thousand runs
			if list[i].ID == id {
				return list[i], nil
			}
		}
	}
	return storage.Record{}, storage.ErrNotFound
}

func (h *history) RunAttempts(_ context.Context, run uuid.UUID) ([]storage.RunAttempt, error) {
	attempts := slices.Clone(h.attempts[run])
	for i := range attempts {
		attempts[i].Output = ""
	}
	return attempts, h.err
}

func (h *history) RunAttempt(_ context.Context, run uuid.UUID, n int) (storage.RunAttempt, error) {
	for _, a := range h.attempts[run] {
		if a.Attempt == n {
			return a, h.err
		}
	}
	return storage.RunAttempt{}, errors.Join(storage.ErrNotFound, h.err)
}

// advisory returns the holders in a map, or an error.
type advisory struct {
	holders map[locking.Resource]locking.Holder
	err     error
	asked   []locking.Resource
}

func (s *advisory) Inspect(_ context.Context,
	resources []locking.Resource) (map[locking.Resource]locking.Holder, error) {
	s.asked = append(s.asked, resources...)
	return s.holders, s.err
}

// noon is the time of the store's clock in all tests.
var noon = time.Date(2026, 3, 14, 3, 12, 15, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func pointer(t time.Time) *time.Time { return &t }

// id returns the n-th id, which is the same in each test.
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

func job(name, cron string, tables ...string) storage.JobView {
	own, err := locking.Job(name)
	if err != nil {
		panic(err)
	}
	requests := append(exclusive(tables...),
		locking.Request{Resource: own, Mode: locking.Exclusive})
	return storage.JobView{Version: 3, Definition: storage.Definition{
		Name: name, Schedule: cron, Zone: "Europe/Berlin", Handler: "sql", Resources: requests,
	}}
}

func lock(name string, holder storage.Record, held time.Duration) storage.LockView {
	return storage.LockView{
		Resource: table(name), Mode: locking.Exclusive, Holder: owner(holder), Token: holder.Token,
		Since: ago(held), Expires: noon.Add(12 * time.Second),
	}
}

func owner(r storage.Record) locking.Owner {
	return locking.Owner{Replica: r.Replica, Job: r.Job, Run: r.ID.String()}
}

func holders(locks []storage.LockView) map[locking.Resource]locking.Holder {
	found := make(map[locking.Resource]locking.Holder)
	for _, l := range locks {
		found[l.Resource] = locking.Holder{Owner: l.Holder, Since: l.Since}
	}
	return found
}

func running(n int, job, replica string, since time.Duration) storage.Record {
	return storage.Record{
		ID: id(n), Job: job, ScheduledAt: ago(since).Truncate(time.Second), State: jobs.Running,
		Attempt: 1, Replica: replica,
		Token: jobs.Token(1800 + n), CreatedAt: ago(since), StartedAt: pointer(ago(since)),
	}
}

func waiting(n int, job string, since time.Duration, resource string,
	blocker storage.Record) storage.Record {
	return storage.Record{
		ID: id(n), Job: job, ScheduledAt: ago(since).Truncate(time.Second), State: jobs.Waiting,
		Replica:   "replica-2",
		CreatedAt: ago(since), WaitSince: ago(since), Reason: reasons.LockHeld,
		BlockedBy: &jobs.Blocker{Resource: resource, Holder: owner(blocker)},
	}
}

func done(n int, job, replica string, since, duration time.Duration,
	state jobs.State) storage.Record {
	start := ago(since + duration)
	return storage.Record{
		ID: id(n), Job: job, ScheduledAt: start.Truncate(time.Second), State: state, Attempt: 1,
		Replica: replica,
		Token:   jobs.Token(1700 + n), CreatedAt: start, StartedAt: pointer(start),
		FinishedAt: pointer(ago(since)),
	}
}

// heartbeats returns what a replica saw of a session in the last 10 minutes. Some heartbeats of the
// second replica were late.
func (h *history) heartbeats(session uuid.UUID) (seen []storage.HeartbeatView) {
	for _, r := range h.replicas {
		for ago := 10 * time.Minute; r.Session == session && ago > 0; ago -= 5 * time.Second {
			v := storage.HeartbeatView{At: h.now.Add(-ago)}
			age := 2 * time.Second
			if r.Name == "replica-2" && ago > 4*time.Minute && ago < 5*time.Minute {
				age = 9 * time.Second
			}
			v.LastHeartbeat = v.At.Add(-age)
			if v.ExpiresAt = v.LastHeartbeat.Add(15 * time.Second); v.At.Before(r.ExpiresAt) {
				seen = append(seen, v)
			}
		}
	}
	return seen
}

func liveReplica(n int, name string, heartbeat time.Duration, running int) storage.ReplicaView {
	return storage.ReplicaView{
		Session: id(9000 + n), Name: name, Version: "0.2.0", StartedAt: ago(26 * time.Hour),
		LastHeartbeat: ago(heartbeat), ExpiresAt: ago(heartbeat).Add(15 * time.Second),
		Running: running,
	}
}
