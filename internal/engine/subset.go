package engine

import "time"

const (
	// subsetPeriod is how long the same replicas try quick firings first. So their memory, their
	// connections and the plans of their statements stay in use, and other replicas can rest. The
	// first transactions of a connection that was idle cost twice as much as later ones (decision
	// 156).
	subsetPeriod = time.Minute
	// subsetInterval is the length of the intervals whose firings decide how many replicas share
	// them.
	subsetInterval = 200 * time.Millisecond
	// subsetTime is how long the quick firings of an interval take on a replica of a subset, one
	// after the other, at most. So they delay each other little, and use at most a quarter of a
	// processor.
	subsetTime = 50 * time.Millisecond
	// firingTime is about how long a firing takes on its replica, without its handler. It was
	// measured with 1,000 firings a second (decision 146).
	firingTime = 60 * time.Microsecond
	// subsetGrowth is how many times as large as a subset the next larger one is.
	subsetGrowth = 4
)

// subsets select the replicas that try quick firings first. If all replicas shared them, each would
// have few of them, and the cost of their requests and transactions would grow with the number of
// replicas. Quick handlers take so little time that few replicas are enough for them. All other
// firings are shared by all replicas.
//
// A subset has at least sharedRank replicas. The rendezvous hash of the period selects them, so
// that all replicas have the same share in the long run. A larger subset of a period includes the
// smaller ones.
//
// Replicas measure different times for the same handlers. If the sum of its times is near the limit
// of a size, a replica ranks itself in the subset of this size and in the next larger one, and
// takes the lower rank. Two replicas may then try a firing at once. But as long as no replica
// measures more than 1.5 times the time of another one, a replica of rank 0 tries each firing.
//
// A value of subsets belongs to one goroutine.
type subsets struct {
	members *members // all live replicas
	period  int64    // of the firings that are due
	// The next fields are of the firings that were due since the interval began.
	interval int64
	firings  int
	handlers time.Duration // the sum of the mean times of their quick handlers

	sizes []int // of the subsets for the firings that are due: one, or two
	last  [2]subset
}

// subset is the subset of a size for a period.
type subset struct {
	of      *members
	size    int
	period  int64
	members *members // nil: this replica is not one of them
}

// load selects the sizes for firings that are due at the same time. members are the live replicas.
func (s *subsets) load(members *members, due []planned) {
	s.members, s.sizes = members, append(s.sizes[:0], sharedRank)
	if members.len() <= sharedRank || len(due) == 0 {
		return
	}
	interval := due[0].at().UnixMicro() / subsetInterval.Microseconds()
	s.period = periodOf(due[0].at())
	if interval != s.interval {
		s.interval, s.firings, s.handlers = interval, 0, 0
	}
	for _, p := range due {
		switch {
		case p.cohort != nil:
			if p.cohort.summary.undelayed {
				s.firings += len(p.cohort.entries)
				s.handlers += p.cohort.summary.quickTime
			}
		case p.ranked, !p.delayed && p.entry.Schedule.MaxDelay() > 0:
			// it was due before, or starts later
		default:
			s.firings++
			s.handlers += p.entry.quickness.quickTime()
		}
	}
	// The second estimate of the handlers' time is 1.5 times the first one.
	rest := time.Duration(s.firings) * firingTime
	s.sizes[0] = s.sizeFor(rest + s.handlers*4/5)
	if size := s.sizeFor(rest + s.handlers*6/5); size != s.sizes[0] {
		s.sizes = append(s.sizes, size)
	}
}

// periodOf returns the number of the period of a time. Periods begin half a minute after whole
// minutes. The largest bursts are at whole minutes, and should not be the first ones of a subset.
func periodOf(at time.Time) int64 {
	return at.Add(subsetPeriod/2).UnixMicro() / subsetPeriod.Microseconds()
}

// sizeFor returns the size of a subset for firings that take so long.
func (s *subsets) sizeFor(all time.Duration) int {
	size := sharedRank
	for all > time.Duration(size)*subsetTime && size < s.members.len() {
		size *= subsetGrowth
	}
	return size
}

// rank returns this replica's rank for a firing, at most sharedRank, or unranked if the live
// replicas are not known.
func (s *subsets) rank(p *planned, hash uint64) int {
	if s.members.len() <= s.sizes[0] {
		return s.members.rank(hash, sharedRank)
	}
	rank := sharedRank
	if p.entry.quickness.mayBeQuick() {
		for i, size := range s.sizes {
			if subset := s.last[i].choose(s.members, size, s.period); subset != nil {
				rank = min(rank, subset.rank(hash, sharedRank))
			}
		}
	}
	if rank > 0 && p.entry.quickness.mayBeSlow() {
		rank = min(rank, s.members.rank(hash, sharedRank))
	}
	return rank
}

// isOutside reports whether other replicas try the firings of all quick jobs first.
func (s *subsets) isOutside() bool {
	if s.members.len() <= s.sizes[0] {
		return false
	}
	for i, size := range s.sizes {
		if s.last[i].choose(s.members, size, s.period) != nil {
			return false
		}
	}
	return true
}

// willBeOutside is isOutside for a cohort, if nothing else is due before it. members are the live
// replicas.
func (s subsets) willBeOutside(members *members, p planned) bool {
	s.sizes = nil // load must not change those of the caller
	s.load(members, []planned{p})
	return s.isOutside()
}

// choose returns the subset of a size for a period, or nil if this replica is not in it.
func (s *subset) choose(of *members, size int, period int64) *members {
	if s.of != of || s.size != size || s.period != period {
		*s = subset{of, size, period, of.subset(mix(uint64(period)), size)}
	}
	return s.members
}
