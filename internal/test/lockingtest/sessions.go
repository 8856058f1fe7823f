package lockingtest

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

func sessionTests() map[string]func(*testing.T, GrantsFixture) {
	return map[string]func(*testing.T, GrantsFixture){
		"Heartbeat":               testHeartbeat,
		"Open":                    testOpenAgain,
		"NoTTL":                   testSessionWithoutTTL,
		"Expiry":                  testSessionExpiry,
		"Renewal":                 testSessionRenewal,
		"Unknown":                 testUnknownSession,
		"LiveSessions":            testLiveSessions,
		"Ended":                   testEndedSession,
		"EndOfExpiredSession":     testEndOfAnExpiredSession,
		"ExpiredClaimStays":       testClaimOfAnExpiredSession,
		"ReleaseByExpiredSession": testReleaseByAnExpiredSession,
		"Sweep":                   testSweep,
		"SweepSparesLive":         testSweepSparesLiveSessions,
		"ReplaceEarlier":          testReplaceEarlier,
		"ReplaceEarlierNotSet":    testSameNameWithoutReplaceEarlier,
	}
}

func testHeartbeat(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	one, two := c.session("one"), c.session("two")
	a, b, waiter := ask(writes("a")), ask(reads("b"), slot("c", 2)), waiting(ask(writes("a/b")))
	tokenA, tokenB := c.granted(one, a), c.granted(one, b)
	c.granted(two, ask(writes("other")))
	c.refused(one, waiter, a)
	heartbeat := c.heartbeat(one)
	if len(heartbeat.Claims) != 2 || heartbeat.Claims[tokenA] != a.ID ||
		heartbeat.Claims[tokenB] != b.ID {
		t.Errorf("claims %v, want %d of %s and %d of %s", heartbeat.Claims, tokenA, a.ID, tokenB,
			b.ID)
	}
	if !slices.Equal(heartbeat.Waiting, []uuid.UUID{waiter.ID}) {
		t.Errorf("waiting %v, want %s", heartbeat.Waiting, waiter.ID)
	}
	if d := time.Since(heartbeat.Now).Abs(); d > time.Hour {
		t.Errorf("store clock %s differs by %s", heartbeat.Now, d)
	}
	if next := c.heartbeat(one); next.Now.Before(heartbeat.Now) {
		t.Errorf("store clock went from %s to %s", heartbeat.Now, next.Now)
	}
	c.release(tokenA)
	if _, exists := c.heartbeat(one).Claims[tokenA]; exists {
		t.Error("released claim: got it in the store, want it deleted")
	}
}

func testLiveSessions(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	open, expires, ended := c.session("lives"), c.session("expires"), c.session("ended")
	checkLiving := func(want ...uuid.UUID) {
		t.Helper()
		got, err := c.LiveSessions(t.Context(), []uuid.UUID{ended, expires, uuid.New(), open})
		c.must("look at sessions", err)
		slices.SortFunc(got, func(a,
			b uuid.UUID) int {
			return cmp.Compare(a.String(), b.String())
		})
		slices.SortFunc(want, func(a, b uuid.UUID) int {
			return cmp.Compare(a.String(), b.String())
		})
		if !slices.Equal(got, want) {
			t.Errorf("%v live, want %v", got, want)
		}
	}
	checkLiving(open, expires, ended)
	c.must("end", c.EndSession(t.Context(), ended))
	checkLiving(open, expires)
	c.expire(expires)
	checkLiving(open) // before the sweep and after it
	c.sweep()
	checkLiving(open)
}

func testOpenAgain(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := locking.Session{ID: uuid.New(), Replica: "one", TTL: sessionTTL}
	for range 2 {
		c.must("session", c.OpenSession(t.Context(), s))
	}
	r := ask(writes("a"))
	c.granted(s.ID, r)
	s.ReplaceEarlier = true // a session does not end itself
	c.must("session", c.OpenSession(t.Context(), s))
	if len(c.heartbeat(s.ID).Claims) != 1 {
		t.Error("claim: got none, want one")
	}
	c.must("end", c.EndSession(t.Context(), s.ID))
	check(t, "session that has ended", c.OpenSession(t.Context(), s), locking.ErrSessionLost)
}

func testSessionWithoutTTL(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	for _, ttl := range []time.Duration{0, -time.Second} {
		if err := c.OpenSession(t.Context(),
			locking.Session{ID: uuid.New(), Replica: "one", TTL: ttl}); err == nil {
			t.Errorf("a session with TTL %s was opened", ttl)
		}
	}
}

// brief opens a session that expires soon.
func (c *grantsTest) brief(replica string, ttl time.Duration) locking.Session {
	c.Helper()
	s := locking.Session{ID: uuid.New(), Replica: replica, TTL: ttl}
	c.must("brief session", c.OpenSession(c.Context(), s))
	return s
}

// awaitExpiry waits until a session has expired, without renewing it.
func (c *grantsTest) awaitExpiry(session uuid.UUID) {
	c.Helper()
	await(c.T, "expiry", func() bool {
		_, err := c.Grant(c.Context(), session, nil)
		if err != nil && !errors.Is(err, locking.ErrSessionLost) {
			c.Fatal(err)
		}
		return err != nil
	})
}

func testSessionExpiry(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	start := time.Now()
	s := c.brief("one", time.Second)
	c.awaitExpiry(s.ID)
	if lived := time.Since(start); lived < s.TTL {
		t.Errorf("the session lasted %s of %s", lived, s.TTL)
	}
	_, err := c.Heartbeat(t.Context(), s.ID)
	check(t, "heartbeat", err, locking.ErrSessionLost)
	_, err = c.Grant(t.Context(), s.ID, []locking.GrantRequest{ask(writes("a"))})
	check(t, "grant", err, locking.ErrSessionLost)
	check(t, "opening again", c.OpenSession(t.Context(), s), locking.ErrSessionLost)
	c.granted(c.session("two"), ask(writes("a")))
}

func testSessionRenewal(t *testing.T, f GrantsFixture) {
	for ttl := time.Second; !renewedBeyond(t, f, ttl); ttl *= 2 {
		if ttl > awaitTimeout {
			t.Fatal("no heartbeat was sent in time")
		}
	}
}

// renewedBeyond renews one session until another has expired. It reports false if a heartbeat was
// not answered in time. Such a try shows nothing.
func renewedBeyond(t *testing.T, f GrantsFixture, ttl time.Duration) bool {
	c := newGrantsTest(t, f)
	s, control := c.brief("one", ttl), c.brief("control", ttl)
	var slowest time.Duration // between the answers of two heartbeats
	ended := make(chan struct{})
	lost := make(chan error, 1)
	go func() {
		defer close(lost)
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond):
			}
			_, err := c.Heartbeat(t.Context(), s.ID)
			slowest = max(slowest, time.Since(last))
			if err != nil {
				lost <- err
				return
			}
		}
	}()
	c.awaitExpiry(control.ID)
	close(ended)
	err := <-lost
	if slowest > ttl/2 {
		return false
	}
	if err != nil {
		t.Errorf("heartbeat while another session expired: %v", err)
	}
	c.granted(s.ID, ask(writes("a")))
	return true
}

func testUnknownSession(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	unknown := uuid.New()
	_, err := c.Heartbeat(t.Context(), unknown)
	check(t, "heartbeat", err, locking.ErrSessionLost)
	_, err = c.Grant(t.Context(), unknown, []locking.GrantRequest{ask(writes("a"))})
	check(t, "grant", err, locking.ErrSessionLost)
	check(t, "end", c.EndSession(t.Context(), unknown), nil)
	c.granted(c.session("one"), ask(writes("a")))
}

func testEndedSession(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	one, two := c.session("one"), c.session("two")
	c.granted(one, ask(writes("a"), reads("b")))
	c.granted(one, ask(slot("c", 1)))
	for range 2 {
		c.must("end", c.EndSession(t.Context(), one))
	}
	c.granted(two, ask(writes("a"), writes("b"), writes("c")))
	_, err := c.Heartbeat(t.Context(), one)
	check(t, "heartbeat", err, locking.ErrSessionLost)
	_, err = c.Grant(t.Context(), one, []locking.GrantRequest{ask(writes("d"))})
	check(t, "grant", err, locking.ErrSessionLost)
	if swept := c.sweep(); len(swept) != 0 {
		t.Errorf("swept %+v of a session without claims", swept)
	}
}

func testEndOfAnExpiredSession(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	one, two := c.session("one"), c.session("two")
	c.granted(one, ask(writes("a")))
	c.expire(one)
	c.must("end", c.EndSession(t.Context(), one))
	c.granted(two, ask(writes("a")))
}

func testClaimOfAnExpiredSession(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	one, two := c.session("one"), c.session("two")
	holder, next := ask(writes("a")), ask(writes("a"))
	c.granted(one, holder)
	c.expire(one)
	_, err := c.Grant(t.Context(), one, []locking.GrantRequest{ask(writes("b"))})
	check(t, "grant", err, locking.ErrSessionLost)
	c.refused(two, next, holder)
	if swept := c.sweep(); len(swept) != 1 {
		t.Errorf("swept %+v", swept)
	}
	c.granted(two, next)
}

func testReleaseByAnExpiredSession(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	one, two := c.session("one"), c.session("two")
	token := c.granted(one, ask(writes("a")))
	c.expire(one)
	c.release(token)
	c.granted(two, ask(writes("a")))
	if swept := c.sweep(); len(swept) != 0 {
		t.Errorf("swept %+v", swept)
	}
}

func testSweep(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	one, two, live := c.session("one"), c.session("two"), c.session("living")
	locks := []locking.GrantRequest{ask(writes("a"), reads("b"), slot("c", 7)), ask(reads("b")),
		ask()}
	var want []locking.Released
	for i, r := range locks {
		r.Owner = locking.Owner{Replica: "replica", Job: "größe", Run: r.ID.String()}
		token := c.granted([]uuid.UUID{one, two, one}[i], r)
		want = append(want, locking.Released{ID: r.ID, Token: token, Owner: r.Owner,
			Requests: r.Requests})
	}
	if c.grant(two, waiting(ask(writes("a"))))[0].Blocker == nil {
		t.Error("second lock on a name: got a grant, want a refusal")
	}
	c.granted(live, ask(writes("z")))
	if swept := c.sweep(); len(swept) != 0 {
		t.Fatalf("swept %+v of live sessions", swept)
	}
	c.expire(one)
	c.expire(two)
	swept := c.sweep()
	slices.SortFunc(swept, func(a, b locking.Released) int { return cmp.Compare(a.Token, b.Token) })
	if !slices.EqualFunc(swept, want, sameReleased) {
		t.Errorf("swept %+v, want %+v", swept, want)
	}
	if again := c.sweep(); len(again) != 0 {
		t.Errorf("swept again: %+v", again)
	}
	if released, err := c.Release(t.Context(), []locking.Token{want[0].Token}); err != nil ||
		released[0] != locking.ReleaseMissing {
		t.Errorf("release of a swept claim: %v, %v", released, err)
	}
	c.granted(live, ask(writes("a"), writes("b"), writes("c")))
}

func sameReleased(a, b locking.Released) bool {
	return a.ID == b.ID && a.Token == b.Token && a.Owner == b.Owner &&
		slices.Equal(a.Requests, b.Requests)
}

func testSweepSparesLiveSessions(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	dead, live := c.session("dead"), c.session("living")
	kept, waiter := ask(writes("kept")), waiting(ask(writes("lost"), writes("wanted")))
	c.granted(dead, ask(writes("lost")))
	c.granted(live, kept)
	if c.grant(live, waiter)[0].Blocker == nil {
		t.Error("second lock on a name: got a grant, want a refusal")
	}
	c.expire(dead)
	if swept := c.sweep(); len(swept) != 1 {
		t.Errorf("swept %+v", swept)
	}
	other := c.session("other")
	c.refused(other, ask(writes("kept")), kept)
	c.yields(other, ask(writes("wanted")), waiter)
	c.granted(live, waiter)
}

func testReplaceEarlier(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	former, other := c.session("one"), c.session("other")
	c.granted(former, ask(writes("a")))
	kept := ask(writes("b"))
	c.granted(other, kept)
	next := locking.Session{ID: uuid.New(), Replica: "one", TTL: sessionTTL, ReplaceEarlier: true}
	c.must("session", c.OpenSession(t.Context(), next))
	_, err := c.Heartbeat(t.Context(), former)
	check(t, "heartbeat of the former session", err, locking.ErrSessionLost)
	if swept := c.sweep(); len(swept) != 1 {
		t.Errorf("swept %+v", swept)
	}
	c.granted(next.ID, ask(writes("a")))
	c.refused(next.ID, ask(writes("b")), kept)
	c.must("the same again", c.OpenSession(t.Context(), next))
	c.heartbeat(next.ID)
}

func testSameNameWithoutReplaceEarlier(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	one, namesake := c.session("one"), c.session("one")
	holder := ask(writes("a"))
	c.granted(one, holder)
	c.refused(namesake, ask(writes("a")), holder)
	c.heartbeat(one)
}
