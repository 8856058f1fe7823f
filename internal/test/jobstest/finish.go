package jobstest

import (
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var finishRules = []rule{
	{"all fields of a finish are stored", func(c *check) {
		s := c.session("one")
		r := request("a", 1, table("s/t"))
		token := c.granted(s, r)
		f := storage.FinishRequest{
			Run: r.Run, Token: token, State: jobs.TimedOut, Reason: reasons.Timeout,
			Detail: "after 10m", Error: "too \"slow\" <é>", Output: "line\nline\n",
		}
		before := c.now()
		done, err := c.Store.Finish(c.ctx, []storage.FinishRequest{f})
		c.must(err)
		equal(c, "finished", done[0], true)
		record := c.record(r.Run, jobs.TimedOut)
		equal(c, "reason", record.Reason, f.Reason)
		equal(c, "detail", record.Detail, f.Detail)
		equal(c, "error", record.Error, f.Error)
		equal(c, "output", record.Output, f.Output)
		equal(c, "token", record.Token, token)
		if record.FinishedAt == nil {
			c.Fatal("finished_at: got none, want a time")
		}
		within(c, "finished at", *record.FinishedAt, before, c.now())
	}},
	{"every final state ends the claim and frees its grants", func(c *check) {
		s := c.session("one")
		for i, state := range []jobs.State{jobs.Succeeded, jobs.Failed, jobs.TimedOut,
			jobs.Cancelled, jobs.Lost} {
			r := request("a", i, table("s/t"), ownName("a"))
			c.finished(r, c.granted(s, r), state)
			c.record(r.Run, state)
			equal(c, "locks", len(c.locks()), 0)
		}
	}},
	{"a repeated finish with the same state succeeds", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		token := c.granted(s, r)
		c.finished(r, token, jobs.Succeeded)
		first := c.record(r.Run, jobs.Succeeded)
		c.finished(r, token, jobs.Succeeded)
		if again := c.record(r.Run, jobs.Succeeded); !again.FinishedAt.Equal(*first.FinishedAt) {
			c.Errorf("ended at %s, then at %s", first.FinishedAt, again.FinishedAt)
		}
	}},
	{"a repeated finish with another state is refused", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		token := c.granted(s, r)
		c.finished(r, token, jobs.Succeeded)
		equal(c, "finish as failed", c.finish(r, token, jobs.Failed), false)
		c.record(r.Run, jobs.Succeeded)
	}},
	{"a finish with an unknown token does nothing", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		token := c.granted(s, r)
		equal(c, "another token", c.finish(r, token+1000, jobs.Succeeded), false)
		c.record(r.Run, jobs.Running)
	}},
	{"a finish with another run's token does nothing", func(c *check) {
		s := c.session("one")
		a, b := request("a", 1, table("s/a")), request("b", 1, table("s/b"))
		tokenA, tokenB := c.granted(s, a), c.granted(s, b)
		equal(c, "finish of a with b's token", c.finish(a, tokenB, jobs.Succeeded), false)
		equal(c, "locks", len(c.locks()), 2)
		c.finished(a, tokenA, jobs.Succeeded)
		c.finished(b, tokenB, jobs.Succeeded)
	}},
	{"a finish as waiting keeps the run and frees the claim", func(c *check) {
		one, two := c.session("one"), c.session("two")
		r, other := request("a", 1, table("s/t")), request("b", 1, table("s/t"))
		first := c.granted(one, r)
		done, err := c.Store.Finish(c.ctx,
			[]storage.FinishRequest{{Run: r.Run, Token: first, State: jobs.Waiting,
				Reason: reasons.Retry, Error: "try 1"}})
		c.must(err)
		equal(c, "finished", done[0], true)
		record := c.record(r.Run, jobs.Waiting)
		if record.FinishedAt != nil || record.Error != "try 1" || record.Attempt != 2 ||
			record.Reason != reasons.Retry || record.StartedAt == nil {
			c.Errorf("waiting run %+v", record)
		}
		c.finished(other, c.granted(two, other), jobs.Succeeded)
		r.Attempt = 2
		second := c.granted(one, r)
		if second <= first {
			c.Errorf("token %d of attempt 2 after %d", second, first)
		}
		equal(c, "attempt", c.record(r.Run, jobs.Running).Attempt, 2)
		equal(c, "finish of attempt 1", c.finish(r, first, jobs.Succeeded), false)
		c.finished(r, second, jobs.Succeeded)
		equal(c, "finish of attempt 1 after attempt 2", c.finish(r, first, jobs.Succeeded), false)
		if started := c.record(r.Run, jobs.Succeeded).StartedAt; started == nil ||
			!started.Equal(*record.StartedAt) {
			c.Errorf("started at %s, after attempt 2 at %v", record.StartedAt, started)
		}
	}},
	{"a repeated finish as waiting succeeds, also during the next attempt", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		token := c.granted(s, r)
		c.finished(r, token, jobs.Waiting)
		c.finished(r, token, jobs.Waiting)
		r.Attempt = 2
		c.granted(s, r)
		equal(c, "finish of attempt 1", c.finish(r, token, jobs.Waiting), true)
		equal(c, "another finish of it", c.finish(r, token, jobs.Failed), false)
		c.record(r.Run, jobs.Running)
	}},
	{"a run whose claim is given back waits as if it had not started", func(c *check) {
		one, two := c.session("one"), c.session("two")
		r, other, kept := request("a", 1, table("s/a")), request("c", 1, table("s/a")),
			request("b", 1, table("s/b"))
		blocks := c.granted(two, other)
		c.blocked(one, r, reasons.LockHeld, other) // so it has waited when it starts
		c.finished(other, blocks, jobs.Succeeded)
		first := c.granted(one, r)
		before := c.now()
		ends := []storage.FinishRequest{
			{Run: r.Run, Token: first, State: jobs.Waiting, Reason: reasons.NoWorker,
				Detail: "no worker", GivenBack: true},
			{Run: kept.Run, Token: c.granted(one, kept), State: jobs.Waiting,
				Reason: reasons.Retry}}
		for range 2 { // as after a lost reply
			done, err := c.Store.Finish(c.ctx, ends)
			c.must(err)
			equal(c, "finished", done[0] && done[1], true)
		}
		record := c.record(r.Run, jobs.Waiting)
		within(c, "waits since", record.WaitSince, before, c.now())
		want := storage.Record{ID: r.Run, Job: r.Firing.Job, ScheduledAt: record.ScheduledAt,
			State: jobs.Waiting, Reason: reasons.NoWorker, Detail: "no worker",
			CreatedAt: record.CreatedAt, WaitSince: record.WaitSince}
		c.same(record, want)
		attempts, err := c.Store.RunAttempts(c.ctx, r.Run)
		c.must(err)
		equal(c, "attempts kept", len(attempts), 0)
		if got := c.start(one, r)[0]; got.Token != 0 {
			c.Errorf("the session that had the run before started it: %+v", got)
		}
		next := request("c", 2, table("s/a"))
		c.finished(next, c.granted(two, next), jobs.Succeeded)
		adopted := c.adopt(two, 10, "a", "b")
		if len(adopted) != 1 || adopted[0].ID != r.Run || adopted[0].Attempt > 1 {
			c.Fatalf("adopted %+v, want run %s before its first attempt", adopted, r.Run)
		}
		if got := c.start(one, r)[0]; got.Token != 0 {
			c.Errorf("the session that had the run before started it: %+v", got)
		}
		second := c.granted(two, r)
		if record = c.record(r.Run, jobs.Running); second <= first || record.Attempt != 1 ||
			record.Replica != "two" {
			c.Errorf("token %d after %d, record %+v", second, first, record)
		}
		done, err := c.Store.Finish(c.ctx, ends[:1])
		c.must(err)
		equal(c, "late repetition", done[0], true)
		equal(c, "token after that", c.record(r.Run, jobs.Running).Token, second)
		c.finished(r, second, jobs.Succeeded)
	}},
	{"a run that was cancelled before its claim is given back does not wait", func(c *check) {
		c.register("h", "a")
		s := c.session("one")
		r := request("a", 1, table("s/a"))
		token := c.granted(s, r)
		c.cancel(r.Run)
		for range 2 {
			done, err := c.Store.Finish(c.ctx, []storage.FinishRequest{{Run: r.Run, Token: token,
				State: jobs.Waiting, Reason: reasons.NoWorker, GivenBack: true}})
			c.must(err)
			equal(c, "given back", done[0], false)
		}
		record := c.record(r.Run, jobs.Cancelled)
		equal(c, "reason", record.Reason, reasons.Cancelled)
		equal(c, "detail", record.Detail, "cancelled by ann")
		equal(c, "replica", record.Replica, "one")
		if record.StartedAt != nil || record.Token != 0 || record.Attempt != 0 {
			c.Errorf("got %+v, want a run that has not started", record)
		}
		equal(c, "locks", len(c.locks()), 0)
		equal(c, "adopted", len(c.adopt(c.session("two"), 10, "a")), 0)
		c.sweep()
		equal(c, "cancels", len(c.controlState(s, -1).Cancels), 0)
		next := request("a", 2, table("s/a"))
		c.finished(next, c.granted(s, next), jobs.Succeeded)
	}},
	{"a pause, a drain and a cancel apply to a run whose claim was given back", func(c *check) {
		c.register("h", "a", "b")
		one, two := c.session("one"), c.session("two")
		r, cancelled := request("a", 1), request("b", 1)
		var ends []storage.FinishRequest
		for _, q := range []storage.StartRequest{r, cancelled} {
			ends = append(ends, storage.FinishRequest{Run: q.Run, Token: c.granted(one, q),
				State: jobs.Waiting, Reason: reasons.NoWorker, GivenBack: true})
		}
		_, err := c.Store.Finish(c.ctx, ends)
		c.must(err)
		equal(c, "replica of the cancelled run", c.cancel(cancelled.Run).Replica, "")
		c.record(cancelled.Run, jobs.Cancelled)
		c.pause(jobA)
		equal(c, "adopted during a pause", len(c.adopt(two, 10, "a")), 0)
		c.resume(jobA)
		equal(c, "adopted", len(c.adopt(two, 10, "a")), 1)
		c.drain(two, true)
		equal(c, "adopted from a drained session", len(c.adopt(one, 10, "a")), 1)
		c.finished(r, c.granted(one, r), jobs.Succeeded)
	}},
	{"a run that waits for another attempt stays with its session", func(c *check) {
		one, two := c.session("one"), c.session("two")
		r := request("a", 1)
		c.finished(r, c.granted(one, r), jobs.Waiting)
		equal(c, "adopted from a live session", len(c.adopt(two, 10, "a")), 0)
		c.Expire(one)
		c.sweep()
		adopted := c.adopt(two, 10, "a")
		if len(adopted) != 1 || adopted[0].ID != r.Run {
			c.Fatalf("adopted %+v, want run %s", adopted, r.Run)
		}
		r.Attempt = 2
		c.granted(two, r)
	}},
	{"a dead session can finish runs while it has their claims", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		token := c.granted(s, r)
		c.Expire(s)
		c.finished(r, token, jobs.Succeeded)
		equal(c, "lost", len(c.sweep().Lost), 0)
		c.record(r.Run, jobs.Succeeded)
	}},
	{"a batch reports each finish that was refused", func(c *check) {
		s := c.session("one")
		a, b := request("a", 1), request("b", 1)
		tokenA, tokenB := c.granted(s, a), c.granted(s, b)
		c.finished(a, tokenA, jobs.Failed)
		done, err := c.Store.Finish(c.ctx, []storage.FinishRequest{
			{Run: a.Run, Token: tokenA, State: jobs.Succeeded},
			{Run: b.Run, Token: tokenB, State: jobs.Succeeded},
			{Run: uuid.New(), Token: tokenB + 1000, State: jobs.Succeeded},
		})
		c.must(err)
		if len(done) != 3 || done[0] || !done[1] || done[2] {
			c.Errorf("finished %v, want [false true false]", done)
		}
	}},
	{"very long text is stored completely", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		f := storage.FinishRequest{
			Run: r.Run, Token: c.granted(s, r), State: jobs.Failed,
			Detail: strings.Repeat("d", 20_000), Error: strings.Repeat("é'\"\\\n", 20_000),
			Output: strings.Repeat("0123456789abcde\n", 4096),
		}
		done, err := c.Store.Finish(c.ctx, []storage.FinishRequest{f})
		c.must(err)
		equal(c, "finished", done[0], true)
		record := c.record(r.Run, jobs.Failed)
		if record.Detail != f.Detail || record.Error != f.Error || record.Output != f.Output {
			c.Errorf("kept %d, %d, %d bytes of %d, %d, %d", len(record.Detail), len(record.Error),
				len(record.Output), len(f.Detail), len(f.Error), len(f.Output))
		}
	}},
	{"the output of each attempt is stored", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		for attempt, state := range []jobs.State{jobs.Waiting, jobs.Succeeded} {
			r.Attempt = attempt + 1
			_, err := c.Store.Finish(c.ctx,
				[]storage.FinishRequest{{Run: r.Run, Token: c.granted(s, r), State: state,
					Output: strings.Repeat("x", r.Attempt)}})
			c.must(err)
		}
		equal(c, "output of attempt 1", c.attempt(r.Run, 1).Output, "x")
		equal(c, "output of attempt 2", c.record(r.Run, jobs.Succeeded).Output, "xx")
	}},
}
