package access

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// maxAttemptCounts bounds the memory that password guessing can use.
const maxAttemptCounts = 10_000

// attemptCounts implements storage.LoginAttempts in memory.
type attemptCounts struct {
	mu    sync.Mutex
	byKey map[string]attemptCount
}

type attemptCount struct {
	count int
	until time.Time
	last  time.Time // when the last attempt was counted or allowed here
}

func newAttemptCounts() *attemptCounts {
	return &attemptCounts{byKey: make(map[string]attemptCount)}
}

func (t *attemptCounts) CountFailures(_ context.Context,
	keys ...string) ([]storage.Failures, error) {
	return t.counts(keys), nil
}

func (t *attemptCounts) counts(keys []string) []storage.Failures {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := make([]storage.Failures, len(keys))
	for i, key := range keys {
		if left := time.Until(t.byKey[key].until); left > 0 {
			found[i] = storage.Failures{Count: t.byKey[key].count, Left: left}
		}
	}
	return found
}

func (t *attemptCounts) AddFailure(_ context.Context, window time.Duration, keys ...string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, key := range keys {
		one, known := t.byKey[key]
		if !known {
			t.evict(now)
		}
		if !now.Before(one.until) {
			one = attemptCount{until: now.Add(window)}
		}
		one.count++
		one.last = now
		t.byKey[key] = one
	}
	return nil
}

// raise sets the counts of keys to those of the store if they are higher.
func (t *attemptCounts) raise(keys []string, shared []storage.Failures) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for i, failures := range shared {
		one, known := t.byKey[keys[i]]
		if !now.Before(one.until) {
			one = attemptCount{last: now}
		}
		if failures.Count <= one.count {
			continue
		}
		if !known {
			t.evict(now)
		}
		left := cmp.Or(failures.Left, time.Second)
		one.count, one.until = failures.Count, now.Add(left)
		t.byKey[keys[i]] = one
	}
}

// wait returns how long the next attempt has to wait: 0, unless a limit is reached and its last
// attempt is less than slowInterval ago.
func (t *attemptCounts) wait(limits []limit) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waitLocked(limits, time.Now())
}

func (t *attemptCounts) waitLocked(limits []limit, now time.Time) (left time.Duration) {
	for _, l := range limits {
		one := t.byKey[l.key]
		if one.count >= l.failures && now.Before(one.until) {
			left = max(left, min(one.last.Add(slowInterval).Sub(now), one.until.Sub(now)))
		}
	}
	return left
}

// take returns wait. If that is 0, the attempt is allowed, and the next one has to wait for
// slowInterval at each limit that is reached.
func (t *attemptCounts) take(limits []limit) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if left := t.waitLocked(limits, now); left > 0 {
		return left
	}
	for _, l := range limits {
		if one := t.byKey[l.key]; one.count >= l.failures && now.Before(one.until) {
			one.last = now
			t.byKey[l.key] = one
		}
	}
	return 0
}

// evict deletes expired counts, and if there are none the one that expires first.
func (t *attemptCounts) evict(now time.Time) {
	if len(t.byKey) < maxAttemptCounts {
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
	if len(t.byKey) >= maxAttemptCounts {
		delete(t.byKey, first)
	}
}
