package jobs

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/internal/suggest"
)

// Verdict says in one word what became of a job at an instant.
type Verdict string

// The verdicts.
const (
	VerdictRan     Verdict = "ran"     // it ran to its end, whatever that was
	VerdictRunning Verdict = "running" // it runs
	// its run waits: for what is held, a worker, a further attempt, or a replica to take it up
	VerdictWaiting Verdict = "waiting"
	// it was due and did not run: something stood in its way
	VerdictSkipped              Verdict = "skipped"
	VerdictMissed               Verdict = "missed"                // it was due and nobody started it in time
	VerdictCancelled            Verdict = "cancelled"             // it was ended before it ran
	VerdictExcluded             Verdict = "excluded"              // it would be due, but for a calendar
	VerdictPaused               Verdict = "paused"                // it is due and waits for its pause to end
	VerdictLate                 Verdict = "late"                  // it is due and nobody has started it yet
	VerdictFuture               Verdict = "future"                // it is due later
	VerdictAwaitingDependencies Verdict = "awaiting_dependencies" // jobs that it follows have yet to succeed
	VerdictDependencyFailed     Verdict = "dependency_failed"     // a job that it follows did not succeed
	VerdictNotScheduled         Verdict = "not_scheduled"         // it is not due then
	// its schedule has the scheduled time, but it had no schedule then, or another, or was not
	// recorded
	VerdictNotCounted Verdict = "not_counted"
	VerdictForgotten  Verdict = "forgotten" // the history does not go back as far
)

// Verdicts lists all verdicts.
func Verdicts() []Verdict {
	return []Verdict{VerdictRan, VerdictRunning, VerdictWaiting, VerdictSkipped, VerdictMissed,
		VerdictCancelled, VerdictExcluded, VerdictPaused,
		VerdictLate, VerdictFuture, VerdictAwaitingDependencies, VerdictDependencyFailed, VerdictNotScheduled,
		VerdictNotCounted, VerdictForgotten}
}

// Explanation says what became of a job at an instant, and why. Instants are
// in UTC.
type Explanation struct {
	Job     string    `json:"job"`
	At      time.Time `json:"at"`
	Verdict Verdict   `json:"verdict"`
	Summary string    `json:"summary"` // one sentence
	// Timezone and Schedule are the job's.
	Timezone string    `json:"timezone"`
	Schedule string    `json:"schedule"`
	Now      time.Time `json:"now"` // the store's clock
	// StartsAt is when the scheduled time starts: later than At by the job's jitter. Nil
	// where the job is not due.
	StartsAt *time.Time `json:"starts_at,omitempty"`
	// Runs are the scheduled firing's: the first one, then its recoveries.
	Runs []Record `json:"runs"`
	// ExcludedBy is the calendar for which the scheduled time is not run.
	ExcludedBy string `json:"excluded_by,omitempty"`
	// Clocks says how a change of the zone's clocks bears on the scheduled time.
	Clocks string `json:"clocks,omitempty"`
	// Pauses are those that stood when it was to start.
	Pauses []Pause `json:"pauses,omitempty"`
	// After is what became of the jobs that it follows, in their order.
	After []Dependency `json:"after,omitempty"`
	// PreviousScheduledAt and NextScheduledAt are the job's nearest scheduled times before At and
	// after it that no calendar excludes; nil where there is none within twelve years
	// before, or none at all behind.
	PreviousScheduledAt *time.Time `json:"previous_scheduled_at"`
	NextScheduledAt     *time.Time `json:"next_scheduled_at"`
	// ManualRuns were triggered within ten minutes of At.
	ManualRuns []Record `json:"manual_runs,omitempty"`
	// CheckedUntil is the job's cursor: scheduled times up to here are decided.
	CheckedUntil *time.Time `json:"checked_until,omitempty"`
	// Notes are what else is to be known.
	Notes []string `json:"notes,omitempty"`
}

// Dependency is what became of a job that another follows.
type Dependency struct {
	Job     string  `json:"job"`
	Verdict Verdict `json:"verdict"`
	State   State   `json:"state,omitempty"` // of its last run for the scheduled time
	Summary string  `json:"summary"`
}

// UnknownJobError says that nobody knows of a job, and which one may be meant.
type UnknownJobError struct {
	Job  string
	hint string
}

func unknownJob(name string, known []string) *UnknownJobError {
	return &UnknownJobError{Job: name, hint: suggest.Hint(cut(name, 200), known)}
}

// Error names the job and the one that is nearest to it.
func (e *UnknownJobError) Error() string {
	return fmt.Sprintf("unknown job %q%s", cut(e.Job, 200), e.hint)
}

// Unwrap returns ErrNotFound.
func (e *UnknownJobError) Unwrap() error { return ErrNotFound }
