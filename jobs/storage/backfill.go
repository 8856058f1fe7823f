package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Backfill adds runs for past scheduled times of a job that have no run that succeeded. No trigger
// can have the keys of its runs.
type Backfill struct {
	ID  uuid.UUID `json:"id"`
	Job string    `json:"job"`
	// From and To are the first and the last time.
	From     time.Time     `json:"from"`
	To       time.Time     `json:"to"`
	Parallel int           `json:"parallel"` // maximum number of its runs that have not ended
	State    BackfillState `json:"state"`
	Detail   string        `json:"detail,omitempty"` // why it was cancelled or stopped

	CreatedAt time.Time  `json:"created_at"`
	CreatedBy string     `json:"created_by"`
	Reason    string     `json:"reason,omitempty"` // as the actor gave it
	EndedAt   *time.Time `json:"ended_at,omitempty"`

	// HandledUntil is the cursor: scheduled times up to this one have a run or were left out.
	HandledUntil time.Time `json:"handled_until"`
	Times        int       `json:"times"`    // scheduled times from From to To
	LeftOut      int       `json:"left_out"` // of Times: a run succeeded or was active
	Runs         int       `json:"runs"`     // of Times: they got a run
	// Succeeded and Unsuccessful count the ended runs of the backfill. If a run was recovered, its
	// last recovery counts. A run is counted soon after its end.
	Succeeded    int `json:"succeeded"`
	Unsuccessful int `json:"unsuccessful"`
}

// Unfinished returns how many of its runs are not counted as ended.
func (b Backfill) Unfinished() int { return b.Runs - b.Succeeded - b.Unsuccessful }

// Done returns how many of its scheduled times were left out or have a run that is counted as
// ended.
func (b Backfill) Done() int { return b.LeftOut + b.Succeeded + b.Unsuccessful }

// BackfillState is the state of a backfill.
type BackfillState string

// The states of backfills. A cancelled or stopped backfill adds no more runs. Its running runs
// continue.
const (
	BackfillActive    BackfillState = "active"
	BackfillCompleted BackfillState = "completed" // all scheduled times are done
	BackfillCancelled BackfillState = "cancelled" // by an operator
	BackfillStopped   BackfillState = "stopped"   // see AdvanceBackfill
)

// BackfillStates returns all states of backfills.
func BackfillStates() []BackfillState {
	return []BackfillState{BackfillActive, BackfillCompleted, BackfillCancelled, BackfillStopped}
}

// Limits of backfills.
const (
	MaxBackfillTimes    = 10_000 // scheduled times of one backfill
	MaxBackfillParallel = 100
	// BackfillPriority is the priority of runs of backfills.
	BackfillPriority = 1
)

// Details of stopped backfills. Another one is JobGoneDetail.
const (
	BackfillJobRemoved      = "its job was removed"
	BackfillScheduleChanged = "the schedule of its job was changed"
)

// BackfillRequest requests a backfill.
type BackfillRequest struct {
	Job      string
	From, To time.Time
	// UntilNow says that the caller gave no end, so To is the time of the call. A repeated request
	// with the same key counts as the same request, although its To is later.
	UntilNow bool
	Parallel int // 1 to MaxBackfillParallel; more than 1 only if runs of the job may overlap
	Times    int // scheduled times from From to To; 1 to MaxBackfillTimes
	// ScheduleKey is that of the definition that gave Times. If the active definition has another
	// one, the result is ErrConflict.
	ScheduleKey string
}

// BackfillFilter narrows a list of backfills.
type BackfillFilter struct {
	Job   string
	State BackfillState
	Ended bool // only backfills that have ended
	// as in RunFilter, by CreatedAt and ID
	Before, After *RunCursor
	Limit         int
}

// OpenBackfill is a backfill that is active, or that has runs which are not counted as ended.
type OpenBackfill struct {
	Backfill
	Ended int // its runs that have ended and are not counted yet
}

// BackfillStep is the next step of a backfill.
type BackfillStep struct {
	Backfill uuid.UUID
	// Version is that of the definition that gave Times; 0: the caller does not have the job. No
	// run is added if another version is active.
	Version int64
	After   time.Time // HandledUntil of the backfill; if it has moved, no run is added
	// Times are the first MaxBatch scheduled times that are later than After and not later than the
	// backfill's To, sorted.
	Times []BackfillTime
	Last  bool // no scheduled time follows Times
}

// BackfillTime is a scheduled time with the id for its run.
type BackfillTime struct {
	ScheduledAt time.Time
	Run         uuid.UUID // made by the caller
}

// BackfillHistory reads backfills.
type BackfillHistory interface {
	// Backfills returns backfills, the youngest first.
	Backfills(ctx context.Context, f BackfillFilter) ([]Backfill, error)
	// Backfill returns one backfill, or ErrNotFound.
	Backfill(ctx context.Context, id uuid.UUID) (Backfill, error)
	// BackfillTaken returns runs whose scheduled times a backfill leaves out. The argument from is
	// the first scheduled time, and to is the last one. The runs have succeeded, are running or are
	// waiting, and have no trigger params. They are sorted by scheduled time, at most 2 *
	// MaxBackfillTimes.
	BackfillTaken(ctx context.Context, job string, from, to time.Time) ([]Outcome, error)
}

// Backfills advances backfills. A job has at most one active backfill.
type Backfills interface {
	// OpenBackfills returns open backfills, the oldest first.
	OpenBackfills(ctx context.Context) ([]OpenBackfill, error)
	// AdvanceBackfill advances a backfill, and returns its new state. Any replica may call it. Of
	// concurrent calls with the same After, only one adds runs.
	//
	//   - It counts the runs that have ended.
	//   - It stops the backfill if its job was removed, has another ScheduleKey, or counts as
	//     removed (see MaxAbsence).
	//   - It handles the times of the step in their order. It leaves out the times of
	//     BackfillTaken. For each other time it adds a waiting run, with reasons.Backfill.
	//   - The step ends before a time if Parallel runs have not ended, or if the misfire cursor has
	//     not reached the time. The next step begins with this time.
	//   - It handles no times while the job is paused.
	//   - It completes the backfill when all times are handled and all runs are counted.
	AdvanceBackfill(ctx context.Context, step BackfillStep) (Backfill, error)
}

// check returns a *BadInputError if the request is invalid. now is the store's clock.
func (r BackfillRequest) check(now time.Time) error {
	err := errors.Join(checkText("job", r.Job, 1, MaxNameBytes), CheckBackfillRange(r.From, r.To,
		now))
	switch {
	case err != nil:
		return err
	case r.CheckParallel() != nil:
		return r.CheckParallel()
	case r.Times < 1 || r.Times > MaxBackfillTimes:
		return &BadInputError{"times",
			fmt.Sprintf("found %d, expected 1 to %d", r.Times, MaxBackfillTimes)}
	}
	return nil
}

// CheckParallel returns a *BadInputError if Parallel is out of range.
func (r BackfillRequest) CheckParallel() error {
	if r.Parallel < 1 || r.Parallel > MaxBackfillParallel {
		return &BadInputError{"parallel",
			fmt.Sprintf("found %d, expected 1 to %d", r.Parallel, MaxBackfillParallel)}
	}
	return nil
}

// CheckBackfillRange returns a *BadInputError if the range is invalid. now is the store's clock.
func CheckBackfillRange(from, to, now time.Time) error {
	switch {
	case from.Year() < 1970:
		return &BadInputError{"from", fmt.Sprintf("found the year %d, expected 1970 or later",
			from.Year())}
	case from.After(now):
		return &BadInputError{"from", fmt.Sprintf("found %s, which is in the future, expected a "+
			"time until %s", from.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))}
	case to.Before(from):
		return &BadInputError{"to", fmt.Sprintf("found %s, expected a time that is not before %s",
			to.UTC().Format(time.RFC3339), from.UTC().Format(time.RFC3339))}
	case to.After(now):
		return &BadInputError{"to", fmt.Sprintf("found %s, which is in the future, expected a "+
			"time until %s", to.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))}
	}
	return nil
}

// CheckOverlap returns a *BadInputError if Parallel is more than 1 and runs of the job exclude each
// other.
func (r BackfillRequest) CheckOverlap(mayOverlap bool) error {
	if r.Parallel == 1 || mayOverlap {
		return nil
	}
	return &BadInputError{"parallel", fmt.Sprintf("found %d, expected 1: runs of job %s exclude "+
		"each other unless it has overlap: allow", r.Parallel, r.Job)}
}

// Another returns an ErrConflict which says that the job has this active backfill.
func (b Backfill) Another() error {
	return fmt.Errorf("job %s has the active backfill %s by %s; wait for its end or cancel it: %w",
		b.Job, b.ID, b.CreatedBy, ErrConflict)
}

// OthersEnded returns an ErrConflict which says that active backfills of the job prevented the
// addition of this one, and have ended.
func (r BackfillRequest) OthersEnded() error {
	return fmt.Errorf("the active backfill of job %s has just ended; request the new one again: %w",
		r.Job, ErrConflict)
}

// HasEnded returns an ErrConflict which says that the backfill has ended.
func (b Backfill) HasEnded() error {
	return fmt.Errorf("backfill %s has ended as %s: %w", b.ID, b.State, ErrConflict)
}

// Fits returns an error if the request is invalid or does not fit the active definition. now is the
// store's clock.
func (r BackfillRequest) Fits(scheduleKey string, mayOverlap bool, now time.Time) error {
	if err := r.check(now); err != nil {
		return err
	}
	if err := r.CheckOverlap(mayOverlap); err != nil {
		return err
	}
	if r.ScheduleKey == scheduleKey {
		return nil
	}
	return fmt.Errorf("job %s: its active schedule differs from that of this configuration; use a "+
		"replica with the active definition: %w", r.Job, ErrConflict)
}

// Asking returns the action with a digest of the request.
func (r BackfillRequest) Asking(a Action) Action {
	to := ""
	if !r.UntilNow {
		to = r.To.UTC().Format(time.RFC3339Nano)
	}
	return a.Asking(r.From.UTC().Format(time.RFC3339Nano), to, fmt.Sprint(r.Parallel))
}

// Audited returns the detail for the audit log.
func (b Backfill) Audited() map[string]any {
	return map[string]any{"backfill": b.ID, "from": b.From, "to": b.To, "parallel": b.Parallel,
		"times": b.Times}
}

// New returns the backfill of the request.
func (r BackfillRequest) New(a Action, now time.Time) Backfill {
	from, to := r.From.UTC().Truncate(time.Microsecond), r.To.UTC().Truncate(time.Microsecond)
	return Backfill{ID: uuid.New(), Job: r.Job, From: from, To: to, Parallel: r.Parallel,
		State: BackfillActive, CreatedAt: now, CreatedBy: a.Actor, Reason: a.Reason,
		HandledUntil: from.Add(-time.Microsecond), Times: r.Times}
}

// Key returns the key of the backfill's run at a scheduled time.
func (b Backfill) Key(scheduledAt time.Time) string {
	return BackfillKey(b.ID, scheduledAt)
}

// BackfillKey returns the key of a backfill's run at a scheduled time.
func BackfillKey(backfill uuid.UUID, scheduledAt time.Time) string {
	return fmt.Sprintf("backfill %s %s", backfill, scheduledAt.UTC().Format(time.RFC3339Nano))
}

// By returns who requested the backfill and why, for the detail of its runs.
func (b Backfill) By() string {
	return Action{Actor: b.CreatedBy, Reason: b.Reason}.By("backfilled")
}

// ScheduleKey is equal for definitions with the same scheduled times.
func (d Definition) ScheduleKey() string {
	return d.Zone + " " + cmp.Or(d.Fingerprint, d.Schedule)
}

// TakesBackfillTime reports whether BackfillTaken returns the run.
func TakesBackfillTime(r Record) bool {
	return SameParams(r.Params, nil) && (r.State == jobs.Succeeded || !r.State.Final())
}
