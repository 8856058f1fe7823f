package lockingtest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

func claimTests() map[string]func(*testing.T, GrantsFixture) {
	return map[string]func(*testing.T, GrantsFixture){
		"TokensGrow":           testTokensGrow,
		"RepeatedGrant":        testRepeatedGrant,
		"Release":              testReleaseOfClaims,
		"RefusalStoresNothing": testRefusalStoresNothing,
		"EndedContext":         testGrantsWithEndedContext,
		"Connections":          testGrantsOfConnections,
		"Withdraw":             testWithdraw,
		"WithdrawGranted":      testWithdrawOfGrantedLock,
	}
}

func testTokensGrow(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	one, two := c.session("one"), c.session("two")
	var last locking.Token
	for i := range 10 {
		s := []uuid.UUID{one, two}[i%2]
		r := ask(writes("a"))
		token := c.granted(s, r)
		if token <= last {
			t.Errorf("token %d after %d", token, last)
		}
		last = token
		c.refused(s, ask(writes("a")), r)
		c.release(token)
	}
}

func testRepeatedGrant(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	r := ask(writes("a"), reads("b"))
	token := c.granted(s, r)
	for _, again := range []locking.GrantRequest{r, waiting(r)} {
		if got := c.granted(s, again); got != token {
			t.Errorf("token %d, then %d", token, got)
		}
	}
	results := c.grant(s, ask(writes("c")), r, ask(writes("a")))
	if results[1].Token != token || results[2].Blocker == nil {
		t.Errorf("in a batch: %+v", results)
	}
	c.release(token)
	if next := c.granted(s, r); next <= token {
		t.Errorf("token %d after the released token %d", next, token)
	}
}

func testReleaseOfClaims(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	a, b := c.granted(s, ask(writes("a"))), c.granted(s, ask(writes("b")))
	kept := ask(writes("kept"))
	keeps := c.granted(s, kept)
	const done, missing = locking.ReleaseDone, locking.ReleaseMissing
	tests := []struct {
		tokens []locking.Token
		want   []locking.ReleaseResult
	}{
		{nil, []locking.ReleaseResult{}},
		{[]locking.Token{0, -1, keeps + 1000}, []locking.ReleaseResult{missing, missing, missing}},
		{[]locking.Token{b, 0, a}, []locking.ReleaseResult{done, missing, done}},
		{[]locking.Token{a, b}, []locking.ReleaseResult{missing, missing}},
	}
	for _, test := range tests {
		if got, err := c.Release(t.Context(), test.tokens); err != nil ||
			!slices.Equal(got, test.want) {
			t.Errorf("release of %v: %v, %v, want %v", test.tokens, got, err, test.want)
		}
	}
	c.granted(s, ask(writes("a"), writes("b")))
	c.refused(s, ask(writes("kept")), kept)
}

func testRefusalStoresNothing(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	holder := ask(writes("a"))
	token := c.granted(s, holder)
	c.refused(s, ask(writes("a"), writes("b")), holder)
	if heartbeat := c.heartbeat(s); len(heartbeat.Waiting) != 0 || len(heartbeat.Claims) != 1 {
		t.Errorf("heartbeat: got %+v", heartbeat)
	}
	c.release(token)
	c.granted(s, ask(writes("a"), writes("b")))
}

func (c *grantsTest) heartbeat(session uuid.UUID) locking.HeartbeatReply {
	c.Helper()
	heartbeat, err := c.Heartbeat(c.Context(), session)
	c.must("heartbeat", err)
	return heartbeat
}

func testGrantsWithEndedContext(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	holder := ask(writes("held"))
	token := c.granted(s, holder)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, grantErr := c.Grant(ctx, s, []locking.GrantRequest{ask(writes("a"))})
	_, releaseErr := c.Release(ctx, []locking.Token{token})
	_, heartbeatErr := c.Heartbeat(ctx, s)
	_, sweepErr := c.Sweep(ctx)
	for what, err := range map[string]error{
		"grant": grantErr, "release": releaseErr, "heartbeat": heartbeatErr, "sweep": sweepErr,
		"withdrawal": c.Withdraw(ctx, s, []uuid.UUID{holder.ID}),
		"session": c.OpenSession(ctx,
			locking.Session{ID: uuid.New(), Replica: "two", TTL: sessionTTL}),
		"end": c.EndSession(ctx, s),
	} {
		if !errors.Is(err, locking.ErrUnavailable) || errors.Is(err, locking.ErrSessionLost) {
			t.Errorf("%s with an ended context: %v", what, err)
		}
	}
	c.refused(s, ask(writes("held")), holder)
	c.granted(s, ask(writes("a")))
}

func testGrantsOfConnections(t *testing.T, f GrantsFixture) {
	c, other := newGrantsTest(t, f), newGrantsTest(t, f)
	one, two := c.session("one"), other.session("two")
	holder := ask(writes("a"))
	token := c.granted(one, holder)
	other.refused(two, ask(writes("a/b")), holder)
	other.release(token)
	other.granted(two, ask(writes("a/b")))
	if heartbeat := c.heartbeat(one); len(heartbeat.Claims) != 0 {
		t.Errorf("claims %v", heartbeat.Claims)
	}
}

func testWithdraw(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	one, two := c.session("one"), c.session("two")
	holder, waiter := ask(writes("a")), waiting(ask(writes("a"), writes("b")))
	token := c.granted(one, holder)
	c.refused(one, waiter, holder)
	c.must("withdrawal by another session", c.Withdraw(t.Context(), two, []uuid.UUID{waiter.ID}))
	c.yields(two, ask(writes("b")), waiter)
	for range 2 {
		c.must("withdrawal", c.Withdraw(t.Context(), one, []uuid.UUID{uuid.New(), waiter.ID}))
	}
	c.granted(two, ask(writes("b")))
	c.release(token)
	if heartbeat := c.heartbeat(one); len(heartbeat.Waiting)+len(heartbeat.Claims) != 0 {
		t.Errorf("heartbeat: got %+v", heartbeat)
	}
	c.must("withdrawal of nothing", c.Withdraw(t.Context(), one, nil))
	c.must("end", c.EndSession(t.Context(), one))
	c.must("withdrawal after the session's end",
		c.Withdraw(t.Context(), one, []uuid.UUID{waiter.ID}))
	c.must("withdrawal from an unknown session",
		c.Withdraw(t.Context(), uuid.New(), []uuid.UUID{waiter.ID}))
}

// testWithdrawOfGrantedLock withdraws a lock whose grant reply was lost.
func testWithdrawOfGrantedLock(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	one, two := c.session("one"), c.session("two")
	r, other := ask(writes("a"), reads("b")), ask(writes("c"))
	token := c.granted(one, r)
	c.granted(one, other)
	c.must("withdrawal by another session", c.Withdraw(t.Context(), two, []uuid.UUID{r.ID}))
	c.refused(two, ask(writes("a")), r)
	c.must("withdrawal", c.Withdraw(t.Context(), one, []uuid.UUID{r.ID}))
	c.granted(two, ask(writes("a"), writes("b")))
	c.refused(two, ask(writes("c")), other)
	if released, err := c.Release(t.Context(), []locking.Token{token}); err != nil ||
		released[0] != locking.ReleaseMissing {
		t.Errorf("release of a withdrawn lock: got %v, %v", released, err)
	}
}
