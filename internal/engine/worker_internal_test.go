package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// Whatever early firings and others do, there are never more handlers than workers. An early firing
// gets a worker when the handlers of the other early ones have returned, and in the end all workers
// are free.
func TestWorkersAddUp(t *testing.T) {
	const all = 3
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
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
				w := &worker{pool: pool, hold: &hold{}}
				if err := w.begin(t.Context(), quick); err != nil {
					t.Fatal(err)
				}
				starts, gone := time.Duration(random.IntN(5))*time.Millisecond, random.IntN(8) == 0
				early := w.early
				go func() {
					time.Sleep(starts)
					switch {
					case gone:
						w.giveBack()
					case !early:
						handler(w, time.Hour)
					default:
						if err := w.ensure(context.Background()); err != nil {
							t.Errorf("seed %d: early firing without a worker: %v", seed, err)
							return
						}
						handler(w, time.Millisecond)
					}
				}()
				time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
			}
			time.Sleep(100 * time.Hour)
			if pool.free() != all || pool.early != 0 || pool.reserved != 0 {
				t.Errorf("seed %d: in the end %d workers are free, %d firings early, %d reserved",
					seed, pool.free(), pool.early, pool.reserved)
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
			took != workerPatience || second.has {
			t.Errorf("got %v after %s", err, took)
		}
	})
}

func TestFiringsThatMayBeginEarly(t *testing.T) {
	limit := time.Now()
	for name, test := range map[string]struct {
		took     []time.Duration
		others   []time.Duration // the first calls of other jobs
		attempt  int
		deadline time.Duration
		limit    *time.Time
		want     bool
	}{
		"never called":                 {want: false},
		"never called, others quick":   {others: []time.Duration{time.Millisecond}, want: true},
		"never called, one other slow": {others: []time.Duration{1, 1, time.Second}},
		"slow, others quick": {took: []time.Duration{20 * time.Millisecond},
			others: []time.Duration{0, 0, 0, 0, 0, 0}},
		"quick, second attempt":        {took: []time.Duration{time.Millisecond}, attempt: 2},
		"quick":                        {took: []time.Duration{time.Millisecond}, want: true},
		"no measurable time":           {took: []time.Duration{0}, want: true},
		"slow":                         {took: []time.Duration{20 * time.Millisecond}},
		"quick with a deadline":        {took: []time.Duration{1}, deadline: time.Minute},
		"quick with a trigger's limit": {took: []time.Duration{1}, limit: &limit},
		"quick, then slow once": {took: []time.Duration{time.Millisecond,
			time.Millisecond, time.Second}},
		"slow, then quick": {took: []time.Duration{20 * time.Millisecond, 0, 0, 0, 0}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			var first meanTime
			p := &pending{entry: &entry{Job: jobs.Job{Deadline: test.deadline},
				quickness: quickness{first: &first}}, triggerLimit: test.limit,
				attempt: test.attempt}
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
