package engine

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// progressAgain is the time between two looks at a burst of which late firings begin.
	progressAgain = 500 * time.Millisecond
	// progressTTL is how long memcached keeps a progress mark, at least.
	progressTTL = 5 * time.Second
	// longestProgress is how long a replica leaves a burst to others because of progress marks.
	longestProgress = 15 * time.Second
	// slowShare bounds the slow firings of a burst with a progress mark: one in slowShare. On a
	// busy machine, some quick handlers seem to be slow.
	slowShare = 10
)

// progress counts how many firings of a late burst, and of the bursts before it, have begun.
//
// If the replicas of the subset are slow for a while, their firings wait in their queues, but most
// of these still begin in time. If other replicas looked at the gates of all these firings, they
// would cause many requests, and start few firings with each transaction. So an overloaded cluster
// would not recover (decision 157). Therefore a replica that expects to begin the quick firings of
// its queue in time leaves a progress mark for each burst among them, in each second. As long as
// another replica finds such a mark, it leaves the burst to the first replicas of its firings,
// until a leave limit ends or longestProgress has passed. A burst with many slow firings has no
// such mark, because free workers of other replicas help then.
type progress struct {
	latest  time.Time // until when progress marks count
	tries   int       // quick firings that this replica tries, as one of the first three replicas
	slow    int       // firings whose handlers are known to be slow
	settled int       // firings of this and of earlier bursts that have begun since counted
	counted time.Time // when works last returned true; at first, when the first firing was shared
}

// endBefore bounds the time for which progress marks count by the leave limit of a job.
func (m *burst) endBefore(leaveLimit time.Duration) {
	latest := time.UnixMicro(m.start).Add(min(leaveLimit, longestProgress))
	if m.latest.IsZero() || latest.Before(m.latest) {
		m.latest = latest
	}
}

// expect counts a firing that this replica tries. The replica looks early whether these firings are
// late, but not before it has shared the others that it has taken from its timetable with this one.
// The caller holds the lock.
func (l *lookout) expect(m *burst) {
	if m.tries++; m.tries > 1 {
		return
	}
	m.counted = l.clock.now()
	l.tried = append(l.tried, m)
	early := m.early()
	if together := m.counted.Add(markAfter); together.After(early) {
		early = together
	}
	if m.due.After(early) {
		m.due = early
		signal(l.wake)
	}
}

// countProgress counts a firing that is known to be begun. The queue is in the order of time, so it
// is progress for its burst and for all later ones. The caller holds the lock.
func (l *lookout) countProgress(of *burst) {
	for _, m := range l.tried {
		if m.start >= of.start {
			m.settled++
		}
	}
}

// works reports whether firings of the burst are still in the queue of this replica, and will begin
// in time at the rate since works last returned true.
func (l *lookout) works(m *burst, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.begun.number >= m.tries || m.slow*slowShare > m.sum.number {
		return false
	}
	if m.settled == 0 {
		return false
	}
	perFiring := now.Sub(m.counted) / time.Duration(m.settled)
	if now.Add(perFiring * time.Duration(l.ready.len())).After(m.latest) {
		return false
	}
	m.settled, m.counted = 0, now
	return true
}

// showProgress leaves the progress marks of those bursts on which this replica works, and returns
// the others.
func (l *lookout) showProgress(ctx context.Context, due []*burst) []*burst {
	return slices.DeleteFunc(due, func(m *burst) bool {
		now := l.clock.now()
		if m.looked || l.locker == nil || m.sum.number < burstMin || !l.works(m, now) {
			return false
		}
		l.leave(ctx, m.progressMark(now), progressTTL)
		l.lookAgain(m, m.postpone(now))
		return true
	})
}

// othersWork reports whether a replica has left a progress mark for the burst that still counts.
func (l *lookout) othersWork(ctx context.Context, m *burst, now time.Time) bool {
	return now.Before(m.latest) &&
		l.anyMarked(ctx, m.progressMark(now), m.progressMark(now.Add(-time.Second)))
}

// progressMark returns the name of the burst's progress mark of a second.
func (m *burst) progressMark(at time.Time) string {
	return fmt.Sprintf("%s@%d", m.mark(), at.Unix())
}

// postpone returns when to look at the burst again, which is not after latest. From then on, the
// replica waits for the mark as it does for that of a burst that is not late.
func (m *burst) postpone(now time.Time) time.Time {
	window := m.last.Sub(m.first)
	if m.first = now.Add(progressAgain); m.first.After(m.latest) {
		m.first = m.latest
	}
	m.last, m.end = m.first.Add(window), now.Add(burstEnd)
	return m.first
}
