package storage

import "time"

// MisfireCheck asks the store to check the scheduled times of one job for misfires.
type MisfireCheck struct {
	Job   string
	Group string // pauses of the group apply too
	// the version of the definition; the check is skipped if another one is active
	Version int64
	// the first scheduled time without a decision; the check is skipped if the cursor has reached
	// it
	ScheduledAt time.Time
	Until       time.Time // the new position of the cursor
	// CallerTime is the caller's cluster time. If it is ahead of the store's clock, Until moves
	// back by the difference, so that no scheduled time is decided before it is due. Zero leaves
	// Until as it is.
	CallerTime time.Time
}

// Cursor is how far the scheduled times of a job have been checked for misfires, with what the
// store knows of the next ones. The cursor starts when the job is first registered. It moves to the
// present when a definition with other scheduled times becomes active, and when the job returns
// after more than MaxAbsence.
type Cursor struct {
	CheckedUntil time.Time
	// Until is the new position. It stays before the start of an active pause: scheduled times
	// within a pause are decided when the pause has ended.
	Until   time.Time
	Started []time.Time // scheduled times after CheckedUntil that have a run or a record, sorted
	// the latest scheduled time of a waiting run of the job that never started; zero if there is
	// none
	Waits  time.Time
	Pauses []Pause // pauses that cover the job and were active after CheckedUntil, the oldest first
	Spans  []Span  // when replicas were up, in no order
	// Absence is the last time in which no replica had the job, if it was not longer than
	// MaxAbsence; zero if there was none.
	Absence Span
}

// Span is a time in which a replica was up, according to its heartbeats. Of the spans that ended
// more than an hour ago only the last is known.
type Span struct {
	From  time.Time
	Until time.Time // for a live session its expiry
}

// Cursor returns the cursor of the job to check. The argument at is the CheckedUntil of the job,
// away is its Absence, and now is the time of the store's clock. The pauses may be of any jobs, the
// oldest first. Cursor does not set Started and Waits: the store sets them if Decided returns false
// for the ScheduledAt of the check.
func (c MisfireCheck) Cursor(at, now time.Time, pauses []Pause, spans []Span, away Span) Cursor {
	if ahead := c.CallerTime.Sub(now); !c.CallerTime.IsZero() && ahead > 0 {
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

// Decided reports whether the scheduled time needs no decision now: it has one, or its pause has
// not ended.
func (c Cursor) Decided(scheduledAt time.Time) bool {
	return !c.CheckedUntil.Before(scheduledAt) || c.Until.Before(scheduledAt)
}

// PauseTargets returns every target whose pause could apply to one of the checks, each once.
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

// PresentDuring reports whether no absence of the job overlaps the time.
func (c Cursor) PresentDuring(from, until time.Time) bool {
	return c.Absence.Until.Before(from) || until.Before(c.Absence.From)
}

// DownSince returns the end of the last span that began before that time; zero if it is unknown.
func (c Cursor) DownSince(then time.Time) time.Time {
	var last time.Time
	for _, s := range c.Spans {
		if !s.From.After(then) && s.Until.After(last) {
			last = s.Until
		}
	}
	return last
}
