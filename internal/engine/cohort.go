package engine

import "time"

// summaryLives is how long the summary of a cohort is used. The handlers of its jobs may take
// another time meanwhile.
const summaryLives = 5 * time.Second

// cohort is the jobs of a schedule that are planned for the same scheduled time. The timetable has
// one item for all of them. So a replica that leaves all these firings to others need not look at
// each job. A cohort belongs to the dispatcher's goroutine.
type cohort struct {
	// entries are only appended to, because bursts have parts of the list.
	entries []*entry
	summary summary
}

// summary is what a replica needs to know of the jobs of a cohort to leave their firings to others.
// It only decides which replicas try a firing first, so it may be out of date.
type summary struct {
	entries  int // that it describes; 0: there is no summary
	revision int // of the dispatcher's jobs
	until    time.Time

	undelayed bool          // the firings start at their scheduled time
	quickTime time.Duration // the sum for all jobs
	// surelyQuick: all jobs are quick on other replicas too, and this replica may fire all of them
	surelyQuick       bool
	shortest, longest time.Duration // the patience of the jobs
	digest            uint64        // the sum of the jobs' digests
}

// isCurrent reports whether the summary may still be used.
func (s *summary) isCurrent(entries, revision int, now time.Time) bool {
	return s.entries == entries && s.revision == revision && now.Before(s.until)
}

// summarize makes the summary of a cohort, unless it has a current one. now is a time of this
// machine's clock.
func (d *dispatcher) summarize(c *cohort, now time.Time) {
	if c.summary.isCurrent(len(c.entries), d.revision, now) {
		return
	}
	first := c.entries[0]
	s := summary{entries: len(c.entries), revision: d.revision, until: now.Add(summaryLives),
		undelayed: first.Schedule.MaxDelay() == 0, surelyQuick: true,
		shortest: first.patience(), longest: first.patience()}
	for _, e := range c.entries {
		s.quickTime += e.quickness.quickTime()
		s.surelyQuick = s.surelyQuick && !e.quickness.mayBeSlow() && !e.gone.Load() &&
			!d.isSuspended(e)
		s.shortest, s.longest = min(s.shortest, e.patience()), max(s.longest, e.patience())
		s.digest += e.digest()
	}
	c.summary = s
}

// leaveCohort leaves all firings of a cohort that was popped to other replicas, and plans the next
// ones. It returns false if this replica must handle the firings one by one.
func (d *dispatcher) leaveCohort(p planned, now time.Time) bool {
	s := &p.cohort.summary
	if d.subsets.members.len() <= sharedRank || !s.surelyQuick || !s.undelayed ||
		now.Sub(p.at()) >= sharedAfter || !d.subsets.isOutside() {
		return false
	}
	next := d.next.of(p.cohort.entries[0].Schedule, p.scheduledAt)
	longest := mayShare(longestDelay(s.longest, p.scheduledAt, next))
	if longest != mayShare(longestDelay(s.shortest, p.scheduledAt, next)) ||
		!d.lookout.shareCohort(p, longest, d.subsets.members) {
		return false
	}
	d.timetable.planCohort(p.cohort, next)
	return true
}
