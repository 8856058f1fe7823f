package jobstest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	contenders = 12
	rounds     = 25
)

var contentionRules = []rule{
	{"two conflicting grants are never active at the same time", contend},
	{"a firing is granted once", raceForFirings},
	{"a run of an expired session is either finished or lost", raceSweepAndFinish},
}

// contested are the resources that contenders draw from. They are related, so most draws conflict.
var contested = []locking.Request{
	table("s"), table("s/a"), table("s/b"), shared("s"), shared("s/a"), shared("s/b"),
	path("p/q"), path("p/q/r"), ask(locking.KindPath, "p", locking.Shared, 0), slot("api", 3),
	slot("one", 1),
}

// draw returns one to three of the contested resources, each name at most once.
func draw(r *rand.Rand) []locking.Request {
	var drawn []locking.Request
	taken := map[locking.Resource]bool{}
	for range 1 + r.IntN(3) {
		request := contested[r.IntN(len(contested))]
		if !taken[request.Resource] {
			taken[request.Resource] = true
			drawn = append(drawn, request)
		}
	}
	return drawn
}

// witness knows the runs between the answer to their start and their finish.
type witness struct {
	mu     sync.Mutex
	active map[jobs.Token][]locking.Request
	past   []grant
}

type grant struct {
	request locking.Request
	token   jobs.Token
}

// enter records a grant, and returns an error if it conflicts with another.
func (w *witness) enter(token jobs.Token, requests []locking.Request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, mine := range requests {
		inSlots := 1
		for other, theirs := range w.active {
			for _, r := range theirs {
				if locking.Conflict(mine, r) {
					return fmt.Errorf("%s %s of token %d while token %d has %s %s", mine.Mode,
						mine.Resource, token, other, r.Mode, r.Resource)
				}
				if mine.Mode == locking.Slotted && r == mine {
					inSlots++
				}
			}
		}
		if mine.Mode == locking.Slotted && inSlots > mine.Slots {
			return fmt.Errorf("%d claims in %d slots of %s", inSlots, mine.Slots, mine.Resource)
		}
		for _, g := range w.past {
			if locking.Conflict(mine, g.request) && token <= g.token {
				return fmt.Errorf("token %d on %s after token %d on %s", token, mine.Resource,
					g.token, g.request.Resource)
			}
		}
	}
	w.active[token] = requests
	return nil
}

func (w *witness) leave(token jobs.Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.active[token] {
		w.past = append(w.past, grant{r, token})
	}
	delete(w.active, token)
}

// eachContender runs fn for every contender, from three sessions on two connections to the store.
func (c *check) eachContender(fn func(n int, r *rand.Rand, store storage.Store,
	session uuid.UUID)) {
	c.Helper()
	sessions := []uuid.UUID{c.session("one"), c.session("two"), c.session("three")}
	stores := []storage.Store{c.Store, c.Second()}
	seed := rand.Uint64()
	c.Logf("seed %d", seed)
	var all sync.WaitGroup
	for n := range contenders {
		all.Go(func() { fn(n, rand.New(rand.NewPCG(seed, uint64(n))), stores[n%2], sessions[n%3]) })
	}
	all.Wait()
}

// contend has two checks: a witness of the answers to replicas, and the locks that the page shows.
func contend(c *check) {
	w := &witness{active: map[jobs.Token][]locking.Request{}}
	var granted atomic.Int64
	c.eachContender(func(n int, r *rand.Rand, store storage.Store, session uuid.UUID) {
		for round := range rounds {
			ask := request(fmt.Sprint("job", n), round, draw(r)...)
			err := contendOnce(c.ctx, w, store, session, ask, &granted)
			if err == nil && r.IntN(4) == 0 {
				err = c.lookAtLocks(store)
			}
			if err != nil {
				c.Errorf("contender %d, round %d: %v", n, round, err)
				return
			}
		}
	})
	if granted.Load() < contenders {
		c.Errorf("%d grants in total: no contention", granted.Load())
	}
	equal(c, "locks left", len(c.locks()), 0)
}

// lookAtLocks returns an error if two holders conflict.
func (c *check) lookAtLocks(store storage.Store) error {
	locks, err := store.Locks(c.ctx)
	if err != nil {
		return err
	}
	return compatible(locks)
}

// contendOnce starts and finishes the run, or notes it as skipped.
func contendOnce(ctx context.Context, w *witness, store storage.Store, session uuid.UUID,
	r storage.StartRequest, granted *atomic.Int64) error {
	results, err := StartDecided(ctx, store, session, []storage.StartRequest{r})
	if err != nil {
		return err
	}
	switch result := results[0]; result.Outcome {
	case storage.StartGranted:
		granted.Add(1)
		if err := w.enter(result.Token, r.Requests); err != nil {
			return err
		}
		w.leave(result.Token)
		done, err := store.Finish(ctx,
			[]storage.FinishRequest{{Run: r.Run, Token: result.Token, State: jobs.Succeeded}})
		if err == nil && !done[0] {
			err = fmt.Errorf("finish of token %d was refused", result.Token)
		}
		return err
	case storage.StartBlocked:
		recorded, err := store.Note(ctx, session,
			[]storage.Note{noteOf(r, jobs.Skipped, result.Reason)})
		if err == nil && !recorded[0] {
			err = fmt.Errorf("skip of %s was refused", r.Firing.Job)
		}
		return err
	default:
		return fmt.Errorf("outcome %d", result.Outcome)
	}
}

// compatible returns an error if two of the locks conflict.
func compatible(locks []storage.LockView) error {
	for i, a := range locks {
		inSlots := 1
		for _, b := range locks[:i] {
			first, second := locking.Request{Resource: a.Resource, Mode: a.Mode, Slots: a.Slots},
				locking.Request{Resource: b.Resource, Mode: b.Mode, Slots: b.Slots}
			if a.Token != b.Token && locking.Conflict(first, second) {
				return fmt.Errorf("%+v and %+v are held at the same time", a, b)
			}
			if a.Mode == locking.Slotted && a.Resource == b.Resource {
				inSlots++
			}
		}
		if a.Mode == locking.Slotted && inSlots > a.Slots {
			return fmt.Errorf("%d hold %s with %d slots", inSlots, a.Resource, a.Slots)
		}
	}
	return nil
}

// raceForFirings makes all contenders request the same firings, in batches of different orders,
// like replicas without memcached.
func raceForFirings(c *check) {
	const firings = 30
	var mu sync.Mutex
	winners := map[storage.Firing]int{}
	c.eachContender(func(n int, r *rand.Rand, store storage.Store, session uuid.UUID) {
		batch := make([]storage.StartRequest, firings)
		for i, at := range r.Perm(firings) {
			batch[at] = request(fmt.Sprint("job", i), 1, table(fmt.Sprint("s/t", i)),
				shared("read/all"))
			batch[at].New = n%2 == 0
		}
		results, err := StartDecided(c.ctx, store, session, batch)
		if err != nil {
			c.Errorf("contender %d: %v", n, err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for i, result := range results {
			switch result.Outcome {
			case storage.StartGranted:
				winners[batch[i].Firing]++
			case storage.StartDuplicate:
			default:
				c.Errorf("contender %d: %+v", n, result)
			}
		}
	})
	equal(c, "firings granted", len(winners), firings)
	for f, times := range winners {
		if times != 1 {
			c.Errorf("%+v was granted %d times", f, times)
		}
	}
}

// raceSweepAndFinish runs a sweep and finishes at once on the runs of a session that has just died.
func raceSweepAndFinish(c *check) {
	const runs = 40
	s := c.session("dying")
	requests, tokens := make([]storage.StartRequest, runs), make([]jobs.Token, runs)
	for i := range requests {
		requests[i] = request(fmt.Sprint("job", i), 1, table(fmt.Sprint("s/t", i)))
		tokens[i] = c.granted(s, requests[i])
	}
	c.Expire(s)
	finished := make([]bool, runs)
	lost := map[uuid.UUID]bool{}
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() {
			finish := []storage.FinishRequest{{Run: requests[i].Run, Token: tokens[i],
				State: jobs.Succeeded}}
			done, err := c.Second().Finish(c.ctx, finish)
			for errors.Is(err, storage.ErrUnavailable) && c.ctx.Err() == nil {
				// a sweep may end the backend that blocks it
				done, err = c.Second().Finish(c.ctx, finish)
			}
			if err != nil {
				c.Errorf("finish: %v", err)
				return
			}
			finished[i] = done[0]
		})
	}
	all.Go(func() {
		swept, err := c.Store.Sweep(c.ctx)
		if err != nil {
			c.Errorf("sweep: %v", err)
		}
		for _, r := range swept.Lost {
			lost[r.ID] = true
		}
	})
	all.Wait()
	for i, r := range requests {
		state := map[bool]jobs.State{true: jobs.Succeeded, false: jobs.Lost}[finished[i]]
		c.record(r.Run, state)
		equal(c, "lost in the answer of the sweep", lost[r.Run], !finished[i])
	}
}
