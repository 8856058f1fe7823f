package session_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/session"
)

const (
	ttl      = 15 * time.Second
	interval = 5 * time.Second
)

type life = session.Life[string]

// scripted is a store that answers as a test says.
type scripted struct {
	mu      sync.Mutex
	fail    error         // of opening and of heartbeats
	slow    time.Duration // before a heartbeat is answered
	events  []string
	opened  []uuid.UUID
	firsts  []bool
	causes  []error
	beats   int
	actions int
}

func (s *scripted) set(change func(*scripted)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// seen is what a store was asked, and was told.
type seen struct {
	events         []string
	causes         []error
	beats, actions int
}

func (s *scripted) seen() seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return seen{slices.Clone(s.events), slices.Clone(s.causes), s.beats, s.actions}
}

func (s *scripted) open(_ context.Context, id uuid.UUID, first bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail == nil {
		s.opened = append(s.opened, id)
	}
	s.firsts = append(s.firsts, first)
	return s.fail
}

func (s *scripted) beat(ctx context.Context, _ *life) (func(context.Context), error) {
	s.mu.Lock()
	s.beats++
	fail, slow := s.fail, s.slow
	s.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return func(context.Context) { s.set(func(s *scripted) { s.actions++ }) }, fail
}

func (s *scripted) lost(l *life, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events, s.causes = append(s.events, "lost "+l.Own), append(s.causes, cause)
}

func (s *scripted) end(context.Context, uuid.UUID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, "ended")
	return s.fail
}

// keep runs a keeper inside a bubble until use returns, and returns the
// session that Run does.
func keep(t *testing.T, s *scripted,
	use func(t *testing.T, k *session.Keeper[string])) (last *life) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begun := 0
		k := session.New(session.Options[string]{
			TTL: ttl, Interval: interval, Open: s.open, Beat: s.beat, Lost: s.lost, End: s.end,
			Log:   zerolog.Nop(),
			Begin: func(*life) string { begun++; return string(rune('a' + begun - 1)) },
		})
		if l, err := k.Session(); l != nil || !errors.Is(err, session.ErrNone) {
			t.Errorf("before Run: %v, %v", l, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan *life)
		go func() { ended <- k.Run(ctx) }()
		use(t, k)
		cancel()
		last = <-ended
		if l, err := k.Wait(context.Background()); l != nil || !errors.Is(err, session.ErrNone) {
			t.Errorf("after Run: %v, %v", l, err)
		}
	})
	return last
}

func wait(t *testing.T, k *session.Keeper[string]) *life {
	t.Helper()
	l, err := k.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTrustedFromBeforeTheRequestUntilTheTTL(t *testing.T) {
	s := &scripted{slow: time.Second}
	keep(t, s, func(t *testing.T, k *session.Keeper[string]) {
		l := wait(t, k)
		// the next heartbeat has been sent, an interval after the last
		time.Sleep(interval + 500*time.Millisecond)
		sent := time.Now().Add(-500 * time.Millisecond)
		synctest.Wait()
		time.Sleep(time.Second) // and confirmed
		s.set(func(s *scripted) { s.fail = errors.New("away") })
		time.Sleep(time.Until(sent.Add(ttl)) - time.Nanosecond)
		synctest.Wait()
		if l.Context().Err() != nil || len(s.seen().events) > 0 {
			t.Errorf("lost before its TTL: %v", context.Cause(l.Context()))
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !errors.Is(context.Cause(l.Context()), session.ErrLost) ||
			!slices.Equal(s.seen().events, []string{"lost a"}) {
			t.Errorf("a TTL after the last confirmed request was sent: %v, %v",
				context.Cause(l.Context()), s.seen().events)
		}
		if now, err := k.Session(); now != nil || !errors.Is(err, session.ErrNone) {
			t.Errorf("a lost session may be used: %v", err)
		}
	})
}

// TestHangingStore shows that a heartbeat without an answer does not stretch
// the trust.
func TestHangingStore(t *testing.T) {
	s := &scripted{}
	keep(t, s, func(t *testing.T, k *session.Keeper[string]) {
		l, opened := wait(t, k), time.Now()
		s.set(func(s *scripted) { s.slow = time.Hour })
		<-l.Context().Done()
		if lived := time.Since(opened); lived != ttl {
			t.Errorf("it lived %s", lived)
		}
		s.set(func(s *scripted) { s.slow = 0 })
		wait(t, k)
		if without := time.Since(opened) - ttl; without > ttl/3+time.Second {
			t.Errorf("there was no session for %s after the store had come back", without)
		}
	})
}

func TestLostSessionIsFollowedByANewOne(t *testing.T) {
	s := &scripted{}
	last := keep(t, s, func(t *testing.T, k *session.Keeper[string]) {
		first, opened := wait(t, k), time.Now()
		s.set(func(s *scripted) { s.fail = session.ErrLost })
		<-first.Context().Done()
		if told := time.Since(opened); told != interval {
			t.Errorf("lost %s after it was opened, expected at the next heartbeat", told)
		}
		s.set(func(s *scripted) { s.fail = nil })
		second := wait(t, k)
		if second.ID == first.ID || second.Own != "b" {
			t.Errorf("the lost session %s is used again", second.Own)
		}
		time.Sleep(time.Minute)
		if second.Context().Err() != nil {
			t.Errorf("lost: %v", context.Cause(second.Context()))
		}
	})
	if last == nil || last.Own != "b" ||
		!slices.Equal(s.events, []string{"lost a", "lost b", "ended"}) {
		t.Errorf("events %v, %v at the end", s.events, last)
	}
	if !errors.Is(s.causes[1], session.ErrLost) {
		t.Errorf("the end's cause: %v", s.causes[1])
	}
}

func TestSessionThatItsUserFindsLost(t *testing.T) {
	s := &scripted{}
	keep(t, s, func(t *testing.T, k *session.Keeper[string]) {
		first := wait(t, k)
		found := errors.New("found")
		first.End(found)
		second := wait(t, k)
		if second == first || !errors.Is(s.seen().causes[0], found) {
			t.Errorf("%v", s.seen().causes)
		}
	})
}

// TestOnlyTheFirstSessionIsFirst also has the first tries fail.
func TestOnlyTheFirstSessionIsFirst(t *testing.T) {
	away := errors.New("away")
	s := &scripted{fail: away}
	keep(t, s, func(t *testing.T, k *session.Keeper[string]) {
		time.Sleep(1500 * time.Millisecond)
		if _, err := k.Session(); !errors.Is(err, away) {
			t.Errorf("it is not said why there is none: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := k.Wait(ctx); !errors.Is(err, session.ErrNone) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait: %v", err)
		}
		s.set(func(s *scripted) { s.fail = nil })
		wait(t, k).End(session.ErrLost)
		synctest.Wait()
		wait(t, k)
	})
	if want := []bool{true, true, true, false}; !slices.Equal(s.firsts, want) {
		t.Errorf("first: %v, expected %v", s.firsts, want)
	}
}

func TestHeartbeats(t *testing.T) {
	s := &scripted{}
	keep(t, s, func(t *testing.T, k *session.Keeper[string]) {
		wait(t, k)
		time.Sleep(3*interval - time.Nanosecond)
		synctest.Wait()
		if got := s.seen(); got.beats != 3 || got.actions != 3 { // one as it was opened
			t.Errorf("%d heartbeats, %d acted on", got.beats, got.actions)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		s.set(func(s *scripted) { s.fail = errors.New("away") })
		time.Sleep(interval + 3500*time.Millisecond)
		s.set(func(s *scripted) { s.fail = nil })
		time.Sleep(time.Second)
		synctest.Wait()
		if got := s.seen(); got.beats != 9 || got.actions != 5 {
			// one failed, and was tried again each second
			t.Errorf("%d heartbeats, %d acted on", got.beats, got.actions)
		}
	})
}
