package admin

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// maxTallies bounds the memory that guessing can take.
const maxTallies = 10_000

// tallies are jobs.Attempts in memory.
type tallies struct {
	mu    sync.Mutex
	byKey map[string]tally
}

type tally struct {
	count int
	until time.Time
}

func newTallies() *tallies { return &tallies{byKey: make(map[string]tally)} }

func (t *tallies) CountFailures(_ context.Context, keys ...string) ([]jobs.Failures, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := make([]jobs.Failures, len(keys))
	for i, key := range keys {
		if left := time.Until(t.byKey[key].until); left > 0 {
			found[i] = jobs.Failures{Count: t.byKey[key].count, Left: left}
		}
	}
	return found, nil
}

func (t *tallies) AddFailure(_ context.Context, window time.Duration, keys ...string) error {
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
