package lockingtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/locking"
)

// RunGrantsModel compares the answers of a store of grants to random calls with a simple model: a
// list of all locks, each compared with each. With sleeps, sessions also expire by time. Then t
// must run in a bubble of testing/synctest, with the store in this process.
func RunGrantsModel(t *testing.T, f GrantsFixture, sleeps bool) {
	var sequences atomic.Int64
	// rapid asks a *testing.T for its deadline, which fails in a bubble.
	rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) {
		m := &model{grantsTest: newGrantsTest(t, f), prefix: fmt.Sprint("m", sequences.Add(1))}
		actions := map[string]func(*rapid.T){
			"": m.live, "ask": m.ask, "ask again": m.askAgain, "and again": m.askAgain,
			"release": m.release, "withdraw": m.withdraw,
			// These are rare, so that many locks wait for each other.
			"fate": func(rt *rapid.T) {
				rapid.SampledFrom([]func(*rapid.T){m.open, m.lapse, m.end, m.sweep}).
					Draw(rt, "fate")(rt)
			},
			"heartbeat": m.heartbeat,
		}
		if sleeps {
			actions["sleep"] = m.sleep
		}
		rt.Repeat(actions)
		m.tidy(rt)
	})
}

// model is the expected state of one sequence. All sequences share a store, so the names of each
// sequence have a prefix of their own.
type model struct {
	grantsTest *grantsTest
	prefix     string
	sessions   []*modelSession
	locks      []*modelLock // all that were requested
	positions  int          // number of positions given to waiters
	past       []modelClaim // all that were granted
}

type modelSession struct {
	locking.Session
	expires time.Time // by the bubble's clock
	state   modelState
}

type modelState string

const (
	live    modelState = "live"
	expired modelState = "expired"
	ended   modelState = "ended"
)

type modelLock struct {
	locking.GrantRequest
	session  *modelSession
	token    locking.Token // of the claim; 0 without one
	position int           // among the waiters, larger is later; 0 if not queued
}

type modelClaim struct {
	token    locking.Token
	requests []locking.Request
}

// live opens sessions if no session is live.
func (m *model) live(t *rapid.T) {
	if m.firstLiving() == nil {
		m.open(t)
		m.open(t)
	}
}

func (m *model) firstLiving() *modelSession {
	i := slices.IndexFunc(m.sessions, func(s *modelSession) bool { return s.state == live })
	if i < 0 {
		return nil
	}
	return m.sessions[i]
}

// open opens the session of another replica.
func (m *model) open(t *rapid.T) {
	s := &modelSession{state: live, Session: locking.Session{
		ID: uuid.New(), Replica: fmt.Sprint(m.prefix, "-", len(m.sessions)),
		TTL: rapid.SampledFrom([]time.Duration{sessionTTL, sessionTTL / 2}).Draw(t, "ttl"),
	}}
	m.must(t, "session", m.grantsTest.OpenSession(m.grantsTest.Context(), s.Session))
	s.expires = time.Now().Add(s.TTL)
	m.grantsTest.replicas[s.ID] = s.Replica
	m.sessions = append(m.sessions, s)
}

func (m *model) must(t *rapid.T, what string, err error) {
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// expect checks the error of a call for a session: only a live session gets an answer.
func (m *model) expect(t *rapid.T, what string, s *modelSession, err error) {
	if lost := errors.Is(err, locking.ErrSessionLost); lost != (s.state != live) ||
		err != nil && !lost {
		t.Fatalf("%s of session %s, which is %s: %v", what, s.Replica, s.state, err)
	}
}

// drawSession draws a session, mostly a live one.
func (m *model) drawSession(t *rapid.T) *modelSession {
	drawn := rapid.SampledFrom(m.sessions).Draw(t, "session")
	if alive := m.firstLiving(); drawn.state != live && alive != nil &&
		rapid.IntRange(0, 5).Draw(t, "dead") > 0 {
		return alive
	}
	return drawn
}

// drawRequests draws the requests of one lock, with few and related names.
func (m *model) drawRequests(t *rapid.T) []locking.Request {
	names := rapid.SliceOfNDistinct(
		rapid.SampledFrom([]string{"path:*", "path:*/a", "path:*/a", "path:*/a/b", "path:*/c",
			"slot:*/a"}),
		rapid.SampledFrom([]int{0, 1, 1, 1}).Draw(t, "least"), 2, rapid.ID[string]).Draw(t, "names")
	var requests []locking.Request
	for _, name := range names {
		r := locking.Request{Resource: resource(strings.ReplaceAll(name, "*", m.prefix))}
		r.Mode = rapid.SampledFrom([]locking.Mode{locking.Exclusive, locking.Shared,
			locking.Slotted, locking.Slotted}).Draw(t, "mode")
		if r.Mode == locking.Slotted {
			r.Slots = rapid.SampledFrom([]int{1, 2, 2, 3}).Draw(t, "slots")
		}
		requests = append(requests, r)
	}
	return ask(requests...).Requests
}

// ask requests a few new locks in one call.
func (m *model) ask(t *rapid.T) {
	s := m.drawSession(t)
	var batch []*modelLock
	for range rapid.IntRange(1, 3).Draw(t, "locks") {
		l := &modelLock{GrantRequest: ask(m.drawRequests(t)...), session: s}
		batch = append(batch, l)
	}
	m.locks = append(m.locks, batch...)
	m.grant(t, s, batch)
}

// askAgain requests known locks again, in any state.
func (m *model) askAgain(t *rapid.T) {
	first := m.drawLock(t)
	batch := []*modelLock{first}
	for _, l := range m.locks {
		if l != first && l.session == first.session && rapid.Bool().Draw(t, "another") {
			batch = append(batch, l)
		}
	}
	m.grant(t, first.session, batch)
}

func (m *model) drawLock(t *rapid.T) *modelLock {
	if len(m.locks) == 0 {
		t.Skip("no lock is known")
	}
	return rapid.SampledFrom(m.locks).Draw(t, "lock")
}

// grant requests all locks of the batch three times. Nothing changes after the second time, so the
// third answers are the same.
func (m *model) grant(t *rapid.T, s *modelSession, batch []*modelLock) {
	for _, l := range batch {
		l.Wait = rapid.IntRange(0, 3).Draw(t, "wait") > 0
	}
	var last []locking.GrantResult
	for try := range 3 {
		results := m.grantOnce(t, s, batch)
		if try == 2 {
			if diff := cmp.Diff(last, results, cmp.Comparer(func(a, b locking.Resource) bool {
				return a == b
			})); diff != "" {
				t.Fatalf("the repeated request got another answer: %s", diff)
			}
		}
		last = results
	}
}

func (m *model) grantOnce(t *rapid.T, s *modelSession, batch []*modelLock) []locking.GrantResult {
	requests := make([]locking.GrantRequest, len(batch))
	for i, l := range batch {
		requests[i] = l.GrantRequest
	}
	results, err := m.grantsTest.Grant(m.grantsTest.Context(), s.ID, requests)
	m.expect(t, "grant", s, err)
	if err == nil && len(results) != len(batch) {
		t.Fatalf("got %d answers for %d locks", len(results), len(batch))
	}
	for i := range results {
		m.decide(t, batch[i], results[i])
	}
	return results
}

// decide compares one answer with the model and records it.
func (m *model) decide(t *rapid.T, l *modelLock, got locking.GrantResult) {
	blockers, _ := m.blockers(l)
	switch {
	case l.token != 0:
		if got.Token != l.token || got.Blocker != nil {
			t.Fatalf("lock %s has token %d and got answer %d, %+v", l.ID, l.token, got.Token,
				got.Blocker)
		}
	case len(blockers) > 0:
		m.expectBlocker(t, l, got)
		if l.Wait && l.position == 0 {
			m.positions++
			l.position = m.positions
		}
	default:
		if got.Token == 0 || got.Blocker != nil {
			t.Fatalf("lock %s of %v has no blocker and got answer %d, %+v", l.ID,
				l.Requests, got.Token, got.Blocker)
		}
		m.expectGrowth(t, got.Token, l.Requests)
		l.token, l.position = got.Token, 0
		m.past = append(m.past, modelClaim{l.token, l.Requests})
	}
}

// blockers returns the locks that block l: holders that conflict, live waiters that conflict and
// have waited longer, and the users of its slots. holders are those of them that hold.
func (m *model) blockers(l *modelLock) (found, holders []*modelLock) {
	for _, mine := range l.Requests {
		var inSlots []*modelLock
		for _, other := range m.locks {
			waits := other.token == 0 && other.position != 0 && other.session.state == live &&
				(l.position == 0 || other.position < l.position)
			if other == l || other.token == 0 && !waits {
				continue
			}
			for _, theirs := range other.Requests {
				switch {
				case locking.Conflict(mine, theirs):
					found = append(found, other)
					if other.token != 0 {
						holders = append(holders, other)
					}
				case mine.Resource == theirs.Resource && mine.Mode == locking.Slotted:
					inSlots = append(inSlots, other)
				}
			}
		}
		if mine.Mode == locking.Slotted && len(inSlots) >= mine.Slots {
			found = append(found, inSlots...)
		}
	}
	return found, holders
}

// expectBlocker checks that the answer names one of the blockers, and a holder if there is one.
func (m *model) expectBlocker(t *rapid.T, l *modelLock, got locking.GrantResult) {
	blockers, holders := m.blockers(l)
	if got.Token != 0 || got.Blocker == nil {
		t.Fatalf("lock %s of %v got answer %d, %+v, although lock %s of %v blocks it", l.ID,
			l.Requests, got.Token, got.Blocker, blockers[0].ID, blockers[0].Requests)
	}
	b := *got.Blocker
	i := slices.IndexFunc(blockers, func(o *modelLock) bool { return o.ID == b.ID })
	if i < 0 || b.Holder != blockers[i].Owner || b.Waiting != (blockers[i].token == 0) ||
		b.Since.IsZero() {
		t.Fatalf("lock %s of %v is blocked by %+v, which does not block it in that way", l.ID,
			l.Requests, b)
	}
	if b.Waiting && len(holders) > 0 {
		t.Fatalf("lock %s of %v is blocked by waiter %+v, although lock %s is a holder", l.ID,
			l.Requests, b, holders[0].ID)
	}
	onIt := slices.ContainsFunc(blockers[i].Requests, func(r locking.Request) bool {
		return r.Resource == b.Resource
	})
	related := slices.ContainsFunc(l.Requests, func(r locking.Request) bool {
		return r.Resource.Related(b.Resource)
	})
	if !onIt || !related {
		t.Fatalf("lock %s of %v is blocked by %+v, which has %v", l.ID, l.Requests, b,
			blockers[i].Requests)
	}
}

// expectGrowth checks that the token is larger than those of all conflicting claims before it.
func (m *model) expectGrowth(t *rapid.T, token locking.Token, requests []locking.Request) {
	for _, earlier := range m.past {
		for _, theirs := range earlier.requests {
			if token <= earlier.token &&
				slices.ContainsFunc(requests, func(mine locking.Request) bool {
					return locking.Conflict(mine, theirs)
				}) {
				t.Fatalf("token %d of %v came after token %d of %v", token, requests, earlier.token,
					earlier.requests)
			}
		}
	}
}

// release releases claims of any session, which may have ended already.
func (m *model) release(t *rapid.T) {
	if len(m.past) == 0 {
		t.Skip("no claim is known")
	}
	claims := rapid.SliceOfNDistinct(rapid.SampledFrom(m.past), 1, 3,
		func(c modelClaim) locking.Token { return c.token }).Draw(t, "claims")
	tokens := []locking.Token{0}
	for _, c := range claims {
		tokens = append(tokens, c.token)
	}
	released, err := m.grantsTest.Release(m.grantsTest.Context(), tokens)
	m.must(t, "release", err)
	for i, token := range tokens {
		l := m.holder(token)
		want := locking.ReleaseMissing
		if l != nil {
			want, l.token = locking.ReleaseDone, 0
		}
		if released[i] != want {
			t.Fatalf("release of token %d: got %v, want %v", token, released[i], want)
		}
	}
}

// holder returns the lock that has the claim with this token, or nil.
func (m *model) holder(token locking.Token) *modelLock {
	i := slices.IndexFunc(m.locks,
		func(l *modelLock) bool { return token != 0 && l.token == token })
	if i < 0 {
		return nil
	}
	return m.locks[i]
}

// withdraw withdraws locks of any session in the name of one session.
func (m *model) withdraw(t *rapid.T) {
	s, l := m.drawSession(t), m.drawLock(t)
	m.must(t, "withdrawal", m.grantsTest.Withdraw(m.grantsTest.Context(), s.ID,
		[]uuid.UUID{l.ID, uuid.New()}))
	if l.session == s {
		l.token, l.position = 0, 0
	}
}

func (m *model) heartbeat(t *rapid.T) {
	s := m.drawSession(t)
	heartbeat, err := m.grantsTest.Heartbeat(m.grantsTest.Context(), s.ID)
	m.expect(t, "heartbeat", s, err)
	if err != nil {
		return
	}
	s.expires = time.Now().Add(s.TTL)
	claims := map[locking.Token]uuid.UUID{}
	var waiting []uuid.UUID
	for _, l := range m.locks {
		switch {
		case l.session != s:
		case l.token != 0:
			claims[l.token] = l.ID
		case l.position != 0:
			waiting = append(waiting, l.ID)
		}
	}
	byText := func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) }
	slices.SortFunc(waiting, byText)
	slices.SortFunc(heartbeat.Waiting, byText)
	if !maps.Equal(heartbeat.Claims, claims) || !slices.Equal(heartbeat.Waiting, waiting) {
		t.Fatalf("session %s has %v and waits for %v, want %v and %v", s.Replica, heartbeat.Claims,
			heartbeat.Waiting, claims, waiting)
	}
}

// lapse makes a session expire at once.
func (m *model) lapse(t *rapid.T) {
	s := m.drawSession(t)
	m.grantsTest.expire(s.ID)
	m.expire(s)
}

func (m *model) expire(s *modelSession) {
	if s.state == live {
		s.state = expired
		m.each(s, func(l *modelLock) { l.position = 0 })
	}
}

func (m *model) each(s *modelSession, do func(l *modelLock)) {
	for _, l := range m.locks {
		if l.session == s {
			do(l)
		}
	}
}

// sleep lets time pass. Each sleep adds a nanosecond, so no two times of a sequence are exactly a
// TTL apart.
func (m *model) sleep(t *rapid.T) {
	time.Sleep(time.Duration(rapid.Int64Range(1, (sessionTTL/2+time.Second).Milliseconds()).
		Draw(t, "ms"))*time.Millisecond + 1)
	for _, s := range m.sessions {
		if time.Now().After(s.expires) {
			m.expire(s)
		}
	}
	m.heartbeat(t)
}

func (m *model) end(t *rapid.T) { m.endSession(t, m.drawSession(t)) }

func (m *model) endSession(t *rapid.T, s *modelSession) {
	m.must(t, "end", m.grantsTest.EndSession(m.grantsTest.Context(), s.ID))
	s.state = ended
	m.each(s, func(l *modelLock) { l.token, l.position = 0, 0 })
}

func (m *model) sweep(t *rapid.T) {
	swept, err := m.grantsTest.Sweep(m.grantsTest.Context())
	m.must(t, "sweep", err)
	for _, r := range swept {
		l := m.holder(r.Token)
		if l == nil || l.session.state != expired || l.ID != r.ID || l.Owner != r.Owner ||
			!slices.Equal(l.Requests, r.Requests) {
			t.Fatalf("swept %+v, which is not a claim of an expired session", r)
		}
		l.token = 0
	}
	for _, l := range m.locks {
		if l.token != 0 && l.session.state == expired {
			t.Fatalf("token %d of expired session %s was not swept", l.token,
				l.session.Replica)
		}
	}
	for _, s := range m.sessions {
		if s.state == expired {
			s.state = ended
		}
	}
}

// tidy ends all sessions of the sequence.
func (m *model) tidy(t *rapid.T) {
	for _, s := range m.sessions {
		m.endSession(t, s)
	}
	if left, err := m.grantsTest.Sweep(m.grantsTest.Context()); err != nil || len(left) > 0 {
		t.Fatalf("locks left after the end of all sessions: %+v, %v", left, err)
	}
}
