package engine

import (
	"cmp"
	"slices"
	"time"
)

const (
	// subsetInterval is the length of the intervals that each have subsets of their own.
	subsetInterval = 50 * time.Millisecond
	// subsetFirings is how many firings of the same time a replica of a subset has for each worker,
	// at most.
	subsetFirings = 4
	// subsetTime is how long the quick handlers of these firings take on a replica of a subset, one
	// after the other, at most. So they delay each other little, also if each needs a processor.
	subsetTime = 50 * time.Millisecond
	// subsetGrowth is how many times as large as a subset the next larger one is.
	subsetGrowth = 4
)

// subsets select the replicas that try the quick firings of an interval first. If all replicas
// shared them, each would have few of them, and the cost of their requests and transactions would
// grow with the number of replicas. Quick handlers take so little time that few replicas are enough
// for them. All other firings are shared by all replicas.
//
// A subset has at least sharedRank replicas. The rendezvous hash of the interval selects them, so
// that all replicas have their turns.
//
// Replicas measure different times for the same handlers. So a replica whose times are near a limit
// takes its lowest rank of those on both sides of the limit. Two replicas may then try a firing at
// once. But as long as no replica measures more than twice the time of another one, a replica of
// rank 0 tries each firing.
//
// It belongs to one goroutine.
type subsets struct {
	members *members // all live replicas
	sizes   []int    // of the subsets for the firings that are due: one, or two
	last    [2]subset
}

// subset is the part of the live replicas that tries the quick firings of an interval first.
type subset struct {
	of       *members
	size     int
	interval int64
	members  *members // nil: this replica is not one of them
}

// load prepares for firings that are due at the same time. members are the live replicas, and
// workers is how many workers each of them has.
func (s *subsets) load(members *members, due []planned, workers int) {
	s.members, s.sizes = members, append(s.sizes[:0], sharedRank)
	if members.len() <= sharedRank {
		return
	}
	var firings int
	var took time.Duration // by the quick handlers
	for _, p := range due {
		if p.ranked {
			continue
		}
		firings++
		if mean := p.entry.quickness.mean(); mean <= slowRun {
			took += mean
		}
	}
	least := s.sizeFor(firings, subsetFirings*workers)
	// The second time is about twice the first one.
	s.sizes[0] = max(least, s.sizeFor(int(took*5/7), int(subsetTime)))
	if size := max(least, s.sizeFor(int(took*7/5), int(subsetTime))); size != s.sizes[0] {
		s.sizes = append(s.sizes, size)
	}
}

// sizeFor returns the size of a subset for an amount of work, if each replica does at most so much.
func (s *subsets) sizeFor(work, each int) int {
	size := sharedRank
	for work > size*each && size < s.members.len() {
		size *= subsetGrowth
	}
	return size
}

// rank returns this replica's rank for a firing, at most sharedRank.
func (s *subsets) rank(p *planned, hash uint64) int {
	if s.members.len() <= s.sizes[0] {
		return s.members.rank(hash, sharedRank)
	}
	rank := sharedRank
	if p.entry.quickness.mayBeQuick() {
		for i, size := range s.sizes {
			if subset := s.last[i].choose(s.members, size, p.at); subset != nil {
				rank = min(rank, subset.rank(hash, sharedRank))
			}
		}
	}
	if rank > 0 && p.entry.quickness.mayBeSlow() {
		rank = min(rank, s.members.rank(hash, sharedRank))
	}
	return rank
}

// choose returns the subset of a size for a time, or nil if this replica is not in it.
func (s *subset) choose(of *members, size int, at time.Time) *members {
	interval := at.UnixMicro() / subsetInterval.Microseconds()
	if s.of == of && s.size == size && s.interval == interval {
		return s.members
	}
	*s = subset{of: of, size: size, interval: interval, members: of}
	if size >= of.len() {
		return of
	}
	hash := mix(uint64(interval))
	seeds := slices.Clone(of.seeds)
	slices.SortFunc(seeds, func(a, b uint64) int { return cmp.Compare(mix(hash^b), mix(hash^a)) })
	if seeds = seeds[:size]; slices.Contains(seeds, of.own) {
		s.members = &members{seeds: seeds, own: of.own}
	} else {
		s.members = nil
	}
	return s.members
}
