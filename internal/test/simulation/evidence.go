package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Evidence is the state that a cluster left, for the oracle to judge.
type Evidence struct {
	Jobs       map[string]*History
	Records    []storage.Record // all runs
	Executions []Execution
	Pauses     []storage.Pause
	Triggered  []Triggered
	// runs that an operator cancelled, with the time of the answer
	Cancelled map[uuid.UUID]time.Time
	Released  map[uuid.UUID]time.Time // runs whose locks an operator released
	Changes   []Change
	Drains    []Drained
	Decisions []Decision // of misfire checks, where they are known
	Sessions  []SessionSpan

	// Until is the time by which everything must have ended. The cluster ran on after it.
	Until time.Time
	// Margin bounds the error of replicas about the store's clock.
	Margin time.Duration
	// Obeyed is the longest time until replicas know of an action, without faults. 0 disables the
	// check.
	Obeyed time.Duration
	// PauseTakes bounds the time from a pause's own time to its commit. Starts that were decided in
	// between do not see it. 0 means none.
	PauseTakes time.Duration
	// Workers is the number of workers of each replica. 0 means unknown.
	Workers int
	// Hindered lists when a fault of its process or of its connection to the store kept a replica
	// from starting its firings. Faults of the advisory locks do not count. It is known together
	// with Workers.
	Hindered []Interval
	// Disturbed lists the faults, each from its beginning to the end of its consequences. nil
	// disables the checks that need it.
	Disturbed []Interval
}

// History lists the active definitions of a job.
type History struct {
	Periods []ActivePeriod // the oldest first
	Cursor  time.Time      // scheduled times up to here are decided in the end
	Carried bool           // some replica had it at the end
}

// ActivePeriod is the interval in which a definition was active.
type ActivePeriod struct {
	Job jobs.Job
	At  time.Time
	// Scheduled times of the former definition count up to Checked, those of this one from Counted
	// on, both exclusive.
	Checked, Counted time.Time
	Removed          bool // the job was removed; Job is its former definition
}

// Triggered is a run with which the store answered a trigger.
type Triggered struct {
	Run            uuid.UUID
	Request        storage.TriggerRequest
	Sent, Answered time.Time
}

// Change is a change of a job that was added at run time.
type Change struct {
	Job            string
	Description    string // of the definition; "" to remove the job
	Round          int    // number of a group of concurrent changes, of which one can win
	Sent, Answered time.Time
	Lost           bool // another change of the round won
}

// Drained is an interval in which a process of a replica was drained.
type Drained struct {
	Process uint64
	Interval
}

// Decision is the record of a misfire check on one scheduled time. Records of one check of a job
// have the same time.
type Decision struct {
	At time.Time
	storage.Misfired
}

// SessionSpan is the interval of one session from its start to its last heartbeat, and its TTL
// after that.
type SessionSpan struct {
	Replica             string
	From, LastHeartbeat time.Time
	TTL                 time.Duration
	Gone                time.Time            // when the store may have forgotten it; zero: never
	Took                map[string]time.Time // by job: the time since which the session has had it
}

// Interval is a time interval that includes its end.
type Interval struct{ From, To time.Time }

// at returns the definition that was active then, or nil.
func (h *History) at(t time.Time) *ActivePeriod {
	for i, f := range slices.Backward(h.Periods) {
		if !f.At.After(t) {
			return &h.Periods[i]
		}
	}
	return nil
}

// removed reports whether the job was removed in the end.
func (h *History) removed() bool { return h.Periods[len(h.Periods)-1].Removed }

// between returns the definitions that were active at any time of the interval.
func (h *History) between(from, to time.Time) (periods []ActivePeriod) {
	for i, f := range h.Periods {
		if !f.Removed && !f.At.After(to) &&
			(i+1 == len(h.Periods) || h.Periods[i+1].At.After(from)) {
			periods = append(periods, f)
		}
	}
	return periods
}

// near reports whether the active definition changed within d of then.
func (h *History) near(t time.Time, d time.Duration) bool {
	return slices.ContainsFunc(h.Periods, func(f ActivePeriod) bool {
		return f.At.Sub(t).Abs() <= d
	})
}

// quiet reports whether the interval has no fault.
func (e *Evidence) quiet(from, to time.Time) bool {
	return e.Disturbed != nil && !anyMeets(e.Disturbed, from, to)
}

// anyMeets reports whether one of the intervals overlaps with the given one.
func anyMeets(intervals []Interval, from, to time.Time) bool {
	return slices.ContainsFunc(intervals, func(i Interval) bool {
		return !i.From.After(to) && !from.After(i.To)
	})
}

// quietFor is quiet for a job, for which a pause counts too.
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

// pausedWithin reports whether the job was paused at any time of the interval, or resumed shortly
// before.
func (o *oracle) pausedWithin(job, group string, from, to time.Time) bool {
	return slices.ContainsFunc(o.Pauses, func(p storage.Pause) bool {
		return p.Covers(job, group) && !p.At.After(to) &&
			(p.ResumedAt == nil || p.ResumedAt.Add(o.Margin).After(from))
	})
}

// Report is the result of the oracle.
type Report struct {
	ScheduledTimes int // that counted
	Collective     int // of them, part of a collective record
	Excluded       int // also excluded by calendars
	States         map[jobs.State]int
	Executions     int
	Violations     []string
	more           int
}

const maxViolations = 40

func (v *Report) violate(format string, args ...any) {
	if len(v.Violations) == maxViolations {
		v.more++
		return
	}
	v.Violations = append(v.Violations, fmt.Sprintf(format, args...))
}

// String returns the counts as text.
func (v *Report) String() string {
	text := fmt.Sprintf("%d scheduled times, %d of them in collective records, %d excluded "+
		"besides, "+
		"%d calls of handlers;", v.ScheduledTimes, v.Collective, v.Excluded, v.Executions)
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
