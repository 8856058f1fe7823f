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

// RunGrantsModel compares what a store of grants answers to random calls with
// what the guarantee says, told in the plainest way: a list of all locks, each
// compared with each. With sleeps sessions also expire by time: then t is to
// run in a bubble of testing/synctest, and the store in this process.
func RunGrantsModel(t *testing.T, f GrantsFixture, sleeps bool) {
	var sequences atomic.Int64
	// A *testing.T would be asked for its deadline, which it hasn't in a bubble.
	rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) {
		m := &model{court: newCourt(t, f), prefix: fmt.Sprint("m", sequences.Add(1))}
		actions := map[string]func(*rapid.T){
			"": m.live, "ask": m.ask, "ask again": m.askAgain, "and again": m.askAgain,
			"release": m.release, "withdraw": m.withdraw,
			// Few of these in all, so that many locks come to wait for each other.
			"fate": func(rt *rapid.T) {
				rapid.SampledFrom([]func(*rapid.T){m.open, m.lapse, m.end, m.sweep}).
					Draw(rt, "fate")(rt)
			},
			"beat": m.beat,
		}
		if sleeps {
			actions["sleep"] = m.sleep
		}
		rt.Repeat(actions)
		m.tidy(rt)
	})
}

// model is what a store must know of one sequence. All sequences share a store;
// names that begin alike keep them apart.
type model struct {
	court    *court
	prefix   string
	sessions []*modelSession
	locks    []*modelLock // all that were ever asked for
	places   int          // given to those that wait, so far
	past     []modelClaim // all that were ever given
}

type modelSession struct {
	locking.Session
	expires time.Time // by the bubble's clock
	state   modelState
}

type modelState string

const (
	living  modelState = "living"
	expired modelState = "expired"
	ended   modelState = "ended"
)

type modelLock struct {
	locking.GrantRequest
	session *modelSession
	token   locking.Token // of the claim that stands; 0: none does
	place   int           // among the waiting, the larger the later; 0: none
}

type modelClaim struct {
	token    locking.Token
	requests []locking.Request
}

// live sees to it that somebody does.
func (m *model) live(t *rapid.T) {
	if m.firstLiving() == nil {
		m.open(t)
		m.open(t)
	}
}

func (m *model) firstLiving() *modelSession {
	i := slices.IndexFunc(m.sessions, func(s *modelSession) bool { return s.state == living })
	if i < 0 {
		return nil
	}
	return m.sessions[i]
}

// open begins the life of another replica.
func (m *model) open(t *rapid.T) {
	s := &modelSession{state: living, Session: locking.Session{
		ID: uuid.New(), Replica: fmt.Sprint(m.prefix, "-", len(m.sessions)),
		TTL: rapid.SampledFrom([]time.Duration{sessionTTL, sessionTTL / 2}).Draw(t, "ttl"),
	}}
	m.must(t, "session", m.court.OpenSession(m.court.Context(), s.Session))
	s.expires = time.Now().Add(s.TTL)
	m.court.replicas[s.ID] = s.Replica
	m.sessions = append(m.sessions, s)
}

func (m *model) must(t *rapid.T, what string, err error) {
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// expect checks the answer to a call for a session: only one that lives gets any.
func (m *model) expect(t *rapid.T, what string, s *modelSession, err error) {
	if lost := errors.Is(err, locking.ErrSessionLost); lost != (s.state != living) ||
		err != nil && !lost {
		t.Fatalf("%s of session %s, which is %s: %v", what, s.Replica, s.state, err)
	}
}

// drawSession draws one that lives, as a rule.
func (m *model) drawSession(t *rapid.T) *modelSession {
	drawn := rapid.SampledFrom(m.sessions).Draw(t, "session")
	if alive := m.firstLiving(); drawn.state != living && alive != nil &&
		rapid.IntRange(0, 5).Draw(t, "dead") > 0 {
		return alive
	}
	return drawn
}

// drawRequests draws what one lock asks for, from few and related names.
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

// ask asks for a few new locks in one call.
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

// askAgain asks for locks that are known, whatever has become of them.
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

// grant asks for all of the batch, and then again: the second time nothing
// changes, so the third answers are the same.
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
				t.Fatalf("answered otherwise when asked again: %s", diff)
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
	results, err := m.court.Grant(m.court.Context(), s.ID, requests)
	m.expect(t, "grant", s, err)
	if err == nil && len(results) != len(batch) {
		t.Fatalf("%d answers for %d locks", len(results), len(batch))
	}
	for i := range results {
		m.decide(t, batch[i], results[i])
	}
	return results
}

// decide compares one answer with the list, and notes it.
func (m *model) decide(t *rapid.T, l *modelLock, got locking.GrantResult) {
	obstacles, _ := m.obstacles(l)
	switch {
	case l.token != 0:
		if got.Token != l.token || got.Blocker != nil {
			t.Fatalf("lock %s has token %d, and was answered %d, %+v", l.ID, l.token, got.Token,
				got.Blocker)
		}
	case len(obstacles) > 0:
		m.expectBlocker(t, l, got)
		if l.Wait && l.place == 0 {
			m.places++
			l.place = m.places
		}
	default:
		if got.Token == 0 || got.Blocker != nil {
			t.Fatalf("lock %s of %v has nothing in its way, and was answered %d, %+v", l.ID,
				l.Requests, got.Token, got.Blocker)
		}
		m.expectGrowth(t, got.Token, l.Requests)
		l.token, l.place = got.Token, 0
		m.past = append(m.past, modelClaim{l.token, l.Requests})
	}
}

// obstacles are the locks that stand in l's way: those that hold and conflict,
// those that live, have waited longer and conflict, and whoever takes its slots.
// holders are the first of these.
func (m *model) obstacles(l *modelLock) (found, holders []*modelLock) {
	for _, mine := range l.Requests {
		var inSlots []*modelLock
		for _, other := range m.locks {
			waits := other.token == 0 && other.place != 0 && other.session.state == living &&
				(l.place == 0 || other.place < l.place)
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

// expectBlocker wants an obstacle named, and rather one that holds.
func (m *model) expectBlocker(t *rapid.T, l *modelLock, got locking.GrantResult) {
	obstacles, holders := m.obstacles(l)
	if got.Token != 0 || got.Blocker == nil {
		t.Fatalf("lock %s of %v was answered %d, %+v, though lock %s of %v is in its way", l.ID,
			l.Requests, got.Token, got.Blocker, obstacles[0].ID, obstacles[0].Requests)
	}
	b := *got.Blocker
	i := slices.IndexFunc(obstacles, func(o *modelLock) bool { return o.ID == b.ID })
	if i < 0 || b.Holder != obstacles[i].Owner || b.Waiting != (obstacles[i].token == 0) ||
		b.Since.IsZero() {
		t.Fatalf("lock %s of %v is blocked by %+v, which is no obstacle as it says", l.ID,
			l.Requests, b)
	}
	if b.Waiting && len(holders) > 0 {
		t.Fatalf("lock %s of %v is blocked by %+v, which waits, though lock %s holds", l.ID,
			l.Requests, b, holders[0].ID)
	}
	onIt := slices.ContainsFunc(obstacles[i].Requests, func(r locking.Request) bool {
		return r.Resource == b.Resource
	})
	related := slices.ContainsFunc(l.Requests, func(r locking.Request) bool {
		return r.Resource.Related(b.Resource)
	})
	if !onIt || !related {
		t.Fatalf("lock %s of %v is blocked by %+v, which has %v", l.ID, l.Requests, b,
			obstacles[i].Requests)
	}
}

// expectGrowth wants a token above those of all that ever had what conflicts.
func (m *model) expectGrowth(t *rapid.T, token locking.Token, requests []locking.Request) {
	for _, former := range m.past {
		for _, theirs := range former.requests {
			if token <= former.token &&
				slices.ContainsFunc(requests, func(mine locking.Request) bool {
					return locking.Conflict(mine, theirs)
				}) {
				t.Fatalf("token %d of %v came after token %d of %v", token, requests, former.token,
					former.requests)
			}
		}
	}
}

// release gives back claims of any session, which need not stand any more.
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
	stood, err := m.court.Release(m.court.Context(), tokens)
	m.must(t, "release", err)
	for i, token := range tokens {
		l := m.holder(token)
		if stood[i] != (l != nil) {
			t.Fatalf("release of token %d: it stood %v, expected %v", token, stood[i], l != nil)
		}
		if l != nil {
			l.token = 0
		}
	}
}

// holder returns the lock whose claim of this token stands, or nil.
func (m *model) holder(token locking.Token) *modelLock {
	i := slices.IndexFunc(m.locks,
		func(l *modelLock) bool { return token != 0 && l.token == token })
	if i < 0 {
		return nil
	}
	return m.locks[i]
}

// withdraw names locks of any session to one of them.
func (m *model) withdraw(t *rapid.T) {
	s, l := m.drawSession(t), m.drawLock(t)
	m.must(t, "withdrawal", m.court.Withdraw(m.court.Context(), s.ID,
		[]uuid.UUID{l.ID, uuid.New()}))
	if l.session == s {
		l.token, l.place = 0, 0
	}
}

func (m *model) beat(t *rapid.T) {
	s := m.drawSession(t)
	beat, err := m.court.Heartbeat(m.court.Context(), s.ID)
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
		case l.place != 0:
			waiting = append(waiting, l.ID)
		}
	}
	byText := func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) }
	slices.SortFunc(waiting, byText)
	slices.SortFunc(beat.Waiting, byText)
	if !maps.Equal(beat.Claims, claims) || !slices.Equal(beat.Waiting, waiting) {
		t.Fatalf("session %s has %v and waits for %v, expected %v and %v", s.Replica, beat.Claims,
			beat.Waiting, claims, waiting)
	}
}

// lapse makes a session expire at once.
func (m *model) lapse(t *rapid.T) {
	s := m.drawSession(t)
	m.court.expire(s.ID)
	m.expire(s)
}

func (m *model) expire(s *modelSession) {
	if s.state == living {
		s.state = expired
		m.each(s, func(l *modelLock) { l.place = 0 })
	}
}

func (m *model) each(s *modelSession, do func(l *modelLock)) {
	for _, l := range m.locks {
		if l.session == s {
			do(l)
		}
	}
}

// sleep lets time pass. No two times of a sequence are a TTL apart: each sleep
// adds a nanosecond that is part of none.
func (m *model) sleep(t *rapid.T) {
	time.Sleep(time.Duration(rapid.Int64Range(1, (sessionTTL/2+time.Second).Milliseconds()).
		Draw(t, "ms"))*time.Millisecond + 1)
	for _, s := range m.sessions {
		if time.Now().After(s.expires) {
			m.expire(s)
		}
	}
	m.beat(t)
}

func (m *model) end(t *rapid.T) { m.endSession(t, m.drawSession(t)) }

func (m *model) endSession(t *rapid.T, s *modelSession) {
	m.must(t, "end", m.court.EndSession(m.court.Context(), s.ID))
	s.state = ended
	m.each(s, func(l *modelLock) { l.token, l.place = 0, 0 })
}

func (m *model) sweep(t *rapid.T) {
	swept, err := m.court.Sweep(m.court.Context())
	m.must(t, "sweep", err)
	for _, r := range swept {
		l := m.holder(r.Token)
		if l == nil || l.session.state != expired || l.ID != r.ID || l.Owner != r.Owner ||
			!slices.Equal(l.Requests, r.Requests) {
			t.Fatalf("swept %+v, which is no claim of an expired session", r)
		}
		l.token = 0
	}
	for _, l := range m.locks {
		if l.token != 0 && l.session.state == expired {
			t.Fatalf("token %d of session %s, which is expired, was not swept", l.token,
				l.session.Replica)
		}
	}
	for _, s := range m.sessions {
		if s.state == expired {
			s.state = ended
		}
	}
}

// tidy leaves nothing for the next sequence.
func (m *model) tidy(t *rapid.T) {
	for _, s := range m.sessions {
		m.endSession(t, s)
	}
	if left, err := m.court.Sweep(m.court.Context()); err != nil || len(left) > 0 {
		t.Fatalf("left when all have ended: %+v, %v", left, err)
	}
}
