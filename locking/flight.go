package locking

import (
	"bytes"
	"sync"
)

// flights are the keys that callers of this process wait for.
type flights struct {
	mu    sync.Mutex
	byKey map[string]*flight
}

// flight is what the callers of one key share. One of them has the turn, and
// waits and computes for all; it gives the turn back, or lands with the value.
type flight struct {
	callers int           // guarded by flights
	turn    chan struct{} // has an item while nobody has the turn
	landed  chan struct{} // closed once value is there
	value   []byte        // nobody's own: those who waited take copies
}

func newFlights() flights { return flights{byKey: map[string]*flight{}} }

func (f *flights) join(key string) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	shared := f.byKey[key]
	if shared == nil {
		shared = &flight{turn: make(chan struct{}, 1), landed: make(chan struct{})}
		shared.turn <- struct{}{}
		f.byKey[key] = shared
	}
	shared.callers++
	return shared
}

func (f *flights) leave(key string, shared *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if shared.callers--; shared.callers == 0 && f.byKey[key] == shared {
		delete(f.byKey, key)
	}
}

// land gives the value to those who wait. Who joins later begins anew, so that
// nobody gets a value from before its call.
func (f *flights) land(key string, shared *flight, value []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byKey, key)
	if shared.callers > 1 {
		shared.value = bytes.Clone(value)
	}
	close(shared.landed)
}
