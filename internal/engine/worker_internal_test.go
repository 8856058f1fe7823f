package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// One worker is reserved for every ten early firings. It is free again when they have ended.
func TestWorkersAreReservedForEarlyFirings(t *testing.T) {
	w := newWorkers(3)
	for i, free := range []int{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1} {
		if !w.tryEarly() || w.free() != free {
			t.Fatalf("early firing %d: %d workers are free, want %d", i+1, w.free(), free)
		}
	}
	if !w.tryAcquire() || w.tryAcquire() {
		t.Error("want one worker for firings that do not begin early")
	}
	for i := range 9 {
		if !w.tryEarly() {
			t.Errorf("early firing %d may not begin", i+12)
		}
	}
	if w.tryEarly() {
		t.Error("early firing 21 begins, without a worker for it")
	}
	for range 20 {
		w.endEarly()
	}
	if w.free() != 2 {
		t.Errorf("%d workers are free in the end, want 2", w.free())
	}
}

// A slow handler keeps a reserved worker, so another one must be reserved before more firings begin
// early. The next worker that is free is for the early firings that wait already, and not for those
// that have waited longer for any worker.
func TestSlowHandlerKeepsAReservedWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newWorkers(2)
		slow, second, other := &worker{pool: pool}, &worker{pool: pool}, &worker{pool: pool}
		queued := &worker{pool: pool}
		for _, w := range []*worker{slow, second} {
			if err := w.begin(t.Context(), true); err != nil || !w.early {
				t.Fatalf("begins early: %v, %v", w.early, err)
			}
		}
		if err := other.begin(t.Context(), false); err != nil || !other.has {
			t.Fatalf("the other worker: %v, %v", other.has, err)
		}
		if err := slow.ensure(t.Context()); err != nil || slow.loan == nil {
			t.Fatalf("the reserved worker: %v, %v", slow.loan, err)
		}
		time.Sleep(slowCall)
		if !pool.tryEarly() {
			t.Error("a firing may not begin early, although no handler is slow yet")
		}
		pool.endEarly()
		served, queue := make(chan error), make(chan error)
		go func() { queue <- queued.begin(t.Context(), false) }()
		synctest.Wait()
		go func() { served <- second.ensure(t.Context()) }()
		time.Sleep(time.Millisecond)
		other.free()
		if err := <-served; err != nil {
			t.Errorf("the early firing that waited got no worker: %v", err)
		}
		time.Sleep(slowCall + time.Millisecond)
		if pool.tryEarly() {
			t.Error("a firing begins early although both workers are busy with slow handlers")
		}
		second.free()
		if err := <-queue; err != nil || !queued.has {
			t.Errorf("the firing in the queue has a worker: %v, %v", queued.has, err)
		}
		if pool.free() != 0 || pool.tryEarly() {
			t.Errorf("%d workers are free, want none", pool.free())
		}
		slow.free()
		if pool.free() != 1 || !pool.tryEarly() {
			t.Errorf("%d workers are free, want the one of the slow handler", pool.free())
		}
		pool.endEarly()
		queued.free()
		if pool.free() != 2 || pool.reserved != 0 || len(pool.lent) != 0 {
			t.Errorf("in the end %d workers are free, %d reserved, %d lent", pool.free(),
				pool.reserved, len(pool.lent))
		}
	})
}

// One slow handler among those of a burst has a reserved worker. The early firings that share it
// get other workers, because enough are free.
func TestEarlyFiringsDoNotWaitForASlowHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newWorkers(20)
		firings := make([]*worker, 200)
		for i := range firings {
			firings[i] = &worker{pool: pool}
			if err := firings[i].begin(t.Context(), true); err != nil || !firings[i].early {
				t.Fatalf("firing %d begins early: %v, %v", i, firings[i].early, err)
			}
		}
		start := time.Now()
		var all sync.WaitGroup
		for i, w := range firings {
			takes := time.Millisecond
			if i == 0 {
				takes = 5 * time.Second
			}
			all.Go(func() {
				defer w.free()
				if err := w.ensure(t.Context()); err != nil {
					t.Errorf("firing %d: %v", i, err)
				}
				if waited := time.Since(start); waited > 3*slowCall {
					t.Errorf("firing %d waited %s for a worker, want at most %s", i, waited,
						3*slowCall)
				}
				time.Sleep(takes)
			})
		}
		all.Wait()
		if pool.free() != 20 {
			t.Errorf("%d workers are free in the end, want 20", pool.free())
		}
	})
}

// Whatever early firings and others do, there are never more handlers than workers. An early firing
// gets a worker when the handlers of the other early ones have returned, if these are quick. In the
// end all workers are free.
func TestWorkersAddUp(t *testing.T) {
	const all = 3
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			someSlow := seed%3 == 0
			pool := newWorkers(all)
			var busy atomic.Int64
			handler := func(w *worker, takes time.Duration) {
				if n := busy.Add(1); n > all {
					t.Errorf("seed %d: %d handlers at once", seed, n)
				}
				time.Sleep(takes)
				busy.Add(-1)
				w.free()
			}
			for range 100 {
				quick := random.IntN(3) > 0
				w := &worker{pool: pool, slots: &slotSet{}}
				if err := w.begin(t.Context(), quick); err != nil {
					t.Fatal(err)
				}
				starts, gone := time.Duration(random.IntN(5))*time.Millisecond, random.IntN(8) == 0
				early, takes := w.early, time.Millisecond
				if someSlow && random.IntN(8) == 0 {
					takes = time.Hour
				}
				go func() {
					time.Sleep(starts)
					switch {
					case gone:
						w.giveBack()
					case !early:
						handler(w, time.Hour)
					default:
						if err := w.ensure(context.Background()); err == nil {
							handler(w, takes)
						} else if w.giveBack(); !someSlow {
							t.Errorf("seed %d: early firing without a worker: %v", seed, err)
						}
					}
				}()
				time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
			}
			time.Sleep(100 * time.Hour)
			if pool.free() != all || pool.early != 0 || pool.reserved != 0 || len(pool.lent) != 0 {
				t.Errorf("seed %d: in the end %d workers are free, %d firings early, %d reserved, "+
					"%d lent", seed, pool.free(), pool.early, pool.reserved, len(pool.lent))
			}
		})
	}
}

func TestEarlyFiringWaitsForAWorkerForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newWorkers(1)
		slow, second := &worker{pool: pool}, &worker{pool: pool}
		for _, w := range []*worker{slow, second} {
			if err := w.begin(t.Context(), true); err != nil || w.has {
				t.Fatalf("begins with %v, %v", w.has, err)
			}
		}
		if err := slow.ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		err := second.ensure(t.Context())
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) ||
			took != workerTimeout || second.has {
			t.Errorf("got %v after %s", err, took)
		}
	})
}

func TestFiringsThatMayBeginEarly(t *testing.T) {
	for name, test := range map[string]struct {
		took     []time.Duration
		others   []time.Duration // the first calls of other jobs
		adopted  uuid.UUID
		deadline time.Duration
		want     bool
	}{
		"never called":                 {want: false},
		"never called, others quick":   {others: []time.Duration{time.Millisecond}, want: true},
		"never called, one other slow": {others: []time.Duration{1, 1, time.Second}},
		"slow, others quick": {took: []time.Duration{20 * time.Millisecond},
			others: []time.Duration{0, 0, 0, 0, 0, 0}},
		"quick, adopted":        {took: []time.Duration{time.Millisecond}, adopted: uuid.New()},
		"quick":                 {took: []time.Duration{time.Millisecond}, want: true},
		"no measurable time":    {took: []time.Duration{0}, want: true},
		"slow":                  {took: []time.Duration{20 * time.Millisecond}},
		"quick with a deadline": {took: []time.Duration{1}, deadline: time.Minute},
		"quick, then slow once": {took: []time.Duration{time.Millisecond,
			time.Millisecond, time.Second}},
		"slow, then quick": {took: []time.Duration{20 * time.Millisecond, 0, 0, 0, 0}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			var first meanTime
			p := &pending{entry: &entry{Job: jobs.Job{Deadline: test.deadline},
				quickness: quickness{first: &first}}, adopted: test.adopted}
			for _, took := range test.took {
				p.entry.quickness.add(took)
			}
			for _, took := range test.others {
				(&quickness{first: &first}).add(took)
			}
			if got := p.mayBeginEarly(); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
