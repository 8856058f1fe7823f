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

// flight is shared by the callers of one key. One of them has the turn, and waits
// and computes for all. It returns the turn, or lands with the value.
type flight struct {
	callers int           // guarded by flights
	turn    chan struct{} // holds an item while no caller has the turn
	landed  chan struct{} // closed when the result is set
	// The result is shared, and callers get copies:
	value    []byte
	unstored *UnsharedError // nil if the value was stored
}

// result returns the result of a flight that has landed.
func (f *flight) result() ([]byte, error) {
	if f.unstored == nil {
		return bytes.Clone(f.value), nil
	}
	return nil, f.unstored.clone()
}

// clone returns a copy with a copy of the value, or nil for nil.
func (e *UnsharedError) clone() *UnsharedError {
	if e == nil {
		return nil
	}
	return &UnsharedError{Key: e.Key, Value: bytes.Clone(e.Value), Err: e.Err}
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

// land gives the value, or the error, to the waiting callers. Later callers begin a new flight, so
// that no caller gets a value from before its call.
func (f *flights) land(key string, shared *flight, value []byte, unstored *UnsharedError) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byKey, key)
	if shared.callers > 1 {
		shared.value, shared.unstored = bytes.Clone(value), unstored.clone()
	}
	close(shared.landed)
}
