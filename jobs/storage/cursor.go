package storage

import "time"

// MisfireCheck asks to check the scheduled times of one job for misfires.
type MisfireCheck struct {
	Job   string
	Group string // of the job
	// of the definition; the check is skipped if another one is active
	Version int64
	// the first scheduled time to check; the check is skipped if the cursor has reached it
	ScheduledAt time.Time
	Until       time.Time // the new position of the cursor
	// Last is the last scheduled time that the check may decide, if it is after Until. The check
	// then decides scheduled times after one that stops the cursor.
	Last time.Time
	// CallerTime is the caller's cluster time; zero: not compared. If it is ahead of the store's
	// clock, Until and Last move back by the difference.
	CallerTime time.Time
}

// Cursor is the misfire cursor of a job, with what the store knows of the next scheduled times. It
// starts when the job is first registered. It moves to the present in two cases:
//
//   - A definition with other scheduled times becomes active.
//   - A job that counts as removed (see MaxAbsence) returns.
type Cursor struct {
	CheckedUntil time.Time
	// Until is the new position. It stays before the start of an active pause, so that scheduled
	// times are decided after the pause.
	Until time.Time
	Last  time.Time // the last scheduled time that may be decided; never before Until
	// scheduled times after CheckedUntil, up to Last, that have a run or a record, sorted
	Started []time.Time
	// the latest scheduled time of a waiting run that never started; zero if there is none
	Waits  time.Time
	Pauses []Pause // pauses that cover the job and were active after CheckedUntil, the oldest first
	Spans  []Span  // in no order
	// Absence is the last absence of the job, if the job has returned before it counted as removed;
	// otherwise zero.
	Absence Span
}

// Span is a time in which a replica was up. If several spans ended more than SessionsKept ago, the
// store knows only the last of them.
type Span struct {
	From  time.Time
	Until time.Time // of a live session: its expiry
}

// Cursor returns the cursor of the job, without Started and Waits. The argument at is its
// CheckedUntil, away is its Absence, and now is the time of the store's clock. The pauses may be of
// any jobs, the oldest first.
func (c MisfireCheck) Cursor(at, now time.Time, pauses []Pause, spans []Span, away Span) Cursor {
	if c.Last.Before(c.Until) {
		c.Last = c.Until
	}
	if ahead := c.CallerTime.Sub(now); !c.CallerTime.IsZero() && ahead > 0 {
		c.Until = c.Until.Add(-ahead).Truncate(time.Microsecond)
		c.Last = c.Last.Add(-ahead).Truncate(time.Microsecond)
	}
	cursor := Cursor{CheckedUntil: at, Until: c.Until, Last: c.Last, Spans: spans, Absence: away}
	for _, p := range pauses {
		if !p.Covers(c.Job, c.Group) || p.ResumedAt != nil && !p.ResumedAt.After(at) {
			continue
		}
		cursor.Pauses = append(cursor.Pauses, p)
		if before := p.At.Add(-time.Microsecond); p.ResumedAt == nil {
			cursor.Until = earlier(cursor.Until, before)
			cursor.Last = earlier(cursor.Last, before)
		}
	}
	return cursor
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Decided reports whether the scheduled time needs no decision now: the cursor has passed it, a
// pause that covers it has not ended, or the check does not extend to it.
func (c Cursor) Decided(scheduledAt time.Time) bool {
	return !c.CheckedUntil.Before(scheduledAt) || c.Last.Before(scheduledAt)
}

// PauseTargets returns each target whose pause could apply to one of the checks.
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

// PausedAt returns the pause that covers the scheduled time.
func (c Cursor) PausedAt(scheduledAt time.Time) (Pause, bool) {
	for _, p := range c.Pauses {
		if !scheduledAt.Before(p.At) && (p.ResumedAt == nil || scheduledAt.Before(*p.ResumedAt)) {
			return p, true
		}
	}
	return Pause{}, false
}

// UpDuring reports whether one replica was up for the whole time.
func (c Cursor) UpDuring(from, until time.Time) bool {
	for _, s := range c.Spans {
		if !s.From.After(from) && !s.Until.Before(until) {
			return true
		}
	}
	return false
}

// PresentDuring reports whether the Absence does not overlap the time.
func (c Cursor) PresentDuring(from, until time.Time) bool {
	return c.Absence.Until.Before(from) || until.Before(c.Absence.From)
}

// DownSince returns the latest end of the spans that began before that time; zero if it is unknown.
func (c Cursor) DownSince(then time.Time) time.Time {
	var last time.Time
	for _, s := range c.Spans {
		if !s.From.After(then) && s.Until.After(last) {
			last = s.Until
		}
	}
	return last
}
