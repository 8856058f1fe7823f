package jobstest

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

var adoptRules = []rule{
	{"the oldest are adopted first", func(c *check) {
		old := c.free("a", 1, 2, 3, 4, 5)
		s := c.session("one")
		for _, want := range [][]jobs.StartRequest{old[:2], old[2:4], old[4:]} {
			got := c.adopt(s, 2, "a")
			if len(got) != len(want) {
				c.Fatalf("adopted %d, expected %d", len(got), len(want))
			}
			runs := map[uuid.UUID]bool{}
			for _, r := range got {
				runs[r.ID] = true
			}
			for _, r := range want {
				equal(c, r.Firing.Due.String(), runs[r.Run], true)
			}
		}
		equal(c, "left", len(c.adopt(s, 2, "a")), 0)
	}},
	{"only named jobs are adopted", func(c *check) {
		c.free("a", 1)
		c.free("b", 1)
		s := c.session("one")
		equal(c, "of no job", len(c.adopt(s, 10)), 0)
		equal(c, "of another job", len(c.adopt(s, 10, "c")), 0)
		adopted := c.adopt(s, 10, "b", "c")
		if len(adopted) != 1 || adopted[0].Job != "b" {
			c.Errorf("adopted %+v, expected b's run", adopted)
		}
	}},
	{"an adopted run is the adopter's", func(c *check) {
		r := c.free("a", 1)[0]
		one, two := c.session("one"), c.session("two")
		c.adopt(one, 1, "a")
		equal(c, "adopted twice", len(c.adopt(two, 1, "a")), 0)
		equal(c, "replica", c.record(r.Run, jobs.Waiting).Replica, "one")
		c.outcome(two, r, jobs.StartDuplicate)
		c.granted(one, r)
		equal(c, "replica", c.record(r.Run, jobs.Running).Replica, "one")
	}},
	{"an adopted run is freed again with its adopter", func(c *check) {
		r := c.free("a", 1)[0]
		one, two := c.session("one"), c.session("two")
		c.adopt(one, 1, "a")
		c.Expire(one)
		c.sweep()
		adopted := c.adopt(two, 1, "a")
		if len(adopted) != 1 || adopted[0].ID != r.Run {
			c.Errorf("adopted %+v, expected run %s", adopted, r.Run)
		}
	}},
	{"a run is adopted with all that is known of it", func(c *check) {
		c.register("h", "a")
		triggered, err := c.Store.Trigger(c.ctx, "a", "by hand")
		c.must(err)
		adopted := c.adopt(c.session("one"), 1, "a")
		if len(adopted) != 1 {
			c.Fatalf("adopted %+v", adopted)
		}
		got := adopted[0]
		if got.ID != triggered.ID || got.Key != "by hand" || !got.Due.Equal(triggered.Due) || got.State != jobs.Waiting || got.Reason != jobs.ReasonTriggered {
			c.Errorf("adopted %+v, expected %+v", got, triggered)
		}
	}},
	{"a dead session adopts nothing", func(c *check) {
		r := c.free("a", 1)[0]
		s := c.session("one")
		c.Expire(s)
		// Whether it is told so by an error is the store's choice.
		if adopted, _ := c.Store.Adopt(c.ctx, s, []string{"a"}, 1); len(adopted) != 0 {
			c.Errorf("a dead session adopted %+v", adopted)
		}
		adopted := c.adopt(c.session("two"), 1, "a")
		if len(adopted) != 1 || adopted[0].ID != r.Run {
			c.Errorf("adopted %+v, expected run %s", adopted, r.Run)
		}
	}},
	{"runs are never given twice", adoptConcurrently},
}

// free leaves waiting runs of the job without a living session, the first the
// oldest.
func (c *check) free(job string, dues ...int) []jobs.StartRequest {
	c.Helper()
	s := c.session("gone")
	requests := make([]jobs.StartRequest, len(dues))
	for i, due := range dues {
		requests[i] = request(job, due)
		equal(c, "note", c.note(s, noteOf(requests[i], jobs.Waiting, jobs.ReasonLockHeld)), true)
	}
	c.must(c.Store.End(c.ctx, s))
	return requests
}

func adoptConcurrently(c *check) {
	const runs = 60
	dues := make([]int, runs)
	for i := range dues {
		dues[i] = i
	}
	c.free("a", dues...)
	ctx, done := context.WithCancel(c.ctx)
	var mu sync.Mutex
	given := map[uuid.UUID]int{}
	var adopters sync.WaitGroup
	for i, store := range []jobs.Store{c.Store, c.Second, c.Store, c.Second} {
		s := c.session([]string{"one", "two", "three", "four"}[i])
		adopters.Go(func() {
			for ctx.Err() == nil {
				records, err := store.Adopt(c.ctx, s, []string{"a"}, 3)
				if err != nil {
					c.Errorf("adopt: %v", err)
					done()
				}
				mu.Lock()
				for _, r := range records {
					given[r.ID]++
				}
				if len(given) == runs {
					done()
				}
				mu.Unlock()
			}
		})
	}
	adopters.Wait()
	done()
	equal(c, "runs given", len(given), runs)
	for id, times := range given {
		if times != 1 {
			c.Errorf("run %s was given %d times", id, times)
		}
	}
}
