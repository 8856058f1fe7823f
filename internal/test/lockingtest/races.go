package lockingtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/locking"
)

func raceTests() map[string]func(*testing.T, GrantsFixture) {
	return map[string]func(*testing.T, GrantsFixture){
		"OneWins":         testOneGrantWins,
		"OneID":           testConcurrentGrantsOfOneID,
		"OneSweeps":       testOneSweepReturnsALock,
		"Contention":      testGrantContention,
		"ExpiringHolders": testContentionWithExpiringHolders,
	}
}

func testOneGrantWins(t *testing.T, f GrantsFixture) {
	const callers = 16
	courts := []*grantsTest{newGrantsTest(t, f), newGrantsTest(t, f), newGrantsTest(t, f)}
	s := courts[0].session("one")
	wanted := []locking.Request{writes("s"), writes("s/t"), reads("s"), slot("s", 1),
		writes("s/t/u"), reads("s/t/u/v")}
	for round := range 10 {
		won := make(chan locking.GrantRequest, callers)
		inParallel(callers, func(i int) {
			r := ask(wanted[i%len(wanted)])
			results, err := courts[i%len(courts)].Grant(t.Context(), s, []locking.GrantRequest{r})
			if err != nil {
				t.Errorf("grant: %v", err)
			} else if results[0].Token != 0 {
				won <- r
			}
		})
		close(won)
		var winners []locking.Request
		for r := range won {
			winners = append(winners, r.Requests[0])
			courts[0].must("withdrawal", courts[0].Withdraw(t.Context(), s, []uuid.UUID{r.ID}))
		}
		if len(winners) == 0 {
			t.Fatalf("round %d: no lock was granted", round)
		}
		for i, a := range winners {
			for _, b := range winners[i+1:] {
				if locking.Conflict(a, b) || a.Mode == locking.Slotted {
					t.Errorf("round %d: %v and %v were both granted", round, a, b)
				}
			}
		}
	}
}

// testConcurrentGrantsOfOneID requests one id concurrently, like a retry while the first try goes
// on.
func testConcurrentGrantsOfOneID(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	s := c.session("one")
	for round := range 10 {
		r := ask(writes(fmt.Sprint(round)), slot("api", 1000))
		tokens := make([]locking.Token, 8)
		inParallel(len(tokens), func(i int) {
			results, err := c.Grant(t.Context(), s, []locking.GrantRequest{r})
			if err != nil || results[0].Token == 0 {
				t.Errorf("grant: %+v, %v", results, err)
				return
			}
			tokens[i] = results[0].Token
		})
		for _, token := range tokens {
			if token != tokens[0] {
				t.Fatalf("round %d: tokens %v for one lock", round, tokens)
			}
		}
		c.release(tokens[0])
	}
	c.granted(s, ask(slot("api", 1)))
}

func testOneSweepReturnsALock(t *testing.T, f GrantsFixture) {
	c := newGrantsTest(t, f)
	const dead = 5
	for i := range dead {
		s := c.session(fmt.Sprint("dead ", i))
		c.granted(s, ask(writes(fmt.Sprint(i, "/a"))))
		c.granted(s, ask(writes(fmt.Sprint(i, "/b"))))
		c.expire(s)
	}
	var mu sync.Mutex
	times := map[locking.Token]int{}
	inParallel(6, func(int) {
		swept, err := c.Sweep(t.Context())
		if err != nil {
			t.Errorf("sweep: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, r := range swept {
			times[r.Token]++
		}
	})
	for _, r := range c.sweep() { // locks that the other sweeps skipped
		times[r.Token]++
	}
	if len(times) != 2*dead {
		t.Errorf("%d of %d locks swept", len(times), 2*dead)
	}
	for token, n := range times {
		if n != 1 {
			t.Errorf("lock %d was swept %d times", token, n)
		}
	}
}

// grantWitness records the grants that are held, to detect two that conflict.
type grantWitness struct {
	mu      sync.Mutex
	holding map[locking.Token][]locking.Request
	granted int
}

func newGrantWitness() *grantWitness {
	return &grantWitness{holding: map[locking.Token][]locking.Request{}}
}

// enter records a grant and returns an error if it conflicts with another.
func (h *grantWitness) enter(token locking.Token, requests []locking.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.granted++
	slots := map[locking.Request]int{}
	for other, theirs := range h.holding {
		if other == token {
			return fmt.Errorf("token %d was given twice", token)
		}
		for _, b := range theirs {
			for _, a := range requests {
				if locking.Conflict(a, b) {
					return fmt.Errorf("%v was granted (%d) while %v is held (%d)", a, token, b,
						other)
				}
				if a.Mode == locking.Slotted && b.Mode == locking.Slotted &&
					a.Resource == b.Resource {
					if slots[a]++; slots[a] >= a.Slots {
						return fmt.Errorf("%v was granted (%d) while %d are held", a, token,
							slots[a])
					}
				}
			}
		}
	}
	h.holding[token] = requests
	return nil
}

func (h *grantWitness) leave(token locking.Token) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.holding, token)
}

// anyRequests draws one to three requests with few names, so that they often conflict.
func anyRequests() []locking.Request {
	names := []string{"a", "a/b", "a/b/c", "a/d", "e", "e/f"}
	var requests []locking.Request
	for _, i := range rand.Perm(len(names))[:1+rand.IntN(3)] {
		switch rand.IntN(5) {
		case 0, 1:
			requests = append(requests, reads(names[i]))
		case 2:
			requests = append(requests, slot(names[i], 2))
		default:
			requests = append(requests, writes(names[i]))
		}
	}
	return requests
}

// testGrantContention lets many callers wait for related names in all modes. Every caller gets its
// locks, and no two of them conflict.
func testGrantContention(t *testing.T, f GrantsFixture) {
	callers, rounds := 12, soak.Pick(5, 15)
	courts := []*grantsTest{newGrantsTest(t, f), newGrantsTest(t, f), newGrantsTest(t, f)}
	sessions := []uuid.UUID{courts[0].session("one"), courts[1].session("two"),
		courts[2].session("three")}
	h := newGrantWitness()
	ctx, cancel := context.WithTimeout(t.Context(), 4*awaitTimeout)
	defer cancel()
	inParallel(callers, func(i int) {
		c, s := courts[i%3], sessions[i%3]
		for range rounds {
			r := waiting(ask(anyRequests()...))
			for {
				results, err := c.Grant(ctx, s, []locking.GrantRequest{r})
				if err != nil {
					t.Errorf("grant: %v", err)
					return
				}
				if token := results[0].Token; token != 0 {
					if err := h.enter(token, r.Requests); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
					h.leave(token)
					if released, err := c.Release(ctx, []locking.Token{token}); err != nil ||
						released[0] != locking.ReleaseDone {
						t.Errorf("release: %v, %v", released, err)
					}
					break
				}
				time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
			}
		}
	})
	if h.granted != callers*rounds {
		t.Errorf("%d of %d locks granted", h.granted, callers*rounds)
	}
	courts[0].granted(sessions[0], ask(writes("a"), writes("e")))
}

// testContentionWithExpiringHolders lets sessions of holders expire and sweeps them while others
// request locks. A holder stops before its session can be swept.
func testContentionWithExpiringHolders(t *testing.T, f GrantsFixture) {
	callers, rounds := 8, soak.Pick(4, 8)
	courts := []*grantsTest{newGrantsTest(t, f), newGrantsTest(t, f)}
	h := newGrantWitness()
	ended := make(chan struct{})
	var sweeper sync.WaitGroup
	sweeper.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
			}
			if _, err := courts[0].Sweep(t.Context()); err != nil {
				t.Errorf("sweep: %v", err)
			}
		}
	})
	inParallel(callers, func(i int) {
		c := courts[i%2]
		s := c.session(fmt.Sprint("replica ", i))
		for round := range rounds {
			r := waiting(ask(anyRequests()...))
			var token locking.Token
			await(t, "grant", func() bool {
				results, err := c.Grant(t.Context(), s, []locking.GrantRequest{r})
				if err != nil {
					t.Errorf("grant: %v", err)
					return true
				}
				token = results[0].Token
				return token != 0
			})
			if token == 0 {
				return
			}
			if err := h.enter(token, r.Requests); err != nil {
				t.Error(err)
			}
			h.leave(token)
			c.expire(s)
			if _, err := c.Grant(t.Context(), s, []locking.GrantRequest{ask()}); !errors.Is(err,
				locking.ErrSessionLost) {
				t.Errorf("grant in an expired session: %v", err)
			}
			s = c.session(fmt.Sprint("replica ", i, " ", round))
		}
		c.must("end", c.EndSession(t.Context(), s))
	})
	close(ended)
	sweeper.Wait()
	c := courts[0]
	c.sweep()
	c.granted(c.session("last"), ask(writes("a"), writes("e")))
}
