package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Evidence is what a cluster left behind, for the oracle to judge.
type Evidence struct {
	Jobs       map[string]*History
	Records    []jobs.Record // every run there is
	Executions []Execution
	Pauses     []jobs.Pause
	Triggered  []uuid.UUID        // runs that were promised to whoever triggered them
	Cancelled  map[uuid.UUID]bool // runs that somebody asked to end: they are not recovered

	// Until is up to where all must have ended: the cluster had time after it.
	Until time.Time
	// Margin is how far replicas may be mistaken about the store's clock.
	Margin time.Duration
	// Disturbed is when something was wrong, from its beginning until all that
	// follows from it was over. Where it is nil nobody asks what was wrong.
	Disturbed []Interval
}

// History is which definitions of a job were in force.
type History struct {
	Forces  []Force   // the oldest first
	Cursor  time.Time // dues up to here are decided in the end
	Carried bool      // some replica had it at the end
}

// Force is a definition that came into force.
type Force struct {
	Job jobs.Job
	At  time.Time
	// Dues of the definition before count up to Checked, those of this one from
	// Counted on; both without what they name.
	Checked, Counted time.Time
}

// Interval is a time, its end included.
type Interval struct{ From, To time.Time }

// at returns what was in force then, or nil.
func (h *History) at(t time.Time) *Force {
	for i, f := range slices.Backward(h.Forces) {
		if !f.At.After(t) {
			return &h.Forces[i]
		}
	}
	return nil
}

// near reports whether something came into force within d of then.
func (h *History) near(t time.Time, d time.Duration) bool {
	return slices.ContainsFunc(h.Forces, func(f Force) bool { return f.At.Sub(t).Abs() <= d })
}

// quiet reports whether nothing was wrong from then to then.
func (e *Evidence) quiet(from, to time.Time) bool {
	if e.Disturbed == nil {
		return false
	}
	return !slices.ContainsFunc(e.Disturbed, func(d Interval) bool { return !d.From.After(to) && !from.After(d.To) })
}

// Verdict is what the oracle found.
type Verdict struct {
	Dues       int // that counted
	Told       int // of them, told of collectively
	Excluded   int // by calendars, besides
	States     map[jobs.State]int
	Executions int
	Violations []string
	more       int
}

const maxViolations = 40

func (v *Verdict) violate(format string, args ...any) {
	if len(v.Violations) == maxViolations {
		v.more++
		return
	}
	v.Violations = append(v.Violations, fmt.Sprintf(format, args...))
}

// String tells the numbers.
func (v *Verdict) String() string {
	text := fmt.Sprintf("%d dues, %d of them told of together, %d excluded besides, %d calls of handlers;", v.Dues, v.Told, v.Excluded, v.Executions)
	for _, state := range jobs.States() {
		if n := v.States[state]; n > 0 {
			text += fmt.Sprintf(" %d %s", n, state)
		}
	}
	if n := len(v.Violations) + v.more; n > 0 {
		text += fmt.Sprintf("; %d violations", n)
	}
	return text
}
