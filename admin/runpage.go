package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// runView is the page of a run.
type runView struct {
	storage.Record
	Steps []step
	Chain []storage.Record // all runs of the firing, if there are several
	Prior []storage.Record // the last runs of the job before this one, the newest first
	// Blocker is the run at the root of the wait or of the skip, or nil
	Blocker *locks.RootRun
	Locks   []Lock // current locks of the run
	Trace   Trace

	Attempts []storage.RunAttempt // without output, the oldest first
	Tabs     attemptTabs
	Log      runLog
	Phases   *charts.Phases

	usual storage.Typical // durations of the last runs of the job
}

// priorRuns is the number of earlier runs of the job that the page of a run shows.
const priorRuns = 3

// step is an event of a run.
type step struct {
	At    time.Time
	What  string
	After string // time since the previous step
	Why   string
	State string // CSS class
	Path  string // of the page about it, or ""
}

func (s runPages) runPage(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, "attempt", "log", "find", "match", "refresh")
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	chosen, err := chooseAttempt(p)
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	id, err := runID(r)
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	pages.Show(s.Site, w, r, pages.Page[runView]{
		Template: "run.html", Section: "/runs", Title: "Run " + pages.Short(id.String()),
		JSONPath: "/api/v1" + param.RunPath(id),
		Live:     true,
		Topics:   []storage.Topic{storage.TopicRuns, storage.TopicLocks},
		Load: func(ctx context.Context, snap cluster.Snapshot) (runView, error) {
			v, err := s.reader.runView(ctx, snap.Now, id, chosen)
			if err == nil {
				s.watch(ctx, v.Record)
			}
			return v, err
		},
		Complete: func(v *runView, f *pages.Frame) {
			v.Record = visible(r.Context(), v.Record)
			v.Tabs.Shown = visibleAttempt(r.Context(), v.Tabs.Shown)
			v.Log = newRunLog(v.Tabs.Shown.Output, chosen)
			v.Phases = charts.NewPhases(v.Record, v.Attempts, f.Now)
			v.Trace = s.traceOf(v.Record)
			f.Title = words.Cut(v.Job, 60) + " " + words.State(v.State)
			f.Fields = chosen.find != "" // a reload would leave the current match
			if v.State.Final() {         // the run no longer changes
				f.Every, f.Refresh, f.Events = 0, 0, ""
			}
		},
	})
}

func (r *reader) runView(ctx context.Context, now time.Time, id uuid.UUID,
	chosen chosenAttempt) (v runView, err error) {
	if v.Record, err = r.Run(ctx, id); err != nil {
		return v, err
	}
	if v.Attempts, err = r.Attempts(ctx, v.Record); err != nil {
		return v, err
	}
	var shown storage.RunAttempt
	if n := chosen.of(v.Attempts); n > 0 {
		if shown, err = r.Attempt(ctx, v.Record, n); err != nil {
			return v, err
		}
	}
	v.Tabs = newAttemptTabs(v.Record, v.Attempts, shown)
	chain, err := r.Store.FiringRuns(ctx,
		storage.Firing{Job: v.Job, ScheduledAt: v.ScheduledAt, Key: v.Key})
	if err != nil {
		return v, fmt.Errorf("runs of the firing: %w", err)
	}
	if len(chain) > 1 {
		v.Chain = records.PlainAll(chain)
	}
	if v.Prior, err = r.Runs(ctx, storage.RunFilter{Job: v.Job, Limit: priorRuns,
		Before: &storage.RunCursor{CreatedAt: v.CreatedAt, ID: v.ID}}); err != nil {
		return v, err
	}
	if v.Blocker, err = locks.FindRootRun(ctx, r.lock, now, v.Record); err != nil {
		return v, err
	}
	usual, err := r.lock.Usual(ctx, now, []string{v.Job})
	if err != nil {
		return v, err
	}
	v.usual = usual[v.Job]
	if v.State == jobs.Running {
		set, err := r.lock.Grants(ctx)
		if err != nil {
			return v, err
		}
		v.Locks = slices.DeleteFunc(set.Locks, func(l Lock) bool {
			return l.Holder.Run != id.String()
		})
	}
	v.Steps = steps(v.Record, v.Attempts, v.granted(), r.lock.LockedAt(ctx, id, v.Locks))
	return v, nil
}

// granted returns when the current claim was granted, or zero if the run holds no locks.
func (v *runView) granted() time.Time {
	if len(v.Locks) == 0 {
		return time.Time{}
	}
	return v.Locks[0].Since
}

// steps returns the known events of a run in order. Claim, grants and start are one transaction,
// and one step. The time of the advisory lock is known only while the run holds it.
func steps(r storage.Record, attempts []storage.RunAttempt, granted, locked time.Time) []step {
	began := step{At: r.ScheduledAt, What: "Scheduled"}
	switch {
	case r.Backfill != uuid.Nil: // its scheduled time is one of the job's schedule
	case r.Key != "" && !r.ScheduledAt.Equal(r.CreatedAt):
		began.What = "Triggered for this time"
	case r.Key != "":
		began.What = "Triggered"
	}
	list := []step{began}
	add := func(at time.Time, what, why, state string) {
		list = append(list, step{At: at, What: what, Why: why, State: state})
	}
	if !r.State.Final() || r.StartedAt != nil || records.Ended(r).After(r.CreatedAt) {
		list = append(list, recordedStep(r))
	}
	if !locked.IsZero() {
		add(locked, "Advisory lock taken", "", "")
	}
	if r.StartedAt != nil {
		add(*r.StartedAt, startedWords(r), "", "running")
	}
	list = append(list, attemptSteps(r, attempts)...)
	if r.Attempt > 1 && granted.After(*cmp.Or(r.StartedAt, &granted)) {
		add(granted, fmt.Sprintf("Attempt %d started, claim and locks granted", r.Attempt), "",
			"running")
	}
	switch {
	case r.State == jobs.Waiting && r.WaitSince.After(r.CreatedAt) && r.Attempt == 0 &&
		r.Key != "" && r.BlockedBy == nil:
		add(r.WaitSince, "Starts", "", "waiting")
	case r.State == jobs.Waiting:
		add(records.Since(r), "Waits", words.Why(r), "waiting")
	case r.State.Final():
		add(records.Ended(r), words.Title(words.State(r.State)), words.Why(r), string(r.State))
	}
	return inOrder(list, r.State != jobs.Running)
}

// attemptSteps returns the waits for locks, the starts and the ends of the last attempts. It leaves
// out the start of the first attempt of the run, and the end of its last attempt. The start of a
// running attempt is known from its claim, so it is left out, too.
func attemptSteps(r storage.Record, attempts []storage.RunAttempt) (list []step) {
	for _, a := range attempts[max(0, len(attempts)-charts.MaxPhaseRows):] {
		if w := a.Waited; w != nil {
			list = append(list, step{At: w.Since, What: waitedWords(a), State: "waiting",
				Why: words.Blocked(&w.Blocker, "was held by")})
		}
		if a.Attempt > 1 && a.StartedAt != nil && (a.Attempt < r.Attempt || r.State.Final()) {
			list = append(list, step{At: *a.StartedAt,
				What: fmt.Sprintf("Attempt %d started", a.Attempt), State: "running"})
		}
		if a.Attempt < r.Attempt && a.FinishedAt != nil {
			list = append(list, step{At: *a.FinishedAt, State: string(a.State),
				What: fmt.Sprintf("Attempt %d %s", a.Attempt, words.State(a.State)),
				Why:  words.OneLine(cmp.Or(a.Error, a.Detail), 160)})
		}
	}
	return list
}

// waitedWords says how long an attempt waited for its last blocker.
func waitedWords(a storage.RunAttempt) string {
	text := "Waited"
	if a.Attempt > 1 {
		text = fmt.Sprintf("Attempt %d waited", a.Attempt)
	}
	if a.StartedAt == nil {
		return text
	}
	return text + " " + words.Took(a.StartedAt.Sub(a.Waited.Since))
}

// inOrder sorts steps by time, but keeps the first and, if over, the last. It sets the time since
// the previous step.
func inOrder(list []step, over bool) []step {
	middle := list[1:]
	if over {
		middle = list[1 : len(list)-1]
	}
	slices.SortStableFunc(middle, func(a, b step) int { return a.At.Compare(b.At) })
	for i := 1; i < len(list); i++ {
		if gap := list[i].At.Sub(list[i-1].At); gap >= time.Millisecond {
			list[i].After = words.Took(gap) + " later"
		}
	}
	return list
}

func recordedStep(r storage.Record) step {
	recorded := step{At: r.CreatedAt, What: "Recorded"}
	switch {
	case r.Recovery > 0:
		recorded.What = fmt.Sprintf("Recovery %d of the firing", r.Recovery)
	case r.Backfill != uuid.Nil:
		recorded.What = "Added by backfill " + r.Backfill.String()
		recorded.Path = param.BackfillPath(r.Backfill)
	case r.Replica != "":
		recorded.What = "Recorded by " + words.Cut(r.Replica, 100)
	}
	return recorded
}

func startedWords(r storage.Record) string {
	switch {
	case r.Attempt > 1 && r.State.Final():
		return fmt.Sprintf("Started, attempt %d was the last", r.Attempt)
	case r.Attempt > 1:
		return "Started, attempt 1"
	case r.Token > 0:
		return fmt.Sprintf("Started, claim and locks granted, token %d", r.Token)
	}
	return "Started"
}

// ErrorTitle is the title of the run's error, which is that of an earlier attempt until the run has
// ended.
func (v *runView) ErrorTitle() string {
	if !v.State.Final() && v.Attempt > 1 {
		return fmt.Sprintf("Error of attempt %d", v.Attempt-1)
	}
	return "Error"
}

// Lasted returns how long the run ran.
func (v *runView) Lasted() string { return records.Lasted(v.Record) }

// Usual compares the time of the run, or of its current attempt, with the last runs of its job.
func (v *runView) Usual(now time.Time) string {
	took, ended := v.Took()
	switch {
	case v.State == jobs.Running:
		took = now.Sub(records.Since(v.Record))
	case !ended:
		return ""
	}
	return locks.CompareWithUsual(took, v.usual)
}

// WaitLimit says until when the run waits, or returns nil if it waits for no blocker or that is not
// known.
func (v *runView) WaitLimit(now time.Time) *locks.WaitLimit {
	if v.WaitEnd == nil {
		return nil
	}
	limit, _ := locks.NewWaitLimit(now, v.Record)
	return &limit
}

// Mood is the class of the note that says why the run is in its state.
func (v *runView) Mood() string {
	switch v.State {
	case jobs.Failed, jobs.TimedOut, jobs.Lost:
		return "bad"
	case jobs.Cancelled:
		return ""
	}
	return "warn"
}

// LockWaits returns how long the started attempts waited for locks together, or "" if they did not.
func (v *runView) LockWaits() string { return spanWords(v.lockWaits(1)) }

// RetryWaited returns the time between attempts in which the run did not wait for a lock, or "".
func (v *runView) RetryWaited() string {
	var sum time.Duration
	for _, w := range v.RetryWaits {
		if w.Until != nil {
			sum += w.Until.Sub(w.From)
		}
	}
	return spanWords(sum - v.lockWaits(2))
}

// lockWaits sums the waits for locks of the attempts from that number.
func (v *runView) lockWaits(from int) (sum time.Duration) {
	for _, a := range v.Attempts {
		if a.Attempt >= from && a.Waited != nil && a.StartedAt != nil {
			sum += a.StartedAt.Sub(a.Waited.Since)
		}
	}
	return sum
}

func spanWords(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return words.Took(d)
}

// WaitedFor returns the resource that blocked the run, or "".
func (v *runView) WaitedFor() string {
	if v.BlockedBy == nil {
		return ""
	}
	return v.BlockedBy.Resource
}
