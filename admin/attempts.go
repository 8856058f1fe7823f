package admin

import (
	"context"
	"sync"
	"time"
)

// Attempts counts sign-ins that failed. One that keeps its counts in the store
// makes the limits hold over all replicas; without one each replica counts for
// itself. It is called concurrently.
type Attempts interface {
	// Count returns the failures of each key, in their order.
	Count(ctx context.Context, keys ...string) ([]Failures, error)
	// Add counts one more failure of each key. The first opens a window, at
	// whose end all failures of that key are forgotten.
	Add(ctx context.Context, window time.Duration, keys ...string) error
}

// Failures are those of one key within its window.
type Failures struct {
	Count int
	Left  time.Duration // until they are forgotten; 0 where there are none
}

// maxTallies bounds the memory that guessing can take.
const maxTallies = 10_000

// tallies are Attempts in memory.
type tallies struct {
	mu    sync.Mutex
	byKey map[string]tally
}

type tally struct {
	count int
	until time.Time
}

func newTallies() *tallies { return &tallies{byKey: make(map[string]tally)} }

func (t *tallies) Count(_ context.Context, keys ...string) ([]Failures, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := make([]Failures, len(keys))
	for i, key := range keys {
		if left := time.Until(t.byKey[key].until); left > 0 {
			found[i] = Failures{t.byKey[key].count, left}
		}
	}
	return found, nil
}

func (t *tallies) Add(_ context.Context, window time.Duration, keys ...string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, key := range keys {
		one, known := t.byKey[key]
		if !known {
			t.makeRoom(now)
		}
		if !now.Before(one.until) {
			one = tally{until: now.Add(window)}
		}
		one.count++
		t.byKey[key] = one
	}
	return nil
}

// makeRoom forgets what is over, or what will be first.
func (t *tallies) makeRoom(now time.Time) {
	if len(t.byKey) < maxTallies {
		return
	}
	var first string
	for key, one := range t.byKey {
		if !now.Before(one.until) {
			delete(t.byKey, key)
		} else if first == "" || one.until.Before(t.byKey[first].until) {
			first = key
		}
	}
	if len(t.byKey) >= maxTallies {
		delete(t.byKey, first)
	}
}
