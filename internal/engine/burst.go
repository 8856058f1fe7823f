package engine

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// burstLength is the length of the intervals whose firings form a burst.
	burstLength = 100 * time.Millisecond
	// burstMin is how many firings a burst must have for a mark. If it has fewer, each replica
	// looks at their gates.
	burstMin = 8
	// markAfter is how long after the start of a burst a replica that knows all firings to be begun
	// leaves the mark at the earliest. By then, it has usually taken all firings of the burst from
	// its timetable. It is less than sharedAfter, so that the first look at the burst finds the
	// mark.
	markAfter = 200 * time.Millisecond
	// markAgain is the time between two looks of a replica at the mark of a burst.
	markAgain = 250 * time.Millisecond
	// markTimeout is how long a replica waits at most for the mark.
	markTimeout = time.Second
	// burstEnd is the time after the start of a burst, or after the last progress mark, after
	// which its first replicas neither look at its gates again nor leave a mark.
	burstEnd = 3 * time.Second
)

// burst has the firings that start in the same interval, for all ranks of this replica. It starts
// at the end of the interval. A replica that has at least the rank sharedRank for a firing does not
// look at the firing alone, but at the burst.
//
// A replica knows that a firing is begun if memcached has answered its try, or if it has seen the
// gate as the second or third replica. If it knows this of all firings, it leaves a mark, and all
// replicas that do not know it read only the mark. Its name contains a digest of the firings, so a
// replica with other firings does not find it. If one of the jobs is slow, or if the subset has
// more than three replicas, usually no replica knows all firings.
//
// Replicas also have ranks for the burst itself. If the first ones find no mark, they look at the
// gates of all firings, and leave the mark when all are begun. If another replica finds no mark for
// some time, it looks at all gates itself. It waits for longer while there are progress marks (see
// progress).
type burst struct {
	burstKey
	rank    int       // of this replica for the burst
	due     time.Time // the next look
	first   time.Time // when this replica looks for the mark, at the earliest
	last    time.Time // when it stops waiting for the mark
	end     time.Time // when it stops looking at the gates again
	cohorts []planned // the firings of cohorts that this replica has left to others as a whole
	firings []planned // all other firings
	sum     firingSum // of all firings
	begun   firingSum // of those that this replica knows to be begun
	missing []planned // those that were not begun at the last look
	looked  bool      // this replica has looked at the gates
	progress
}

// firingSum describes a set of firings. It does not depend on the order in which they are added.
type firingSum struct {
	number int
	digest uint64
}

// add adds n firings of a scheduled time. digest is the sum of the digests of their jobs.
func (s *firingSum) add(scheduledAt time.Time, n int, digest uint64) {
	s.number += n
	s.digest += digest * (mix(uint64(scheduledAt.UnixMicro())) | 1)
}

// burstKey identifies a burst to which firings are added.
type burstKey struct {
	start   int64         // the end of its interval of burstLength, in microseconds since 1970
	longest time.Duration // how long a replica leaves its firings to others at most
}

// mayShare rounds the longest delay of a firing down to that of its burst. It returns 0 if the
// firing belongs to no burst, because it must not wait for the look at one. Bursts have few
// different longest delays, so that all replicas form the same bursts.
func mayShare(longest time.Duration) time.Duration {
	for delay := longestAfter; delay >= sharedAfter; delay /= 2 {
		if longest >= delay {
			return delay
		}
	}
	return 0
}

// share adds a firing to its burst, and reports whether it belongs to one.
func (l *lookout) share(p *planned, longest time.Duration, members *members) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.burst = l.burstAt(p.at(), longest, members)
	if p.burst == nil {
		return false
	}
	together := l.clock.now().Add(markAfter)
	if p.burst.sum.number == 0 && p.burst.due.Before(together) {
		p.burst.due = together // this replica is late, and is about to share more firings
	}
	p.burst.firings = append(p.burst.firings, *p)
	p.burst.sum.add(p.scheduledAt, 1, p.entry.digest())
	p.burst.endBefore(p.entry.leaveLimit())
	if !p.entry.quickness.mayBeQuick() {
		p.burst.slow++
	} else if p.rank < sharedRank {
		l.expect(p.burst)
	}
	return true
}

// noteBegun notes that a firing of a burst is known to be begun. When all firings of the burst are,
// this replica leaves the mark, after markAfter at the earliest.
func (l *lookout) noteBegun(m *burst, scheduledAt time.Time, e *entry) {
	if m == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m.begun.add(scheduledAt, 1, e.digest())
	l.countProgress(m)
	if early := m.early(); m.allBegun() && m.due.After(early) {
		m.due = early
		signal(l.wake)
	}
}

// early returns when a replica that tries firings of the burst first leaves a mark.
func (m *burst) early() time.Time { return time.UnixMicro(m.start).Add(markAfter) }

// gathers reports whether firings have been added to a burst at which this replica has not looked.
func (l *lookout) gathers(key burstKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gathering[key] != nil
}

// shareCohort adds all firings of a cohort to their burst, and reports whether they belong to one.
// The burst keeps the list of their entries.
func (l *lookout) shareCohort(p planned, longest time.Duration, members *members) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.burstAt(p.at(), longest, members)
	if m == nil {
		return false
	}
	s := p.cohort.summary
	n := len(p.cohort.entries)
	p.cohort = &cohort{entries: p.cohort.entries} // without those that join it later
	m.cohorts = append(m.cohorts, p)
	m.sum.add(p.scheduledAt, n, s.digest)
	m.endBefore(s.shortest)
	return true
}

// digest returns a hash of the job and of the version of its definition.
func (e *entry) digest() uint64 { return mix(hashText(e.Name) + uint64(e.activeVersion.own())) }

// all returns all firings of the burst, without those that do not count.
func (m *burst) all(now time.Time) []planned {
	for _, p := range m.cohorts {
		for _, e := range p.cohort.entries {
			if !e.gone.Load() && p.scheduledAt.After(e.oldest(now)) {
				m.firings = append(m.firings, planned{scheduledAt: p.scheduledAt, after: p.after,
					ranked: true, rank: sharedRank, entry: e})
			}
		}
	}
	m.cohorts = nil
	return m.firings
}

// burstKeyOf returns the key of the burst to which firings belong that start at a time. longest is
// that of the burst.
func burstKeyOf(at time.Time, longest time.Duration) burstKey {
	start := at.Truncate(burstLength)
	if start.Before(at) {
		start = start.Add(burstLength)
	}
	return burstKey{start.UnixMicro(), longest}
}

// burstAt returns the burst of firings that start at a time, or nil if they belong to none.
func (l *lookout) burstAt(at time.Time, longest time.Duration, members *members) *burst {
	key := burstKeyOf(at, mayShare(longest))
	if key.longest == 0 {
		return nil
	}
	m := l.gathering[key]
	if m == nil {
		m = newBurst(key, members)
		l.gathering[key] = m
		signal(l.wake)
	}
	return m
}

func newBurst(key burstKey, members *members) *burst {
	rank := members.rank(mix(uint64(key.start)^uint64(key.longest)), members.len())
	delay := min(burstDelay(rank), key.longest)
	start := time.UnixMicro(key.start)
	m := &burst{burstKey: key, rank: rank, due: start.Add(delay), end: start.Add(burstEnd)}
	m.first, m.last = m.due, m.due
	if rank >= sharedRank {
		m.last = m.due.Add(min(delay, markTimeout))
	}
	return m
}

// mark returns the name of the burst's mark.
func (m *burst) mark() string {
	return fmt.Sprintf("%d@%d@%d@%x", m.start, m.longest.Milliseconds(), m.sum.number,
		m.sum.digest)
}

// dueBursts removes and returns the bursts at which to look now.
func (l *lookout) dueBursts(now time.Time) (due []*burst) {
	l.mu.Lock()
	defer l.mu.Unlock()
	isDue := func(m *burst) bool {
		if m.due.After(now) {
			return false
		}
		due = append(due, m)
		return true
	}
	for key, m := range l.gathering {
		if isDue(m) {
			delete(l.gathering, key)
		}
	}
	l.open = slices.DeleteFunc(l.open, isDue)
	return due
}

// lookAtBurst looks at a burst. Firings that no replica has begun become turns of this replica.
func (l *lookout) lookAtBurst(ctx context.Context, m *burst) {
	if again := l.lookOnce(ctx, m); !again.IsZero() {
		l.lookAgain(m, again)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tried = slices.DeleteFunc(l.tried, func(other *burst) bool { return other == m })
	// A waiting firing keeps the burst in memory, but needs no list.
	m.cohorts, m.firings, m.missing = nil, nil, nil
}

// lookOnce looks at a burst, and returns when to look again, or the zero time.
func (l *lookout) lookOnce(ctx context.Context, m *burst) time.Time {
	now := l.clock.now()
	if !m.looked {
		few := l.locker == nil || m.sum.number < burstMin
		switch {
		case l.knowsAll(m):
			if !few {
				l.leaveMark(ctx, m)
			}
			return time.Time{}
		case now.Before(m.first):
			return m.first
		case few:
			l.putShared(m.all(now))
			return time.Time{}
		case l.isMarked(ctx, m):
			return time.Time{}
		case l.othersWork(ctx, m, now):
			return m.postpone(now)
		case now.Before(m.last):
			return now.Add(markAgain)
		}
		m.missing = m.all(now)
	}
	missing, err := l.missing(ctx, m.missing)
	if !m.looked {
		l.putShared(missing)
	}
	m.missing, m.looked = missing, true
	switch {
	case err != nil || m.rank >= sharedRank || now.After(m.end):
	case len(missing) > 0:
		return now.Add(pauseFor(missing))
	default:
		l.leaveMark(ctx, m)
	}
	return time.Time{}
}

// pauseFor returns the time until a replica looks again at the gates of these firings: lookoutAgain
// for each request that this takes. In an overloaded cluster, thousands of firings are missing, and
// the looks must not slow down the starts.
func pauseFor(missing []planned) time.Duration {
	requests := (len(missing) + lookoutBatch - 1) / lookoutBatch
	return time.Duration(requests) * lookoutAgain
}

// knowsAll returns allBegun. It takes the lock, because other goroutines may note firings.
func (l *lookout) knowsAll(m *burst) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return m.allBegun()
}

// allBegun reports whether this replica knows that all firings of the burst are begun.
func (m *burst) allBegun() bool { return m.begun == m.sum }

// putShared makes turns of those firings for which this replica has the rank sharedRank. Firings
// for which its rank is lower do not wait for the burst.
func (l *lookout) putShared(firings []planned) {
	for _, p := range firings {
		if p.rank == sharedRank {
			l.put(p.turn())
		}
	}
}

func (l *lookout) lookAgain(m *burst, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m.due = at
	l.open = append(l.open, m)
}

// missing returns the firings whose gates no replica is known to have passed.
func (l *lookout) missing(ctx context.Context, firings []planned) (missing []planned, err error) {
	for batch := range slices.Chunk(firings, lookoutBatch) {
		begun, _, failed := l.begun(ctx, batch)
		for i, p := range batch {
			if !begun[i] {
				missing = append(missing, p)
			}
		}
		if failed != nil {
			err = failed
		}
	}
	return missing, err
}

func (l *lookout) isMarked(ctx context.Context, m *burst) bool {
	return l.anyMarked(ctx, m.mark())
}

func (l *lookout) leaveMark(ctx context.Context, m *burst) {
	l.leave(ctx, m.mark(), gateTTL)
}

// anyMarked reports whether one of the marks exists.
func (l *lookout) anyMarked(ctx context.Context, marks ...string) bool {
	bounded, cancel := context.WithTimeout(ctx, prefilterTimeout)
	defer cancel()
	marked, err := l.locker.Marked(bounded, marks...)
	if err != nil && ctx.Err() == nil {
		l.log.Debug().Err(err).Msg("look at mark failed")
	}
	return len(marked) > 0
}

func (l *lookout) leave(ctx context.Context, mark string, ttl time.Duration) {
	bounded, cancel := context.WithTimeout(ctx, prefilterTimeout)
	defer cancel()
	if err := l.locker.Mark(bounded, mark, ttl); err != nil && ctx.Err() == nil {
		l.log.Debug().Err(err).Msg("leave mark failed")
	}
}
