package simstore

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/rules"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Store is a storage.Store in memory. It may be used concurrently.
type Store struct {
	cluster uuid.UUID

	mu       sync.Mutex
	down     bool
	closed   bool
	ahead    time.Duration
	last     time.Time // the last result of writeTime
	checking bool      // while misfires are checked
	pruning  rules.Turn

	sessions    map[uuid.UUID]*session
	past        []storage.ReplicaSession
	jobs        map[string]*job
	definitions int64 // number of changes of active definitions
	changes     []Change
	decisions   []Decision // of misfire checks, the oldest first
	allSessions []*session // all sessions ever opened, the oldest first

	token   jobs.Token // the last token
	runs    map[uuid.UUID]*run
	firings map[firing]*run
	waiting map[uuid.UUID]*run
	claims  map[jobs.Token]*claim
	saved   map[string]json.RawMessage
	// the backfills, and the keys of their runs that have not ended or are not counted
	backfills  map[uuid.UUID]*rules.Backfill
	unfinished map[uuid.UUID]map[string]bool
	// the last success of each job that was deleted from the history
	successes map[string]time.Time

	waitHistory []waitRecord
	tallies     map[storage.Tally]int // number of ended runs; Runs in the keys is 0

	control control
}

var _ storage.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	return &Store{
		cluster: uuid.New(), sessions: map[uuid.UUID]*session{}, jobs: map[string]*job{},
		runs: map[uuid.UUID]*run{}, firings: map[firing]*run{},
		waiting: map[uuid.UUID]*run{}, claims: map[jobs.Token]*claim{},
		saved: map[string]json.RawMessage{}, successes: map[string]time.Time{},
		control: newControl(), backfills: map[uuid.UUID]*rules.Backfill{},
		unfinished: map[uuid.UUID]map[string]bool{},
		tallies:    map[storage.Tally]int{},
	}
}

// ClusterID returns the id that New drew.
func (s *Store) ClusterID() uuid.UUID { return s.cluster }

// Close makes all further calls fail.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// SetDown begins or ends an outage, in which every call fails.
func (s *Store) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// SetAhead sets how far the store's clock is ahead of time.Now.
func (s *Store) SetAhead(ahead time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = ahead
}

// enter locks the store for one transaction, or returns an error if the store is unavailable.
func (s *Store) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", storage.ErrUnavailable, context.Cause(ctx))
	}
	s.mu.Lock()
	if s.down || s.closed {
		s.mu.Unlock()
		return fmt.Errorf("%w: it is down", storage.ErrUnavailable)
	}
	return nil
}

// now returns the store's clock.
func (s *Store) now() time.Time {
	return time.Now().Add(s.ahead).UTC().Truncate(time.Microsecond)
}

// writeTime returns the time of a transaction that writes. Each such transaction gets another time,
// so that writes have an order.
func (s *Store) writeTime() time.Time {
	now := s.now()
	if !now.After(s.last) {
		now = s.last.Add(time.Microsecond)
	}
	s.last = now
	return now
}

// Now implements storage.History. It is not before the last write, which has a later time than the
// clock if there was another one in the same microsecond.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := s.enter(ctx); err != nil {
		return time.Time{}, err
	}
	defer s.mu.Unlock()
	now := s.now()
	if early := s.last.Sub(now); early > 0 && early < time.Millisecond {
		now = s.last
	}
	return now, nil
}
