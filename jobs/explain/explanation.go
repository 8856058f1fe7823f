package explain

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/internal/suggest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Verdict is the outcome of a job's firing at a time, in one word.
type Verdict string

// The verdicts.
const (
	VerdictRan     Verdict = "ran"     // it ran, and ended in any final state
	VerdictRunning Verdict = "running" // it runs
	// its run waits: for a lock, a worker, a further attempt, or a replica to adopt it
	VerdictWaiting Verdict = "waiting"
	// it was due and was skipped: see the reason of its record
	VerdictSkipped   Verdict = "skipped"
	VerdictMissed    Verdict = "missed"    // it was due and no replica started it in time
	VerdictCancelled Verdict = "cancelled" // it was ended before it ran
	VerdictExcluded  Verdict = "excluded"  // a calendar excludes it
	VerdictPaused    Verdict = "paused"    // it is due and waits for its pause to end
	VerdictLate      Verdict = "late"      // it is due and no replica has started it yet
	VerdictFuture    Verdict = "future"    // it is due later
	// its dependencies have not all succeeded yet
	VerdictAwaitingDependencies Verdict = "awaiting_dependencies"
	VerdictDependencyFailed     Verdict = "dependency_failed" // a dependency did not succeed
	VerdictNotScheduled         Verdict = "not_scheduled"     // it is not due then
	// the store has no record of it: the job was not registered then, the job had another schedule
	// then, or there was a long outage, of which only the last scheduled times are recorded
	VerdictNotCounted Verdict = "not_counted"
	VerdictForgotten  Verdict = "forgotten" // the history does not go back that far
)

// Verdicts lists all verdicts.
func Verdicts() []Verdict {
	return []Verdict{VerdictRan, VerdictRunning, VerdictWaiting, VerdictSkipped, VerdictMissed,
		VerdictCancelled, VerdictExcluded, VerdictPaused,
		VerdictLate, VerdictFuture, VerdictAwaitingDependencies, VerdictDependencyFailed,
		VerdictNotScheduled,
		VerdictNotCounted, VerdictForgotten}
}

// Explanation is the outcome of a job's firing at a time, and the reason. Times are in UTC.
type Explanation struct {
	Job     string    `json:"job"`
	At      time.Time `json:"at"`
	Verdict Verdict   `json:"verdict"`
	Summary string    `json:"summary"` // one sentence
	// Timezone and Schedule are the job's.
	Timezone string    `json:"timezone"`
	Schedule string    `json:"schedule"`
	Now      time.Time `json:"now"` // the store's clock
	// StartsAt is when the firing starts: later than At by the job's jitter. Nil if the job is not
	// due.
	StartsAt *time.Time `json:"starts_at,omitempty"`
	// Runs are the runs of the scheduled firing: the first one, then its recoveries.
	Runs []storage.Record `json:"runs"`
	// ExcludedBy is the calendar that excludes the scheduled time.
	ExcludedBy string `json:"excluded_by,omitempty"`
	// Clocks describes the effect of a change of the zone's clocks on the scheduled time.
	Clocks string `json:"clocks,omitempty"`
	// Pauses are the pauses that were active when the firing was to start.
	Pauses []storage.Pause `json:"pauses,omitempty"`
	// After is the outcome of each dependency, in their order.
	After []Dependency `json:"after,omitempty"`
	// ScheduledBefore is the nearest scheduled time earlier than At, and ScheduledAfter the nearest
	// later one, without those that a calendar excludes. Nil: there is none. The search for an
	// earlier one ends after twelve years.
	ScheduledBefore *time.Time `json:"scheduled_before"`
	ScheduledAfter  *time.Time `json:"scheduled_after"`
	// ManualRuns are the runs that triggers and backfills added for At. They also include runs that
	// were triggered within ten minutes of At. These are searched among the youngest 200 runs that
	// were created before ten minutes after At.
	ManualRuns []storage.Record `json:"manual_runs,omitempty"`
	// CheckedUntil is the job's cursor: scheduled times up to it are decided.
	CheckedUntil *time.Time `json:"checked_until,omitempty"`
	// Notes are further facts, in sentences.
	Notes []string `json:"notes,omitempty"`
}

// Dependency is a job on which the explained job depends, with the outcome of its firing.
type Dependency struct {
	Job     string     `json:"job"`
	Verdict Verdict    `json:"verdict"`
	State   jobs.State `json:"state,omitempty"` // of its last run for the scheduled time
	Summary string     `json:"summary"`
}

// UnknownJobError says that neither this replica nor the store knows a job. An error of an
// [Explainer] suggests a similar name.
type UnknownJobError struct {
	Job  string
	hint string
}

func unknownJob(name string, known []string) *UnknownJobError {
	return &UnknownJobError{Job: name, hint: suggest.Hint(output.Cut(name, 200), known)}
}

// Error names the job and the suggestion, if there is one.
func (e *UnknownJobError) Error() string {
	return fmt.Sprintf("unknown job %q%s", output.Cut(e.Job, 200), e.hint)
}

// Unwrap returns storage.ErrNotFound.
func (e *UnknownJobError) Unwrap() error { return storage.ErrNotFound }
