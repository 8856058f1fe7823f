package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/session"
	"github.com/holdfast-dev/holdfast/internal/sleep"
)

const (
	ttl      = 15 * time.Second
	interval = 5 * time.Second
)

var errUnavailable = errors.New("store is unavailable")

type testSession = session.Session[string]

// fakeStore replies as a test sets it and records the calls.
type fakeStore struct {
	mu         sync.Mutex
	fail       error         // of openings and heartbeats
	slow       time.Duration // delay of the reply to an opening or a heartbeat
	refuse     error         // of preparations
	reject     error         // of applying replies
	events     []string
	firsts     []bool  // the argument of each opening
	causes     []error // of each loss
	heartbeats int
	applied    int
}

func (s *fakeStore) set(change func(*fakeStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// calls is what a fakeStore has recorded.
type calls struct {
	events              []string
	causes              []error
	heartbeats, applied int
}

func (s *fakeStore) calls() calls {
	s.mu.Lock()
	defer s.mu.Unlock()
	return calls{slices.Clone(s.events), slices.Clone(s.causes), s.heartbeats, s.applied}
}

// reply waits for the delay and returns the error of the call.
func (s *fakeStore) reply(ctx context.Context) error {
	s.mu.Lock()
	fail, slow := s.fail, s.slow
	s.mu.Unlock()
	if sleep.For(ctx, slow) != nil {
		return ctx.Err()
	}
	return fail
}

func (s *fakeStore) open(ctx context.Context, _ uuid.UUID, first bool) error {
	s.set(func(s *fakeStore) { s.firsts = append(s.firsts, first) })
	return s.reply(ctx)
}

func (s *fakeStore) prepare(context.Context, *testSession) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refuse
}

func (s *fakeStore) heartbeat(ctx context.Context, _ *testSession) (func(context.Context) error,
	error) {
	s.set(func(s *fakeStore) { s.heartbeats++ })
	return func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.applied++
		return s.reject
	}, s.reply(ctx)
}

func (s *fakeStore) lost(l *testSession, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events, s.causes = append(s.events, "lost "+l.Data), append(s.causes, cause)
}

func (s *fakeStore) end(context.Context, uuid.UUID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, "ended")
	return s.fail
}

// options returns the options of a keeper whose sessions have the data "a", "b" and so on.
func (s *fakeStore) options() session.Options[string] {
	opened := 0
	return session.Options[string]{
		TTL: ttl, Interval: interval, Log: zerolog.Nop(),
		Open: s.open, Prepare: s.prepare, Heartbeat: s.heartbeat, Lost: s.lost, End: s.end,
		NewData: func(*testSession) string { opened++; return string(rune('a' + opened - 1)) },
	}
}

// keep runs a keeper inside a bubble until use returns. It returns the session that Run returns.
func keep(t *testing.T, s *fakeStore,
	use func(t *testing.T, k *session.Keeper[string])) (last *testSession) {
	t.Helper()
	return keepWith(t, s, func(*session.Options[string]) {}, use)
}

// keepWith is keep with further options. change sets them inside the bubble.
func keepWith(t *testing.T, s *fakeStore, change func(o *session.Options[string]),
	use func(t *testing.T, k *session.Keeper[string])) (last *testSession) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := s.options()
		change(&o)
		k := session.New(o)
		if l, err := k.Session(); l != nil || !errors.Is(err, session.ErrNone) {
			t.Errorf("before Run: %v, %v", l, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			last, err = k.Run(ctx)
		}()
		use(t, k)
		cancel()
		<-ended
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		if l, err := k.Wait(context.Background()); l != nil || !errors.Is(err, session.ErrNone) {
			t.Errorf("after Run: %v, %v", l, err)
		}
	})
	return last
}

func wait(t *testing.T, k *session.Keeper[string]) *testSession {
	t.Helper()
	l, err := k.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestSessionIsTrustedForTheTTLFromTheRequest(t *testing.T) {
	s := &fakeStore{slow: time.Second}
	keep(t, s, func(t *testing.T, k *session.Keeper[string]) {
		l := wait(t, k)
		time.Sleep(interval + 500*time.Millisecond) // the next heartbeat is under way
		sent := time.Now().Add(-500 * time.Millisecond)
		synctest.Wait()
		time.Sleep(time.Second) // and confirmed
		s.set(func(s *fakeStore) { s.fail = errUnavailable })
		time.Sleep(time.Until(sent.Add(ttl)) - time.Nanosecond)
		synctest.Wait()
		if l.Context().Err() != nil || len(s.calls().events) > 0 {
			t.Errorf("lost before its TTL: %v", context.Cause(l.Context()))
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !errors.Is(context.Cause(l.Context()), session.ErrLost) ||
			!slices.Equal(s.calls().events, []string{"lost a"}) {
			t.Errorf("a TTL after the last confirmed request: %v, %v",
				context.Cause(l.Context()), s.calls().events)
		}
		if now, err := k.Session(); now != nil || !errors.Is(err, session.ErrNone) {
			t.Errorf("Session returned a lost session: %v", err)
		}
	})
}

// The trust counts from before the opening. The first heartbeat gets only the rest of it.
func TestSlowOpenShortensTheTrust(t *testing.T) {
	s := &fakeStore{}
	var start time.Time
	var left []time.Duration
	change := func(o *session.Options[string]) {
		o.TTL, o.Interval = 3*time.Second, time.Second
		o.Open = func(context.Context, uuid.UUID, bool) error {
			start = time.Now()
			time.Sleep(2500 * time.Millisecond)
			return nil
		}
		o.Heartbeat = func(ctx context.Context, _ *testSession) (func(context.Context) error,
			error) {
			deadline, _ := ctx.Deadline()
			left = append(left, deadline.Sub(start))
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	keepWith(t, s, change, func(t *testing.T, k *session.Keeper[string]) {
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if len(left) != 1 || left[0] != 3*time.Second {
			t.Errorf("the heartbeat ended %v after the opening began", left)
		}
		if _, err := k.Session(); !errors.Is(err, session.ErrNone) {
			t.Errorf("unconfirmed session offered: %v", err)
		}
	})
}

// The store replies after the session has expired, although the heartbeat's deadline has passed.
func TestLateReplyDoesNotRevive(t *testing.T) {
	s := &fakeStore{}
	applied := 0
	heartbeat := func(context.Context, *testSession) (func(context.Context) error, error) {
		if applied > 0 {
			time.Sleep(ttl)
		}
		return func(context.Context) error { applied++; return nil }, nil
	}
	change := func(o *session.Options[string]) { o.Heartbeat = heartbeat }
	keepWith(t, s, change, func(t *testing.T, k *session.Keeper[string]) {
		first, opened := wait(t, k), time.Now()
		<-first.Context().Done()
		if lived := time.Since(opened); lived != ttl {
			t.Errorf("the session lived %s", lived)
		}
		time.Sleep(interval) // the reply has arrived
		synctest.Wait()
		if applied != 1 {
			t.Errorf("%d replies were applied, one of them to a lost session", applied)
		}
		if k.Opened() != 1 || k.Lost() != 1 {
			t.Errorf("opened %d, lost %d", k.Opened(), k.Lost())
		}
	})
}

// A heartbeat without a reply does not extend the trust. The keeper opens the next session soon
// after the expiry.
func TestHangingStore(t *testing.T) {
	s := &fakeStore{}
	keep(t, s, func(t *testing.T, k *session.Keeper[string]) {
		l, opened := wait(t, k), time.Now()
		s.set(func(s *fakeStore) { s.slow = time.Hour })
		<-l.Context().Done()
		if lived := time.Since(opened); lived != ttl {
			t.Errorf("the session lived %s", lived)
		}
		s.set(func(s *fakeStore) { s.slow = 0 })
		wait(t, k)
		if without := time.Since(opened) - ttl; without > ttl/3+time.Second {
			t.Errorf("no session for %s although the store replies", without)
		}
	})
}

func TestLostSessionIsReplaced(t *testing.T) {
	s := &fakeStore{}
	last := keep(t, s, func(t *testing.T, k *session.Keeper[string]) {
		first, opened := wait(t, k), time.Now()
		s.set(func(s *fakeStore) { s.fail = session.ErrLost })
		<-first.Context().Done()
		if found := time.Since(opened); found != interval {
			t.Errorf("lost %s after it was opened, want at the next heartbeat", found)
		}
		s.set(func(s *fakeStore) { s.fail = nil })
		second := wait(t, k)
		if second.ID == first.ID || second.Data != "b" {
			t.Errorf("the lost session %s is used again", second.Data)
		}
		time.Sleep(time.Minute)
		if second.Context().Err() != nil {
			t.Errorf("lost: %v", context.Cause(second.Context()))
		}
		if k.Opened() != 2 || k.Lost() != 1 {
			t.Errorf("opened %d, lost %d", k.Opened(), k.Lost())
		}
	})
	if last == nil || last.Data != "b" ||
		!slices.Equal(s.events, []string{"lost a", "lost b", "ended"}) {
		t.Errorf("events %v, %v at the end", s.events, last)
	}
	if !errors.Is(s.causes[1], session.ErrLost) {
		t.Errorf("the end's cause: %v", s.causes[1])
	}
}

func TestMarkLost(t *testing.T) {
	s := &fakeStore{}
	keep(t, s, func(t *testing.T, k *session.Keeper[string]) {
		first := wait(t, k)
		found := fmt.Errorf("%w: found by its user", session.ErrLost)
		first.MarkLost(found)
		second := wait(t, k)
		if second == first || !errors.Is(s.calls().causes[0], found) {
			t.Errorf("got causes %v, want %v and a new session", s.calls().causes, found)
		}
	})
}

// The first openings also fail.
func TestFirstSessionIsMarkedOnce(t *testing.T) {
	s := &fakeStore{fail: errUnavailable}
	keep(t, s, func(t *testing.T, k *session.Keeper[string]) {
		time.Sleep(1500 * time.Millisecond)
		if _, err := k.Session(); !errors.Is(err, errUnavailable) {
			t.Errorf("the error does not give the reason: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := k.Wait(ctx); !errors.Is(err, session.ErrNone) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait: %v", err)
		}
		s.set(func(s *fakeStore) { s.fail = nil })
		wait(t, k).MarkLost(session.ErrLost)
		synctest.Wait()
		wait(t, k)
	})
	if want := []bool{true, true, true, false}; !slices.Equal(s.firsts, want) {
		t.Errorf("first: %v, want %v", s.firsts, want)
	}
}

func TestHeartbeats(t *testing.T) {
	s := &fakeStore{}
	keep(t, s, func(t *testing.T, k *session.Keeper[string]) {
		wait(t, k)
		time.Sleep(3*interval - time.Nanosecond)
		synctest.Wait()
		if got := s.calls(); got.heartbeats != 3 || got.applied != 3 { // the opening has one
			t.Errorf("%d heartbeats, %d replies applied", got.heartbeats, got.applied)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		s.set(func(s *fakeStore) { s.fail = errUnavailable })
		time.Sleep(interval + 3500*time.Millisecond)
		s.set(func(s *fakeStore) { s.fail = nil })
		time.Sleep(time.Second)
		synctest.Wait()
		if got := s.calls(); got.heartbeats != 9 || got.applied != 5 {
			// one failed, and was retried each second
			t.Errorf("%d heartbeats, %d replies applied", got.heartbeats, got.applied)
		}
	})
}

// A heartbeat before its time also moves the next one.
func TestHeartbeatNow(t *testing.T) {
	s := &fakeStore{}
	var now chan struct{}
	change := func(o *session.Options[string]) {
		now = make(chan struct{}, 1)
		o.HeartbeatNow = now
	}
	keepWith(t, s, change, func(t *testing.T, k *session.Keeper[string]) {
		wait(t, k)
		time.Sleep(time.Second)
		now <- struct{}{}
		synctest.Wait()
		if got := s.calls(); got.heartbeats != 2 {
			t.Errorf("%d heartbeats after a request for one", got.heartbeats)
		}
		time.Sleep(interval - time.Nanosecond)
		synctest.Wait()
		if got := s.calls(); got.heartbeats != 2 {
			t.Errorf("%d heartbeats before the next interval has passed", got.heartbeats)
		}
	})
}

// TestWakeDoesNotDelayHeartbeats calls OnWake each second for a minute.
func TestWakeDoesNotDelayHeartbeats(t *testing.T) {
	s := &fakeStore{}
	var wake chan struct{}
	woken := 0
	change := func(o *session.Options[string]) {
		wake = make(chan struct{}, 1)
		o.Wake, o.OnWake = wake, func(context.Context, *testSession) { woken++ }
	}
	keepWith(t, s, change, func(t *testing.T, k *session.Keeper[string]) {
		l := wait(t, k)
		for range 60 {
			wake <- struct{}{}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if l.Context().Err() != nil || woken != 60 || s.calls().heartbeats != 13 {
			t.Errorf("OnWake called %d times, %d heartbeats, %v", woken, s.calls().heartbeats,
				context.Cause(l.Context()))
		}
	})
}

// TestSlowWakeDoesNotEndTheSession has an OnWake that lasts until its context ends, and that is
// requested again at once.
func TestSlowWakeDoesNotEndTheSession(t *testing.T) {
	s := &fakeStore{}
	woken := 0
	change := func(o *session.Options[string]) {
		wake := make(chan struct{}, 1)
		wake <- struct{}{}
		o.Wake, o.OnWake = wake, func(ctx context.Context, _ *testSession) {
			woken++
			wake <- struct{}{}
			<-ctx.Done()
		}
	}
	keepWith(t, s, change, func(t *testing.T, k *session.Keeper[string]) {
		l := wait(t, k)
		time.Sleep(time.Minute)
		synctest.Wait()
		if l.Context().Err() != nil || woken < 6 || s.calls().heartbeats < 7 {
			t.Errorf("OnWake called %d times, %d heartbeats, %v", woken, s.calls().heartbeats,
				context.Cause(l.Context()))
		}
	})
}

// The keeper ends the session in the store, so that registrations for it do not remain. The same
// holds if the first reply cannot be applied.
func TestFailedPreparationEndsTheSession(t *testing.T) {
	for name, fail := range map[string]func(s *fakeStore, err error){
		"preparation": func(s *fakeStore, err error) { s.refuse = err },
		"reply":       func(s *fakeStore, err error) { s.reject = err },
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeStore{}
			fail(s, errUnavailable)
			keep(t, s, func(t *testing.T, k *session.Keeper[string]) {
				time.Sleep(1500 * time.Millisecond)
				if _, err := k.Session(); !errors.Is(err, errUnavailable) {
					t.Errorf("session offered: %v", err)
				}
				want := []string{"lost a", "ended", "lost b", "ended"}
				if got := s.calls().events; !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
				s.set(func(s *fakeStore) { fail(s, nil) })
				l := wait(t, k)
				s.set(func(s *fakeStore) { fail(s, errUnavailable) })
				time.Sleep(time.Minute)
				if l.Context().Err() != nil || k.Opened() != 1 || k.Lost() != 0 {
					t.Errorf("a later reply not applied: %v, opened %d, lost %d",
						context.Cause(l.Context()), k.Opened(), k.Lost())
				}
			})
		})
	}
}

func TestPermanentErrorOfTheFirstOpeningEndsRun(t *testing.T) {
	mistake := errors.New("permission denied")
	permanent := func(err error) bool { return errors.Is(err, mistake) }
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStore{refuse: mistake}
		o := s.options()
		o.Permanent = permanent
		k := session.New(o)
		if last, err := k.Run(t.Context()); last != nil || !errors.Is(err, mistake) {
			t.Errorf("Run: %v, %v", last, err)
		}
		if _, err := k.Wait(t.Context()); !errors.Is(err, session.ErrNone) ||
			!errors.Is(err, mistake) {
			t.Errorf("Wait: %v", err)
		}
	})
	s := &fakeStore{}
	change := func(o *session.Options[string]) { o.Permanent = permanent }
	keepWith(t, s, change, func(t *testing.T, k *session.Keeper[string]) {
		first := wait(t, k)
		s.set(func(s *fakeStore) { s.refuse = mistake })
		first.MarkLost(session.ErrLost)
		time.Sleep(time.Minute) // Run retries
		s.set(func(s *fakeStore) { s.refuse = nil })
		wait(t, k)
	})
}

func TestAwaitConfirmed(t *testing.T) {
	s := &fakeStore{fail: errUnavailable}
	keep(t, s, func(t *testing.T, k *session.Keeper[string]) {
		synctest.Wait()
		if k.AwaitConfirmed(t.Context()) {
			t.Error("confirmation without a session: got true, want false")
		}
		s.set(func(s *fakeStore) { s.fail = nil })
		l, opened := wait(t, k), time.Now()
		s.set(func(s *fakeStore) { s.fail = errUnavailable })
		time.Sleep(time.Until(opened.Add(interval * 3 / 2)))
		if !k.AwaitConfirmed(t.Context()) {
			t.Error("heartbeat late by half an interval: got no confirmation, want one")
		}
		time.Sleep(time.Nanosecond)
		// the confirmation of the opening is pending, so the first call returns at once
		for range 2 {
			if k.AwaitConfirmed(t.Context()) {
				t.Error("confirmation after one and a half intervals: got true, want false")
			}
		}
		if l.Context().Err() == nil {
			t.Error("returned before a confirmation or the loss of the session")
		}
	})
}
