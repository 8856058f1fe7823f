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
	Triggered  []Triggered
	// runs that somebody asked to end, with when that was answered
	Cancelled map[uuid.UUID]time.Time
	Released  map[uuid.UUID]time.Time // runs whose locks somebody took away, likewise
	Changes   []Change
	Drains    []Drained
	Decisions []Decision // of misfire checks, where they are known
	Lives     []Life

	// Until is up to where all must have ended: the cluster had time after it.
	Until time.Time
	// Margin is how far replicas may be mistaken about the store's clock.
	Margin time.Duration
	// Obeyed is how long it takes at most until replicas have heard of an action,
	// while nothing is wrong. 0 is not asked.
	Obeyed time.Duration
	// Workers is how many firings each replica has at work at once. 0 is not known.
	Workers int
	// Hindered is when something kept a replica from starting what it had taken: its
	// process or its way to the store, not the advisory locks. It is known with Workers.
	Hindered []Interval
	// Disturbed is when something was wrong, from its beginning until all that
	// follows from it was over. Where it is nil nobody asks what was wrong.
	Disturbed []Interval
}

// History is which definitions of a job were active.
type History struct {
	Forces  []Force   // the oldest first
	Cursor  time.Time // scheduled times up to here are decided in the end
	Carried bool      // some replica had it at the end
}

// Force is a definition that came into force.
type Force struct {
	Job jobs.Job
	At  time.Time
	// Scheduled times of the definition before count up to Checked, those of this one from
	// Counted on; both without what they name.
	Checked, Counted time.Time
	Removed          bool // the job was, and has no scheduled times; Job is what it was
}

// Triggered is a run that was promised to whoever triggered it.
type Triggered struct {
	Run        uuid.UUID
	Request    jobs.TriggerRequest
	Sent, Told time.Time
}

// Change is one of a job that was added at run time.
type Change struct {
	Job         string
	Description string // of the definition; "" where the job was to be removed
	Round       int    // the same for those that were asked for at once, of which one can win
	Sent, Told  time.Time
	Lost        bool // another of the round won
}

// Drained is when a replica was drained, for as long as that life of it lasted.
type Drained struct {
	Life uint64
	Interval
}

// Decision is what a misfire check wrote of one scheduled time; those of one check of a job
// have the same time.
type Decision struct {
	At time.Time
	jobs.Misfired
}

// Life is the time of one session, from its beginning to the last time that it
// was confirmed, and how long after that it may have lived.
type Life struct {
	Replica    string
	From, Beat time.Time
	TTL        time.Duration
	Gone       time.Time            // when the store may have forgotten it; zero: never
	Took       map[string]time.Time // since when it carried each job
}

// Interval is a time, its end included.
type Interval struct{ From, To time.Time }

// at returns what was active then, or nil.
func (h *History) at(t time.Time) *Force {
	for i, f := range slices.Backward(h.Forces) {
		if !f.At.After(t) {
			return &h.Forces[i]
		}
	}
	return nil
}

// removed reports whether the job was, in the end.
func (h *History) removed() bool { return h.Forces[len(h.Forces)-1].Removed }

// between returns what was active at any time from then to then.
func (h *History) between(from, to time.Time) (forces []Force) {
	for i, f := range h.Forces {
		if !f.Removed && !f.At.After(to) && (i+1 == len(h.Forces) || h.Forces[i+1].At.After(from)) {
			forces = append(forces, f)
		}
	}
	return forces
}

// near reports whether something came into force within d of then.
func (h *History) near(t time.Time, d time.Duration) bool {
	return slices.ContainsFunc(h.Forces, func(f Force) bool { return f.At.Sub(t).Abs() <= d })
}

// quiet reports whether nothing was wrong from then to then.
func (e *Evidence) quiet(from, to time.Time) bool {
	return e.Disturbed != nil && !anyMeets(e.Disturbed, from, to)
}

// anyMeets reports whether one of the intervals has an instant from then to then.
func anyMeets(intervals []Interval, from, to time.Time) bool {
	return slices.ContainsFunc(intervals, func(i Interval) bool {
		return !i.From.After(to) && !from.After(i.To)
	})
}

// quietFor is quiet for a job, of which a pause is told.
func (o *oracle) quietFor(job string, from, to time.Time) bool {
	if !o.quiet(from, to) {
		return false
	}
	group := ""
	if h := o.Jobs[job]; h != nil {
		if f := h.at(from); f != nil {
			group = f.Job.Group
		}
	}
	return !o.pausedWithin(job, group, from, to)
}

// pausedWithin reports whether the job was paused at any time from then to then, or
// resumed shortly before.
func (o *oracle) pausedWithin(job, group string, from, to time.Time) bool {
	return slices.ContainsFunc(o.Pauses, func(p jobs.Pause) bool {
		return p.Covers(job, group) && !p.At.After(to) &&
			(p.ResumedAt == nil || p.ResumedAt.Add(o.Margin).After(from))
	})
}

// Verdict is what the oracle found.
type Verdict struct {
	ScheduledTimes int // that counted
	Told           int // of them, told of collectively
	Excluded       int // by calendars, besides
	States         map[jobs.State]int
	Executions     int
	Violations     []string
	more           int
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
	text := fmt.Sprintf("%d scheduled times, %d of them told of together, %d excluded besides, "+
		"%d calls of handlers;", v.ScheduledTimes, v.Told, v.Excluded, v.Executions)
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
