package jobs

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

// scripted answers heartbeats as a test says.
type scripted struct {
	Sessions
	mu      sync.Mutex
	opened  []uuid.UUID
	ended   []uuid.UUID
	fail    error
	slow    time.Duration
	ahead   time.Duration // of the store's clock
	claims  map[Token]uuid.UUID
	revoked []Token
}

func (s *scripted) Open(_ context.Context, session Session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, session.ID)
	return s.fail
}

func (s *scripted) Heartbeat(ctx context.Context, _ uuid.UUID) (Beat, error) {
	s.mu.Lock()
	fail, slow, beat := s.fail, s.slow, Beat{Now: time.Now().Add(s.ahead), Claims: maps.Clone(s.claims)}
	s.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return Beat{}, ctx.Err()
	}
	return beat, fail
}

func (s *scripted) End(_ context.Context, session uuid.UUID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, session)
	return nil
}

func (s *scripted) revoke(_ context.Context, token Token, _ State, _ Reason) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = append(s.revoked, token)
	return nil
}

func (s *scripted) set(change func(*scripted)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// keep runs a keeper with heartbeats every 5 s and a TTL of 15 s inside a
// bubble, until use returns.
func keep(t *testing.T, s *scripted, use func(t *testing.T, k *keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{
			store: s, revoke: s.revoke, replica: "a", interval: 5 * time.Second, ttl: 15 * time.Second,
			clock: &clusterClock{}, active: newActive(), log: zerolog.Nop(), changed: make(chan struct{}),
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			k.run(ctx)
			close(ended)
		}()
		use(t, k)
		cancel()
		<-ended
	})
}

func TestSessionIsTrustedFromBeforeTheRequestUntilItsTTL(t *testing.T) {
	s := &scripted{slow: time.Second}
	keep(t, s, func(t *testing.T, k *keeper) {
		l, err := k.wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5*time.Second + 500*time.Millisecond) // the next heartbeat has been sent, at 5 s after the last
		sent := time.Now().Add(-500 * time.Millisecond)
		s.set(func(s *scripted) { s.fail = ErrUnavailable })
		time.Sleep(time.Until(sent.Add(15*time.Second)) - time.Millisecond)
		if l.ctx.Err() != nil {
			t.Errorf("lost before its TTL: %v", context.Cause(l.ctx))
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if !errors.Is(context.Cause(l.ctx), ErrSessionLost) {
			t.Errorf("cause %v, a TTL after the last confirmed request was sent", context.Cause(l.ctx))
		}
		if k.session() != nil {
			t.Error("a lost session may start runs")
		}
	})
}

func TestLostSessionIsFollowedByANewOneNeverRevived(t *testing.T) {
	s := &scripted{}
	keep(t, s, func(t *testing.T, k *keeper) {
		first, err := k.wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.set(func(s *scripted) { s.fail = ErrSessionLost })
		<-first.ctx.Done()
		s.set(func(s *scripted) { s.fail = nil })
		second, err := k.wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if second.id == first.id {
			t.Error("the lost session is used again")
		}
		time.Sleep(time.Minute)
		if second.ctx.Err() != nil || len(s.opened) < 2 || len(s.ended) != 0 {
			t.Errorf("second: %v, opened %d, ended %d", context.Cause(second.ctx), len(s.opened), len(s.ended))
		}
	})
	if len(s.ended) != 1 {
		t.Errorf("%d sessions were given back at the end", len(s.ended))
	}
}

func TestHeartbeatComparesClaims(t *testing.T) {
	unknown, starting := uuid.New(), uuid.New()
	s := &scripted{}
	keep(t, s, func(t *testing.T, k *keeper) {
		taken, stopTaken := context.WithCancelCause(t.Context())
		standing, stopStanding := context.WithCancelCause(t.Context())
		defer stopStanding(nil)
		k.active.add(1, stopTaken)
		k.active.add(2, stopStanding)
		defer k.active.care(starting)()
		s.set(func(s *scripted) { s.claims = map[Token]uuid.UUID{2: uuid.New(), 3: unknown, 4: starting} })
		time.Sleep(6 * time.Second)
		if !errors.Is(context.Cause(taken), ErrClaimLost) {
			t.Errorf("a run whose claim is gone: %v", context.Cause(taken))
		}
		if standing.Err() != nil {
			t.Errorf("a run whose claim stands: %v", context.Cause(standing))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, token := range s.revoked {
			if token != 3 {
				t.Errorf("claim %d was given back", token)
			}
		}
		if len(s.revoked) == 0 {
			t.Error("a claim that nobody knows of stays")
		}
	})
}

func TestClockFollowsTheStores(t *testing.T) {
	s := &scripted{ahead: 90 * time.Second}
	keep(t, s, func(t *testing.T, k *keeper) {
		if _, err := k.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := time.Until(k.clock.now()); got != 90*time.Second {
			t.Errorf("cluster time is %s ahead, want 90s", got)
		}
	})
}
