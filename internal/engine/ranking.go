package engine

import (
	"encoding/binary"
	"hash/fnv"
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
	// fourthAfter is the same for ranks 3 to 5. It doubles with each doubling of the rank, so that
	// a replica looks at the firings of many ranks with few requests.
	fourthAfter = 250 * time.Millisecond
	// longestAfter is the same for all further ranks.
	longestAfter = 2 * time.Second
	// rankingLives is how many intervals between comparisons a ranking may be used.
	rankingLives = 3
)

// ranking ranks this replica for each firing among the live replicas with the same cron table, by
// rendezvous hash. The replica with rank 0 is the first replica of the firing and tries it at once.
// The others leave the firing to it for a time that depends on their rank. A rank is only a hint:
// the gate and the store decide which replica starts the firing. So replicas may have different
// rankings. A ranking may be used concurrently.
type ranking struct {
	current atomic.Pointer[members] // nil: unknown
}

// members are the live replicas as of a comparison.
type members struct {
	seeds []uint64 // of the sessions
	own   uint64   // one of seeds
	until time.Time
}

// update replaces the ranking by the live sessions of replicas that can start runs and have this
// replica's cron table. The ranking becomes unknown if own is not one of them. It is used until
// then, by this machine's clock.
func (r *ranking) update(sessions []storage.ReplicaView, own uuid.UUID, until time.Time) {
	i := slices.IndexFunc(sessions, func(v storage.ReplicaView) bool { return v.Session == own })
	if i < 0 {
		r.current.Store(nil)
		return
	}
	m := &members{own: seedOf(own), until: until}
	for _, v := range sessions {
		if v.Session == own || v.ConfigHash == sessions[i].ConfigHash && !v.Draining &&
			v.NotReady == "" {
			m.seeds = append(m.seeds, seedOf(v.Session))
		}
	}
	r.current.Store(m)
}

// seedOf returns the random bits of a session's id.
func seedOf(session uuid.UUID) uint64 { return binary.BigEndian.Uint64(session[8:]) }

// rank returns this replica's rank for the firing, or unranked.
func (r *ranking) rank(job string, scheduledAt, now time.Time) int {
	m := r.current.Load()
	if m == nil || now.After(m.until) {
		return unranked
	}
	if len(m.seeds) == 1 {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(job))
	firing := mix(h.Sum64() ^ uint64(scheduledAt.UnixMicro()))
	own, rank := mix(firing^m.own), 0
	for _, seed := range m.seeds {
		if mix(firing^seed) > own {
			rank++
		}
	}
	return rank
}

// mix is the finalizer of SplitMix64. Each bit of the result depends on all bits of x.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// rankDelay is entry.rankDelay without the limits of a job.
func rankDelay(rank int) time.Duration {
	switch {
	case rank <= 0:
		return 0
	case rank <= 2:
		return time.Duration(rank) * secondAfter
	default:
		return min(fourthAfter<<(bits.Len(uint(rank)/3)-1), longestAfter)
	}
}

// rankDelay returns how long a replica of the rank leaves a firing to the replicas before it. It is
// at most half of the time to the next scheduled time, and a quarter of the misfire threshold and
// of the deadline. next is the zero time if there is no next scheduled time.
func (e *entry) rankDelay(rank int, scheduledAt, next time.Time) time.Duration {
	delay := min(rankDelay(rank), e.MisfireThreshold/4)
	if e.Deadline > 0 {
		delay = min(delay, e.Deadline/4)
	}
	if !next.IsZero() {
		delay = min(delay, next.Sub(scheduledAt)/2)
	}
	return delay
}
