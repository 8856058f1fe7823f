package engine

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// unranked is the rank of a firing on a replica that does not know which other replicas are alive.
// Such a replica tries all firings at once.
const unranked = -1

const (
	// secondAfter is how long a replica of rank 1 leaves a firing to the first replica, and half as
	// long as a replica of rank 2 does. The first replica needs a few milliseconds to add the gate.
	secondAfter = 40 * time.Millisecond
	// sharedRank is the first rank of the replicas that look at all firings of a burst together
	// (see burst).
	sharedRank = 3
	// sharedAfter is how long the first replica of a burst leaves its firings to their own first
	// replicas. The next two replicas of the burst wait sharedStep longer each. For all others the
	// time doubles with each doubling of their rank.
	sharedAfter = 250 * time.Millisecond
	sharedStep  = 120 * time.Millisecond
	// longestAfter is the longest of these times.
	longestAfter = 2 * time.Second
)

// ranking ranks this replica for each firing among the live replicas with the same cron table, by
// rendezvous hash. The replica with rank 0 is the first replica of the firing and tries it at once.
// The others leave the firing to it for a time that depends on their rank. A rank is only a hint:
// the gate and the store decide which replica starts the firing. So replicas may have different
// rankings. A ranking may be used concurrently.
type ranking struct {
	current atomic.Pointer[members] // nil: unknown
	// changed holds a value when the members have changed or are unknown. It may be nil.
	changed chan struct{}
}

// members are the live replicas as of a comparison.
type members struct {
	seeds []uint64 // of the sessions
	own   uint64   // one of seeds
	until time.Time
}

// update replaces the ranking by the live sessions of replicas that can start runs and have this
// replica's cron table. The ranking becomes unknown if own is not one of them. It may be used
// until the given time of this machine's clock.
func (r *ranking) update(sessions []storage.ReplicaView, own uuid.UUID, until time.Time) {
	i := slices.IndexFunc(sessions, func(v storage.ReplicaView) bool { return v.Session == own })
	if i < 0 {
		r.current.Store(nil)
		signal(r.changed)
		return
	}
	m := &members{own: seedOf(own), until: until}
	for _, v := range sessions {
		if v.Session == own || v.ConfigHash == sessions[i].ConfigHash && !v.Draining &&
			!v.Stopping && v.NotReady == "" {
			m.seeds = append(m.seeds, seedOf(v.Session))
		}
	}
	if before := r.current.Swap(m); before == nil || before.own != m.own ||
		!slices.Equal(before.seeds, m.seeds) {
		signal(r.changed)
	}
}

// seedOf returns the random bits of a session's id.
func seedOf(session uuid.UUID) uint64 { return binary.BigEndian.Uint64(session[8:]) }

// at returns the members, or nil if they are not known at that time.
func (r *ranking) at(now time.Time) *members {
	if m := r.current.Load(); m != nil && !now.After(m.until) {
		return m
	}
	return nil
}

// len returns the number of members, or 0 if they are not known.
func (m *members) len() int {
	if m == nil {
		return 0
	}
	return len(m.seeds)
}

// rank returns this replica's rank for what has the hash, or unranked if the members are not known.
// It counts no further than most.
func (m *members) rank(hash uint64, most int) int {
	if m == nil {
		return unranked
	}
	own, rank := mix(hash^m.own), 0
	for _, seed := range m.seeds {
		if mix(hash^seed) > own {
			if rank++; rank == most {
				break
			}
		}
	}
	return rank
}

// subset returns size of the members, by rendezvous hash, or all if there are no more. It returns
// nil if this replica is not one of them.
func (m *members) subset(hash uint64, size int) *members {
	if size >= len(m.seeds) {
		return m
	}
	seeds := slices.Clone(m.seeds)
	slices.SortFunc(seeds, func(a, b uint64) int { return cmp.Compare(mix(hash^b), mix(hash^a)) })
	if seeds = seeds[:size]; !slices.Contains(seeds, m.own) {
		return nil
	}
	return &members{seeds: seeds, own: m.own}
}

// hashFiring returns the hash of a firing. It is the same on all replicas.
func hashFiring(job string, scheduledAt time.Time) uint64 {
	return mix(hashText(job) ^ uint64(scheduledAt.UnixMicro()))
}

// hashText returns the hash of a text by FNV-1a.
func hashText(text string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime
	}
	return h
}

// mix is the finalizer of SplitMix64. Each bit of the result depends on all bits of x.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// rankDelay returns how long a replica of a rank below sharedRank leaves a firing to the replicas
// before it.
func rankDelay(rank int) time.Duration { return time.Duration(max(rank, 0)) * secondAfter }

// burstDelay returns how long a replica of the rank for a burst leaves its firings to others.
func burstDelay(rank int) time.Duration {
	if rank < sharedRank {
		return sharedAfter + time.Duration(rank)*sharedStep
	}
	return min(sharedAfter<<bits.Len(uint(rank)/sharedRank), longestAfter)
}

// leaveLimit returns the longest time for which a replica leaves a firing of the job to others: a
// quarter of the misfire threshold or of the deadline, whichever is shorter.
func (e *entry) leaveLimit() time.Duration {
	longest := e.MisfireThreshold / 4
	if e.Deadline > 0 {
		longest = min(longest, e.Deadline/4)
	}
	return longest
}

// longestDelay returns the longest time for which a replica leaves a firing to others, whatever its
// rank is, if there are no progress marks: the leave limit of the job, or half of the time to the
// next scheduled time if that is shorter. next is the zero time if there is no next scheduled time.
func longestDelay(limit time.Duration, scheduledAt, next time.Time) time.Duration {
	if next.IsZero() {
		return limit
	}
	return min(limit, next.Sub(scheduledAt)/2)
}
