package engine

import (
	"cmp"
	"slices"
	"time"
)

const (
	// subsetInterval is the length of the intervals that each have a subset of their own.
	subsetInterval = 50 * time.Millisecond
	// subsetFirings is how many firings of the same time a replica of a subset has for each worker,
	// at most.
	subsetFirings = 4
	// subsetTime is how long the quick handlers of these firings take on a replica of a subset, one
	// after the other, at most. So they delay each other little, also if each needs a processor.
	subsetTime = 50 * time.Millisecond
)

// subsets select the replicas that try the quick firings of an interval first. If all replicas
// shared them, each would have few of them, and the cost of their requests and transactions would
// grow with the number of replicas. Quick handlers take so little time that few replicas are enough
// for them. All other firings are shared by all replicas.
//
// A subset has at least sharedRank replicas. The rendezvous hash of the interval selects them, so
// that all replicas have their turns. It belongs to one goroutine.
type subsets struct {
	members *members // all live replicas
	size    int      // of a subset for the firings that are due
	last    subsetKey
	chosen  *members // by last; nil: this replica is not in the subset
}

// subsetKey identifies a subset.
type subsetKey struct {
	of       *members
	size     int
	interval int64
}

// load prepares for firings that are due at the same time. members are the live replicas, and
// workers is how many workers each of them has.
func (s *subsets) load(members *members, due []planned, workers int) {
	s.members, s.size = members, sharedRank
	if members.len() <= sharedRank {
		return
	}
	var firings int
	var quick time.Duration
	for _, p := range due {
		if p.ranked {
			continue
		}
		firings++
		if took := p.entry.quickness.mean(); took <= slowRun {
			quick += took
		}
	}
	s.size = max(s.size, divideUp(firings, subsetFirings*workers),
		divideUp(int(quick), int(subsetTime)))
}

func divideUp(a, b int) int { return (a + b - 1) / b }

// rank returns this replica's rank for a firing, at most sharedRank. If other replicas may have
// measured whether the job is quick with another result, the lower of its two ranks counts. So two
// replicas may try the firing at once, but not none.
func (s *subsets) rank(p *planned, hash uint64) int {
	if s.members.len() <= s.size {
		return s.members.rank(hash, sharedRank)
	}
	rank := sharedRank
	if p.entry.quickness.mayBeQuick() {
		if subset := s.choose(p.at); subset != nil {
			rank = subset.rank(hash, sharedRank)
		}
	}
	if rank > 0 && p.entry.quickness.mayBeSlow() {
		rank = min(rank, s.members.rank(hash, sharedRank))
	}
	return rank
}

// choose returns the subset for a time, or nil if this replica is not in it. Its size is less than
// the number of members.
func (s *subsets) choose(at time.Time) *members {
	key := subsetKey{s.members, s.size, at.UnixMicro() / subsetInterval.Microseconds()}
	if key == s.last {
		return s.chosen
	}
	hash := mix(uint64(key.interval))
	seeds := slices.Clone(s.members.seeds)
	slices.SortFunc(seeds, func(a, b uint64) int { return cmp.Compare(mix(hash^b), mix(hash^a)) })
	s.last, s.chosen = key, nil
	if seeds = seeds[:s.size]; slices.Contains(seeds, s.members.own) {
		s.chosen = &members{seeds: seeds, own: s.members.own}
	}
	return s.chosen
}
