package jobs

import "time"

// MisfireCheck asks for the scheduled times of one job to be looked through.
type MisfireCheck struct {
	Job   string
	Group string // whose pauses concern it too
	// by whose schedule they are found: nothing is done where another is active
	Version int64
	// the first that may be undecided: nothing is done where the cursor has reached it
	ScheduledAt time.Time
	Until       time.Time // where the cursor moves to
	// Asked is cluster time as the caller had it when it asked. By as much as that
	// is ahead of the store's clock, Until is moved back: nothing is decided on
	// before it is due. Zero leaves Until as it is.
	Asked time.Time
}

// Cursor is how far a job's scheduled times have been checked for misfires, and what there
// is to know of those that come next. It begins where the job is first
// registered, and moves to where a definition with other scheduled times comes into force,
// or the job comes back after it was Absence: scheduled times count from there.
type Cursor struct {
	CheckedUntil time.Time
	// Until is where it moves to: as the check says, but not to where a pause
	// began that stands. What is due in a pause is decided when that is over.
	Until   time.Time
	Started []time.Time // scheduled times after CheckedUntil that have a run or a record, sorted
	// the latest due of a run of the job that waits and has not started; zero where there is none
	Waits  time.Time
	Pauses []Pause // that cover the job and stood after CheckedUntil, the oldest first
	Spans  []Span  // in which replicas were up, in no order
	// Absence is when no replica carried the job, the last time that this was so
	// and not for longer than the constant; zero where it never was.
	Absence Span
}

// Span is a time in which a replica was up, as far as its heartbeats say. Of
// what ended more than an hour ago only the last is known.
type Span struct {
	From  time.Time
	Until time.Time // of one that lives: until when it does by its last heartbeat
}

// Cursor returns the cursor that a job has which stands there, given pauses of
// any jobs, the oldest first. Decided tells whether there is anything to be
// looked at; Started and Waits are for the store to fill in then. now is the
// store's clock.
func (c MisfireCheck) Cursor(at, now time.Time, pauses []Pause, spans []Span, away Span) Cursor {
	if ahead := c.Asked.Sub(now); !c.Asked.IsZero() && ahead > 0 {
		c.Until = c.Until.Add(-ahead).Truncate(time.Microsecond)
	}
	cursor := Cursor{CheckedUntil: at, Until: c.Until, Spans: spans, Absence: away}
	for _, p := range pauses {
		if !p.Covers(c.Job, c.Group) || p.ResumedAt != nil && !p.ResumedAt.After(at) {
			continue
		}
		cursor.Pauses = append(cursor.Pauses, p)
		if before := p.At.Add(-time.Microsecond); p.ResumedAt == nil &&
			before.Before(cursor.Until) {
			cursor.Until = before
		}
	}
	return cursor
}

// Decided reports whether nothing is to be done about the scheduled time now: it is
// decided, or will be when a pause is over.
func (c Cursor) Decided(scheduledAt time.Time) bool {
	return !c.CheckedUntil.Before(scheduledAt) || c.Until.Before(scheduledAt)
}

// PauseTargets returns what may be paused for the checks, each once.
func PauseTargets(checks []MisfireCheck) []Target {
	targets, seen := []Target{{Kind: TargetAll}}, map[string]bool{"": true}
	for _, c := range checks {
		targets = append(targets, Target{Kind: TargetJob, Name: c.Job})
		if !seen[c.Group] {
			seen[c.Group] = true
			targets = append(targets, Target{Kind: TargetGroup, Name: c.Group})
		}
	}
	return targets
}

// pausedAt returns the pause that the scheduled time falls into.
func (c Cursor) pausedAt(scheduledAt time.Time) (Pause, bool) {
	for _, p := range c.Pauses {
		if !scheduledAt.Before(p.At) && (p.ResumedAt == nil || scheduledAt.Before(*p.ResumedAt)) {
			return p, true
		}
	}
	return Pause{}, false
}

// upThrough reports whether a replica was up from the one instant to the other.
func (c Cursor) upThrough(from, until time.Time) bool {
	for _, s := range c.Spans {
		if !s.From.After(from) && !s.Until.Before(until) {
			return true
		}
	}
	return false
}

// carriedThrough reports whether nothing is known of a time between the two
// instants in which no replica carried the job.
func (c Cursor) carriedThrough(from, until time.Time) bool {
	return c.Absence.Until.Before(from) || until.Before(c.Absence.From)
}

// downSince returns when the last replica was up that was so before then; zero
// where that is not known.
func (c Cursor) downSince(then time.Time) time.Time {
	var last time.Time
	for _, s := range c.Spans {
		if !s.From.After(then) && s.Until.After(last) {
			last = s.Until
		}
	}
	return last
}
