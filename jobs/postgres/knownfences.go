package postgres

import (
	"hash/maphash"
	"sync"
	"time"
)

const (
	// youngFence is the age up to which a lock of a fence makes the fence known.
	youngFence = `interval '30 minutes'`

	// knownFor is how long a fence is known at most. So a known fence is younger than 55 minutes,
	// and a sweep deletes it at the age of fencesKept. The difference allows for clocks that run
	// differently.
	knownFor = 25 * time.Minute

	// mostKnownFences bounds the memory for each half of knownFor. Each fence takes about 20 B.
	mostKnownFences = 1 << 18
)

// knownFences remembers the fences that exist, so that starts need not look for them. Nothing
// depends on it: the lock of a fence that is missing fails, and the start begins again. It may be
// used concurrently. Its zero value knows no fence.
type knownFences struct {
	mu sync.Mutex
	// The hashes of the names that became known in this half of knownFor, and in the one before.
	// Two names that share a hash cost one failed lock.
	recent, older map[uint64]struct{}
	since         time.Time    // the beginning of this half
	seed          maphash.Seed // of the hashes
}

// note makes the names known.
func (k *knownFences) note(names []string, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turn(now)
	if k.seed == (maphash.Seed{}) {
		k.seed = maphash.MakeSeed()
	}
	for _, name := range names {
		if len(k.recent) >= mostKnownFences {
			k.older, k.recent, k.since = k.recent, nil, now
		}
		if k.recent == nil {
			k.recent = map[uint64]struct{}{}
		}
		k.recent[maphash.String(k.seed, name)] = struct{}{}
	}
}

// unknown returns the names that are not known.
func (k *knownFences) unknown(names []string, now time.Time) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turn(now)
	if len(k.recent)+len(k.older) == 0 {
		return names
	}
	var unknown []string
	for _, name := range names {
		hash := maphash.String(k.seed, name)
		if _, known := k.recent[hash]; known {
			continue
		}
		if _, known := k.older[hash]; !known {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// forget makes all names unknown.
func (k *knownFences) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.recent, k.older = nil, nil
}

// turn begins the next half of knownFor when this one has passed.
func (k *knownFences) turn(now time.Time) {
	switch passed := now.Sub(k.since); {
	case passed >= knownFor:
		k.older, k.recent, k.since = nil, nil, now
	case passed >= knownFor/2:
		k.older, k.recent, k.since = k.recent, nil, k.since.Add(knownFor/2)
	}
}
