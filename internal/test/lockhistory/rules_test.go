package lockhistory

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/locking"
)

// anyRequests draws the requests of one lock, with few and related names.
func anyRequests() *rapid.Generator[[]Request] {
	one := rapid.SampledFrom([]Request{
		exclusive("a"), shared("a"), exclusive("a/b"), shared("a/b"), exclusive("a/c"),
		slot("s", 1), slot("s", 2), exclusive("d"), shared("s"),
	})
	return rapid.SliceOfNDistinct(one, 1, 3, func(r Request) locking.Resource { return r.Resource })
}

// TestHistoriesOfAServerAreAccepted simulates a correct server with one step after the other, and
// clients that see each step with a delay.
func TestHistoriesOfAServerAreAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newHonest(t)
		t.Repeat(map[string]func(*rapid.T){
			"acquire": s.acquire, "release": s.release, "commit": s.commit, "confirm": s.confirm, "kill": s.kill,
		})
		h, err := New(s.events)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Check(s.ledger); err != nil {
			t.Fatal(err)
		}
	})
}

// honest is a simple lock table. Each client makes one call at a time.
type honest struct {
	*story
	now     int
	clients []*client
	token   locking.Token
}

type client struct {
	name  string
	quiet int // end of its last call
	until int // end of its session
	lock  *lockStory
	asked []Request
	dead  bool
}

func newHonest(t *rapid.T) *honest {
	s := &honest{story: &story{ledger: []Written{}}}
	for range 4 {
		s.join(t)
	}
	return s
}

func (s *honest) join(t *rapid.T) {
	c := &client{name: fmt.Sprint("client", len(s.clients))}
	s.clients = append(s.clients, c)
	s.renew(t, c)
}

// step moves to a time at which a suitable client is free, and returns it with the times of its
// call and its answer.
func (s *honest) step(t *rapid.T, suits func(c *client) bool) (c *client, call, answer int) {
	s.now += rapid.IntRange(2, 20).Draw(t, "pause")
	free := slices.DeleteFunc(slices.Clone(s.clients), func(c *client) bool {
		return c.dead || c.quiet >= s.now-1 || !suits(c)
	})
	if len(free) == 0 {
		t.Skip("none is free")
	}
	c = rapid.SampledFrom(free).Draw(t, "client")
	call, answer = rapid.IntRange(c.quiet+1, s.now).Draw(t, "call"),
		s.now+rapid.IntRange(0, 60).Draw(t, "delay")
	c.quiet = answer
	return c, call, answer
}

func isLive(s *honest) func(*client) bool { return func(c *client) bool { return s.now < c.until } }

func (s *honest) acquire(t *rapid.T) {
	requests := anyRequests().Draw(t, "requests")
	c, call, answer := s.step(t, func(c *client) bool { return c.lock == nil && s.now < c.until })
	for _, mine := range requests {
		inSlots := 0
		for _, other := range s.clients {
			for _, theirs := range other.asked {
				if locking.Conflict(mine.Request, theirs.Request) {
					t.Skip("it is held")
				}
				if mine.Resource == theirs.Resource && mine.Mode == locking.Slotted {
					inSlots++
				}
			}
		}
		if mine.Mode == locking.Slotted && inSlots >= mine.Slots {
			t.Skip("it is held")
		}
	}
	s.token++
	c.lock, c.asked = s.lock(c.name, s.token, call, answer, requests...), requests
}

func hasLock(c *client) bool { return c.lock != nil }

func (s *honest) release(t *rapid.T) {
	c, call, answer := s.step(t, hasLock)
	if s.now < c.until {
		c.lock.released(call, answer)
	} else {
		c.lock.event(call, Release).event(answer, NotHeld)
	}
	c.lock, c.asked = nil, nil
}

// commit passes the fence and commits at once. It is refused if the claim is gone.
func (s *honest) commit(t *rapid.T) {
	c, call, answer := s.step(t, hasLock)
	c.lock.commits++
	c.lock.event(call, Commit)
	if c.asked == nil {
		c.lock.event(answer, Superseded)
		return
	}
	c.lock.written(s.now, s.now)
	if rapid.Bool().Draw(t, "told") {
		c.lock.event(answer, Committed)
	}
}

func (s *honest) confirm(t *rapid.T) {
	c, _, _ := s.step(t, isLive(s))
	s.renew(t, c)
}

func (s *honest) renew(_ *rapid.T, c *client) {
	s.confirmed(c.name, s.now) // call and answer at the same time
	c.until = s.now + 1001
}

// kill ends a client, or pauses it beyond its session's end, and replaces it.
func (s *honest) kill(t *rapid.T) {
	c, _, _ := s.step(t, isLive(s))
	c.dead = rapid.Bool().Draw(t, "killed")
	s.now = max(s.now, c.until)
	c.asked = nil
	s.join(t)
}

// TestShortcutsDoNotChangeTheResult compares with porcupine alone. There a step with an unknown
// outcome can happen at any time after its call, or never.
func TestShortcutsDoNotChangeTheResult(t *testing.T) {
	if testing.Short() {
		t.Skip("rapid makes a fifth of the checks with -short")
	}
	right, wrong := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		h, unanswered := drawHistory(t)
		err := h.checkOrder(h.Locks)
		plain := porcupine.CheckOperationsTimeout(
			plainModel(relate(append(slices.Clone(h.Locks), unanswered...))), h.plainly(unanswered),
			checkLimit)
		var violation *Violation
		switch {
		case plain == porcupine.Ok && err == nil:
			right++
		case plain == porcupine.Illegal && errors.As(err, &violation) &&
			h.linearizable(violation.Locks) == porcupine.Illegal:
			wrong++
		default:
			t.Fatalf("%v, plainly %s", err, plain)
		}
	})
	t.Logf("%d right and %d wrong histories", right, wrong)
	if right < 10 || wrong < 10 {
		t.Errorf("%d right and %d wrong histories: too few of one to show anything", right, wrong)
	}
}

// drawHistory draws a few locks at a few times, most of them in conflict, and acquisitions without
// an answer.
func drawHistory(t *rapid.T) (h *History, unanswered []*Lock) {
	s := &story{}
	at := func(label string, from int) int { return from + rapid.IntRange(0, 12).Draw(t, label) }
	for i := range rapid.IntRange(2, 5).Draw(t, "locks") {
		requests := rapid.SliceOfNDistinct(
			rapid.SampledFrom([]Request{exclusive("a"), shared("a"), exclusive("a/b"), slot("s", 1),
				slot("s", 2)}), 1, 2,
			func(r Request) locking.Resource { return r.Resource }).Draw(t, "requests")
		call := at("call", 0)
		answer := at("answer", call)
		if rapid.IntRange(0, 4).Draw(t, "unanswered") == 0 {
			unanswered = append(unanswered,
				&Lock{ID: fmt.Sprint("unanswered", i), Requests: requests,
					Acquired: Span{ms(call), never}})
			continue
		}
		process := fmt.Sprint("process", i)
		k := s.lock(process, locking.Token(rapid.IntRange(1, 6).Draw(t, "token")*10+i), call,
			answer, requests...)
		drawEnd(t, k, at, answer)
		if ends := at("end", call); rapid.Bool().Draw(t, "session") {
			s.add(Event{At: ms(call), Process: process, Kind: Confirmed,
				Session: sessionOf(process), TTL: ms(40), Replica: process})
			s.add(Event{At: ms(ends), Process: process, Kind: Ending, Session: sessionOf(process)})
		}
	}
	h, err := New(s.events)
	if err != nil {
		t.Fatal(err)
	}
	if violation := h.settle(s.ledger); violation != nil {
		t.Fatal(violation)
	}
	return h, unanswered
}

// drawEnd draws a lock's commits and its release, with and without answers.
func drawEnd(t *rapid.T, k *lockStory, at func(string, int) int, from int) {
	for range rapid.IntRange(0, 2).Draw(t, "commits") {
		from = at("commit", from)
		k.commits++
		k.event(from, Commit)
		if rapid.Bool().Draw(t, "told") {
			from = at("commit's answer", from)
			k.event(from, Committed)
		}
		k.written(from, from)
	}
	if from = at("release", from); rapid.Bool().Draw(t, "release") {
		k.event(from, Release)
		if rapid.Bool().Draw(t, "released") {
			k.event(at("release's answer", from), Released)
		}
	}
}

// maybe marks an optional step.
type maybe struct{ operation }

func plainModel(r *relation) porcupine.Model {
	model := modelOf(r)
	may := porcupine.NondeterministicModel{
		Init: func() []any { return []any{model.Init()} },
		Step: func(state, input, output any) []any {
			m, uncertain := input.(maybe)
			if uncertain {
				input = m.operation
			}
			var next []any
			if ok, after := model.Step(state, input, output); ok {
				next = append(next, after)
			}
			if uncertain {
				next = append(next, state)
			}
			return next
		},
		Equal: model.Equal,
	}
	return may.ToModel()
}

// plainly returns the operations of the history without any conclusions.
func (h *History) plainly(unanswered []*Lock) []porcupine.Operation {
	var all []porcupine.Operation
	add := func(input any, at Span) {
		all = append(all, porcupine.Operation{Input: input, Call: at.Call, Return: at.Return})
	}
	for _, k := range h.Locks {
		add(operation{granting, k}, k.Acquired)
		for _, c := range k.Commits {
			if c.Outcome == Committed {
				add(operation{committing, k}, c.Span)
			}
		}
		if k.Given {
			add(operation{freeing, k}, *k.Released)
			continue
		}
		from := h.endOf(k.Session)
		if k.Released != nil {
			from = min(from, k.Released.Call)
		}
		add(operation{freeing, k}, Span{max(from, k.Acquired.Call), never})
	}
	for _, k := range unanswered {
		add(maybe{operation{granting, k}}, k.Acquired)
		add(maybe{operation{freeing, k}}, k.Acquired)
	}
	return all
}
