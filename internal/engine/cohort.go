package engine

import "time"

// summaryTTL is how long the summary of a cohort is used. The mean times of its handlers may
// change meanwhile. It is as long as half the period of a subset.
const summaryTTL = 30 * time.Second

// cohort is the jobs of a schedule that are planned for the same scheduled time. The timetable has
// one item for all of them. So a replica that leaves all these firings to others need not look at
// each job. A cohort belongs to the dispatcher's goroutine.
type cohort struct {
	// entries are only appended to, because bursts have parts of the list.
	entries []*entry
	summary summary
}

// summary describes the jobs of a cohort, so that a replica can leave their firings to others. It
// only decides which replicas try a firing first, so it may be out of date.
type summary struct {
	entries  int // that it describes; 0: there is no summary
	revision int // of the dispatcher's jobs
	until    time.Time

	undelayed bool          // the firings start at their scheduled time
	quickTime time.Duration // the sum for all jobs
	// surelyQuick: all jobs are quick on other replicas too, and this replica may fire all of them
	surelyQuick       bool
	shortest, longest time.Duration // the leave limits of the jobs
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
	s := summary{entries: len(c.entries), revision: d.revision, until: now.Add(summaryTTL),
		undelayed: first.Schedule.MaxDelay() == 0, surelyQuick: true,
		shortest: first.leaveLimit(), longest: first.leaveLimit()}
	for _, e := range c.entries {
		s.quickTime += e.quickness.quickTime()
		s.surelyQuick = s.surelyQuick && !e.quickness.mayBeSlow() && !e.gone.Load() &&
			!d.isSuspended(e)
		s.shortest, s.longest = min(s.shortest, e.leaveLimit()), max(s.longest, e.leaveLimit())
		s.digest += e.digest()
	}
	c.summary = s
}

// leaveCohort leaves all firings of a cohort that was popped to other replicas, and plans the next
// ones. It returns false if this replica must handle the firings one by one.
func (d *dispatcher) leaveCohort(p planned, now time.Time) bool {
	if d.subsets.members.len() <= sharedRank || !d.subsets.isOutside() {
		return false
	}
	next, longest := d.longestOf(p)
	if now.Sub(p.at()) >= longest+sharedAfter ||
		!d.lookout.shareCohort(p, longest, d.subsets.members) {
		return false
	}
	d.timetable.planCohort(p.cohort, next)
	return true
}

// longestOf returns the next scheduled time of a cohort, and the longest delay of the burst to
// which this replica may add all firings of the cohort together. The delay is 0 if the replica must
// handle them one by one.
func (d *dispatcher) longestOf(p planned) (next time.Time, longest time.Duration) {
	s := &p.cohort.summary
	next = d.next.of(p.cohort.entries[0].Schedule, p.scheduledAt)
	longest = mayShare(longestDelay(s.longest, p.scheduledAt, next))
	if !s.surelyQuick || !s.undelayed ||
		longest != mayShare(longestDelay(s.shortest, p.scheduledAt, next)) {
		return next, 0
	}
	return next, longest
}

// rest returns how long after its time this replica may take the earliest item from the timetable.
// If the item is a cohort that it will leave to others, it does this when it looks at the burst. So
// it wakes once and not twice.
//
// The replica does not rest in these cases:
//   - Another item is due before that look. The firings of both may be too many for the subset.
//   - Another item is due so soon after that look that it would be taken late (see gathersFor).
//   - The burst already has firings. The look at them would not wait for the cohort.
//   - The ranking expires before that look.
func (d *dispatcher) rest() time.Duration {
	now := time.Now()
	members := d.ranking.at(now)
	if members.len() <= sharedRank {
		return 0
	}
	p, second := d.timetable.firstTwo()
	onOwnClock := func(at time.Time) time.Time { return now.Add(at.Sub(d.clock.now())) }
	if p.cohort == nil ||
		!p.cohort.summary.isCurrent(len(p.cohort.entries), d.revision, onOwnClock(p.at())) ||
		!d.subsets.willBeOutside(members, p) {
		return 0
	}
	_, longest := d.longestOf(p)
	key := burstKeyOf(p.at(), longest)
	if longest == 0 || d.lookout.gathers(key) {
		return 0
	}
	due := newBurst(key, members).due
	if !second.IsZero() && second.Before(due.Add(d.pace)) || onOwnClock(due).After(members.until) {
		return 0
	}
	return due.Sub(p.at())
}
