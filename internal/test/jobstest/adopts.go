package jobstest

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var adoptRules = []rule{
	{"the oldest runs are adopted first", func(c *check) {
		old := c.free("a", 1, 2, 3, 4, 5)
		s := c.session("one")
		for _, want := range [][]storage.StartRequest{old[:2], old[2:4], old[4:]} {
			got := c.adopt(s, 2, "a")
			if len(got) != len(want) {
				c.Fatalf("adopted %d, want %d", len(got), len(want))
			}
			runs := map[uuid.UUID]bool{}
			for _, r := range got {
				runs[r.ID] = true
			}
			for _, r := range want {
				equal(c, r.Firing.ScheduledAt.String(), runs[r.Run], true)
			}
		}
		equal(c, "runs left", len(c.adopt(s, 2, "a")), 0)
	}},
	{"runs that have waited for a worker for less than the least wait are left", func(c *check) {
		c.register("h", "a")
		one, two := c.session("one"), c.session("two")
		older, younger := request("a", 1), request("a", 2)
		for i, r := range []storage.StartRequest{older, younger} {
			if i > 0 {
				c.Pass(time.Hour)
			}
			done, err := c.Store.Finish(c.ctx, []storage.FinishRequest{{Run: r.Run,
				Token: c.granted(one, r), State: jobs.Waiting, Reason: reasons.NoWorker,
				GivenBack: true}})
			c.must(err)
			equal(c, "given back", done[0], true)
		}
		triggered, err := c.trigger("a", "key")
		c.must(err)
		a := Adoption(nil, 10, "a")
		a.MinWait = 30 * time.Minute
		adopted, err := c.Store.Adopt(c.ctx, two, a)
		c.must(err)
		if ids := idsOf(adopted); len(ids) != 2 || !ids[older.Run] || !ids[triggered.ID] {
			c.Errorf("adopted %v, want runs %s and %s", ids, older.Run, triggered.ID)
		}
		a.MinWait, a.Known = 0, []uuid.UUID{older.Run, triggered.ID}
		adopted, err = c.Store.Adopt(c.ctx, two, a)
		c.must(err)
		if len(adopted) != 1 || adopted[0].ID != younger.Run {
			c.Errorf("adopted %+v, want run %s", adopted, younger.Run)
		}
	}},
	{"only runs of the requested jobs are adopted", func(c *check) {
		c.free("a", 1)
		c.free("b", 1)
		s := c.session("one")
		equal(c, "runs of no job", len(c.adopt(s, 10)), 0)
		equal(c, "runs of another job", len(c.adopt(s, 10, "c")), 0)
		adopted := c.adopt(s, 10, "b", "c")
		if len(adopted) != 1 || adopted[0].Job != "b" {
			c.Errorf("adopted %+v, want b's run", adopted)
		}
	}},
	{"an adopted run belongs to the adopting session", func(c *check) {
		r := c.free("a", 1)[0]
		one, two := c.session("one"), c.session("two")
		c.adopt(one, 1, "a")
		equal(c, "adopted twice", len(c.adopt(two, 1, "a")), 0)
		equal(c, "replica", c.record(r.Run, jobs.Waiting).Replica, "one")
		c.outcome(two, r, storage.StartDuplicate)
		c.granted(one, r)
		equal(c, "replica", c.record(r.Run, jobs.Running).Replica, "one")
	}},
	{"an adopted run is free again when the adopting session ends", func(c *check) {
		r := c.free("a", 1)[0]
		one, two := c.session("one"), c.session("two")
		c.adopt(one, 1, "a")
		c.Expire(one)
		c.sweep()
		adopted := c.adopt(two, 1, "a")
		if len(adopted) != 1 || adopted[0].ID != r.Run {
			c.Errorf("adopted %+v, want run %s", adopted, r.Run)
		}
	}},
	{"an adopted run has all its stored fields", func(c *check) {
		c.register("h", "a")
		triggered, err := c.trigger("a", "by hand")
		c.must(err)
		adopted := c.adopt(c.session("one"), 1, "a")
		if len(adopted) != 1 {
			c.Fatalf("adopted %+v", adopted)
		}
		want := triggered
		want.Replica = "one"
		c.same(adopted[0], want)
	}},
	{"a session gets runs again whose adoption reply was lost", func(c *check) {
		free := c.free("a", 1, 2, 3)
		s := c.session("one")
		c.adoptKnowing(s, nil, 2, "a") // a call whose reply was lost
		given := idsOf(c.adoptKnowing(s, nil, 0, "a"))
		equal(c, "runs returned again", len(given), 2)
		for _, r := range free[:2] {
			equal(c, "returned again", given[r.Run], true)
		}
		again := idsOf(c.adoptKnowing(s, []uuid.UUID{free[1].Run}, 1, "a"))
		if len(again) != 2 || !again[free[0].Run] || !again[free[2].Run] {
			c.Errorf("adopted %v, want the unknown run and the last one", again)
		}
		equal(c, "adopted by another session", len(c.adoptKnowing(c.session("two"), nil, 10, "a")),
			0)
		equal(c, "runs of another job", len(c.adoptKnowing(s, nil, 10, "b")), 0)
		for _, r := range free {
			c.granted(s, r)
		}
	}},
	{"a session gets its own waiting runs that it does not know", func(c *check) {
		s := c.session("one")
		holder, blocked, noted := request("a", 1, table("s/t")), request("a", 2, table("s/t")),
			request("a", 3)
		token := c.granted(s, holder)
		c.blocked(s, blocked, reasons.LockHeld, holder)
		equal(c, "note", c.note(s, noteOf(noted, jobs.Waiting, reasons.LockHeld)), true)
		got := idsOf(c.adoptKnowing(s, nil, 0, "a"))
		if len(got) != 2 || !got[blocked.Run] || !got[noted.Run] {
			c.Errorf("got %v, want %s and %s", got, blocked.Run, noted.Run)
		}
		c.finished(holder, token, jobs.Succeeded)
		c.granted(s, blocked)
		equal(c, "skip", c.note(s, noteOf(noted, jobs.Skipped, reasons.LockHeld)), true)
		equal(c, "running or ended runs returned", len(c.adoptKnowing(s, nil, 0, "a")), 0)
	}},
	{"a heartbeat reports that there are runs to adopt", func(c *check) {
		adoptable := func(session uuid.UUID) bool {
			heartbeat, err := c.Store.Heartbeat(c.ctx, session, storage.ReplicaStatus{})
			if err != nil {
				c.Fatal(err)
			}
			return heartbeat.Adoptable
		}
		one, two := c.session("one"), c.session("two")
		equal(c, "without runs", adoptable(one), false)
		r := request("a", 1)
		token := c.granted(one, r)
		equal(c, "beside a running run", adoptable(one), false)
		c.finished(r, token, jobs.Succeeded)
		c.free("a", 2)
		equal(c, "with a free run", adoptable(one) && adoptable(two), true)
		equal(c, "adopted", len(c.adoptKnowing(one, nil, 10, "a")), 1)
		equal(c, "with a waiting run of its own", adoptable(one), true)
		if err := c.Store.End(c.ctx, one); err != nil {
			c.Fatal(err)
		}
		equal(c, "with a waiting run of an ended session", adoptable(two), true)
	}},
	{"a session does not get a run that it already knows", func(c *check) {
		r := c.free("a", 1)[0]
		one, two := c.session("one"), c.session("two")
		equal(c, "returned to the session that knows it",
			len(c.adoptKnowing(one, []uuid.UUID{r.Run}, 10, "a")), 0)
		equal(c, "adopted by another session", len(c.adoptKnowing(two, nil, 10, "a")), 1)
	}},
	{"an adopted run blocks no other run until it starts again", func(c *check) {
		q := c.queue(table("s/t"))
		q.free()
		c.must(c.Store.End(c.ctx, q.one))
		adopter := c.session("successor")
		equal(c, "adopted", len(c.adopt(adopter, 1, "older")), 1)
		token := c.granted(q.two, q.younger)
		youngest := request("youngest", 4, table("s/t"))
		late := q.older
		late.WaitSince = youngest.WaitSince.Add(time.Hour) // as the adopting session has it
		c.blocked(adopter, late, reasons.LockHeld, q.younger)
		c.finished(q.younger, token, jobs.Succeeded)
		c.blocked(q.two, youngest, reasons.OlderWaiter, q.older)
		c.granted(adopter, late)
	}},
	{"a dead session adopts nothing", func(c *check) {
		r := c.free("a", 1)[0]
		s := c.session("one")
		own := request("a", 2)
		equal(c, "note", c.note(s, noteOf(own, jobs.Waiting, reasons.LockHeld)), true)
		c.Expire(s)
		// The store may also return an error.
		if adopted, _ := c.Store.Adopt(c.ctx, s, Adoption(nil, 10, "a")); len(adopted) != 0 {
			c.Errorf("a dead session adopted %+v", adopted)
		}
		c.sweep()
		adopted := idsOf(c.adopt(c.session("two"), 10, "a"))
		if len(adopted) != 2 || !adopted[r.Run] || !adopted[own.Run] {
			c.Errorf("adopted %v, want runs %s and %s", adopted, r.Run, own.Run)
		}
	}},
	{"a run is adopted by one session only", adoptConcurrently},
}

func idsOf(records []storage.Record) map[uuid.UUID]bool {
	ids := make(map[uuid.UUID]bool, len(records))
	for _, r := range records {
		ids[r.ID] = true
	}
	return ids
}

// free adds waiting runs of the job without a live session, the oldest first.
func (c *check) free(job string, scheduledTimes ...int) []storage.StartRequest {
	c.Helper()
	s := c.session("gone")
	requests := make([]storage.StartRequest, len(scheduledTimes))
	for i, scheduledAt := range scheduledTimes {
		requests[i] = request(job, scheduledAt)
		equal(c, "note", c.note(s, noteOf(requests[i], jobs.Waiting, reasons.LockHeld)), true)
	}
	c.must(c.Store.End(c.ctx, s))
	return requests
}

func adoptConcurrently(c *check) {
	const runs = 60
	scheduledTimes := make([]int, runs)
	for i := range scheduledTimes {
		scheduledTimes[i] = i
	}
	c.free("a", scheduledTimes...)
	ctx, done := context.WithCancel(c.ctx)
	var mu sync.Mutex
	given := map[uuid.UUID]int{}
	var adopters sync.WaitGroup
	for i, store := range []storage.Store{c.Store, c.Second(), c.Store, c.Second()} {
		s := c.session([]string{"one", "two", "three", "four"}[i])
		adopters.Go(func() {
			var mine []uuid.UUID
			for ctx.Err() == nil {
				records, err := store.Adopt(c.ctx, s, Adoption(mine, 3, "a"))
				if err != nil {
					c.Errorf("adopt: %v", err)
					done()
				}
				mu.Lock()
				for _, r := range records {
					given[r.ID]++
					mine = append(mine, r.ID)
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
	equal(c, "runs adopted", len(given), runs)
	for id, times := range given {
		if times != 1 {
			c.Errorf("run %s was adopted %d times", id, times)
		}
	}
}
