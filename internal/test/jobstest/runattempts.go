package jobstest

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var runAttemptRules = []rule{
	{"an attempt that another one follows is stored with its times and its output", func(c *check) {
		s := c.session("one")
		r := request("a", 1, table("s/t"))
		token := c.granted(s, r)
		c.retried(storage.FinishRequest{Run: r.Run, Token: token, Reason: reasons.Retry,
			Detail: "attempt 1 ended as timed_out", Error: "too \"slow\" <é>", Output: "a\x00\nb\n",
			Attempt: storage.AttemptEnd{State: jobs.TimedOut, Reason: reasons.Timeout,
				Detail: "after 10m"}})
		waiting := c.record(r.Run, jobs.Waiting)
		want := storage.RunAttempt{Attempt: 1, State: jobs.TimedOut, Reason: reasons.Timeout,
			Detail: "after 10m", Error: "too \"slow\" <é>", Replica: waiting.Replica, Token: token,
			StartedAt: waiting.StartedAt, FinishedAt: &waiting.RetryWaits[0].From}
		if got := c.attempts(r.Run); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
			c.Errorf("got %+v, want %+v", got, want)
		}
		want.Output = output.PlainText("a\x00\nb\n")
		if got := c.attempt(r.Run, 1); !reflect.DeepEqual(got, want) {
			c.Errorf("got %+v, want %+v", got, want)
		}
	}},
	{"an attempt is stored with the lock that it waited for", func(c *check) {
		s := c.session("one")
		first, second := request("h", 1, table("s/t")), request("i", 1, table("s/u"))
		r := request("a", 1, table("s/t"), table("s/u"))
		token := c.granted(s, first)
		c.blocked(s, r, reasons.LockHeld, first)
		c.finished(first, token, jobs.Succeeded)
		retry := func() {
			c.Helper()
			c.retried(storage.FinishRequest{Run: r.Run, Token: c.granted(s, r),
				Reason: reasons.Retry})
			r.Attempt++
		}
		retry()
		token = c.granted(s, second)
		before := c.now()
		c.blocked(s, r, reasons.LockHeld, second)
		after := c.now()
		if next, _ := c.record(r.Run, jobs.Waiting).LastAttempt(); next.Waited != nil {
			c.Errorf("attempt 2 has not started, and has the wait %+v of attempt 1", next.Waited)
		}
		c.finished(second, token, jobs.Succeeded)
		retry()
		retry() // nothing blocks attempt 3
		attempts := c.attempts(r.Run)
		for n, want := range []*storage.StartRequest{&first, &second, nil} {
			w := attempts[n].Waited
			if (w == nil) != (want == nil) || w != nil && w.Holder.Run != want.Run.String() {
				c.Errorf("attempt %d waited for %+v, want %+v", n+1, w, want)
			}
		}
		equal(c, "resource", attempts[1].Waited.Resource, table("s/u").Resource.String())
		equal(c, "since of attempt 1", attempts[0].Waited.Since, r.WaitSince)
		within(c, "since of attempt 2", attempts[1].Waited.Since, before, after)
		if got := c.attempt(r.Run, 2).Waited; !reflect.DeepEqual(got, attempts[1].Waited) {
			c.Errorf("attempt 2 alone waited for %+v, want %+v", got, attempts[1].Waited)
		}
		c.finished(r, c.granted(s, r), jobs.Succeeded)
		record := c.record(r.Run, jobs.Succeeded)
		if last, _ := record.LastAttempt(); last.Waited != nil || record.Waited != nil {
			c.Errorf("attempt 4 waited for %+v, the run for %+v, want nothing", last.Waited,
				record.Waited)
		}
	}},
	{"the attempts of a run together take as long as the run", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		for r.Attempt = 1; r.Attempt < 4; r.Attempt++ {
			c.finished(r, c.granted(s, r), jobs.Waiting)
		}
		c.finished(r, c.granted(s, r), jobs.Succeeded)
		record := c.record(r.Run, jobs.Succeeded)
		last, _ := record.LastAttempt()
		attempts := append(c.attempts(r.Run), last)
		equal(c, "attempts", len(attempts), 4)
		whole, _ := record.Took()
		for n, a := range attempts {
			equal(c, "attempt", a.Attempt, n+1)
			took, ended := a.Took()
			if whole -= took; !ended || took < 0 {
				c.Errorf("attempt %d took %s, %t", a.Attempt, took, ended)
			}
		}
		equal(c, "time outside of attempts", whole, 0)
		equal(c, "state of a failed attempt", attempts[2].State, jobs.Failed)
		equal(c, "state of the last attempt", last.State, jobs.Succeeded)
	}},
	{"a run with one attempt adds none", func(c *check) {
		s := c.session("one")
		for n, state := range []jobs.State{jobs.Succeeded, jobs.Failed, jobs.TimedOut,
			jobs.Cancelled, jobs.Lost} {
			r := request("a", n)
			c.finished(r, c.granted(s, r), state)
			equal(c, "attempts of a run that "+string(state), len(c.attempts(r.Run)), 0)
		}
	}},
	{"a repeated finish as waiting adds one attempt", func(c *check) {
		one, two := c.session("one"), c.session("two")
		r := request("a", 1)
		f := storage.FinishRequest{Run: r.Run, Token: c.granted(one, r), Output: "once\n"}
		c.retried(f)
		first := c.attempt(r.Run, 1)
		c.retried(f)
		c.Expire(one)
		c.sweep()
		equal(c, "adopted", len(c.adopt(two, 1, "a")), 1)
		c.retried(f) // the reply was lost, and another replica has the run
		if got := c.attempts(r.Run); len(got) != 1 || got[0].Replica != "one" {
			c.Errorf("got %+v, want one attempt on replica one", got)
		}
		if got := c.attempt(r.Run, 1); !reflect.DeepEqual(got, first) {
			c.Errorf("got %+v, want %+v", got, first)
		}
	}},
	{"a finish that is refused adds no attempt", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		token := c.granted(s, r)
		equal(c, "finish with another token", c.finish(r, token+1000, jobs.Waiting), false)
		c.finished(r, token, jobs.Failed)
		equal(c, "finish after the end", c.finish(r, token, jobs.Waiting), false)
		equal(c, "attempts", len(c.attempts(r.Run)), 0)
	}},
	{"the output of an attempt is not shown with the next one", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		token := c.granted(s, r)
		c.must(c.Store.SaveOutput(c.ctx, []storage.Output{{Token: token, Text: "half"}}))
		c.retried(storage.FinishRequest{Run: r.Run, Token: token, Output: "half and half",
			Result: []byte(`{"n":1}`)})
		equal(c, "output between attempts", c.record(r.Run, jobs.Waiting).Output, "")
		r.Attempt = 2
		token = c.granted(s, r)
		equal(c, "output of attempt 2", c.record(r.Run, jobs.Running).Output, "")
		c.finished(r, token, jobs.Succeeded)
		record := c.record(r.Run, jobs.Succeeded)
		equal(c, "output of attempt 2", record.Output, "")
		equal(c, "result of attempt 1", string(record.Result), `{"n":1}`)
		equal(c, "output of attempt 1", c.attempt(r.Run, 1).Output, "half and half")
	}},
	{"the last attempts of many are kept", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		const more = 3
		for r.Attempt = 1; r.Attempt <= storage.MaxRunAttempts+more; r.Attempt++ {
			c.retried(storage.FinishRequest{Run: r.Run, Token: c.granted(s, r),
				Error: fmt.Sprint("try ", r.Attempt)})
		}
		kept := c.attempts(r.Run)
		equal(c, "attempts", len(kept), storage.MaxRunAttempts)
		for n, a := range kept {
			equal(c, "attempt", a.Attempt, n+1+more)
			equal(c, "error", a.Error, fmt.Sprint("try ", a.Attempt))
		}
	}},
	{"attempts are deleted with their run", func(c *check) {
		s := c.session("one")
		old, last := request("a", 1), request("a", 2)
		for _, r := range []storage.StartRequest{old, last} {
			c.finished(r, c.granted(s, r), jobs.Waiting)
			r.Attempt = 2
			c.finished(r, c.granted(s, r), jobs.Failed)
		}
		equal(c, "runs", c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 10}).Runs, 1)
		equal(c, "attempts of the old run", len(c.attempts(old.Run)), 0)
		equal(c, "attempts of the last run", len(c.attempts(last.Run)), 1)
		again := request("a", 99)
		again.Run = old.Run
		c.granted(s, again)
		equal(c, "attempts of a run of the same id", len(c.attempts(old.Run)), 0)
	}},
	{"a lost run keeps its attempts and its recovery begins with the first", func(c *check) {
		one, two := c.session("one"), c.session("two")
		c.recovering("a")
		r := request("a", 1)
		c.finished(r, c.granted(one, r), jobs.Waiting)
		r.Attempt = 2
		c.granted(one, r)
		c.Expire(one)
		c.sweep()
		lost := c.record(r.Run, jobs.Lost)
		last, _ := lost.LastAttempt()
		equal(c, "last attempt", last.Attempt, 2)
		equal(c, "its state", last.State, jobs.Lost)
		equal(c, "attempts before", len(c.attempts(r.Run)), 1)
		recovery := c.adopt(two, 1, "a")[0]
		equal(c, "recovery", recovery.Recovery, 1)
		equal(c, "attempts of the recovery", len(c.attempts(recovery.ID)), 0)
	}},
	{"an attempt that did not start has no start", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		c.retried(storage.FinishRequest{Run: r.Run, Token: c.granted(s, r), Error: "boom"})
		next, _ := c.record(r.Run, jobs.Waiting).LastAttempt()
		c.cancel(r.Run)
		cancelled, _ := c.record(r.Run, jobs.Cancelled).LastAttempt()
		for _, a := range []storage.RunAttempt{next, cancelled} {
			if a.Attempt != 2 || a.StartedAt != nil || a.Error != "" || a.Token != 0 {
				c.Errorf("got %+v, want attempt 2 without a start", a)
			}
		}
		equal(c, "attempts", len(c.attempts(r.Run)), 1)
	}},
	{"an unknown attempt is not found", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		c.finished(r, c.granted(s, r), jobs.Waiting)
		equal(c, "attempts of an unknown run", len(c.attempts(uuid.New())), 0)
		for _, q := range []storage.RunAttempt{{Attempt: 0}, {Attempt: 2}, {Attempt: -1}} {
			if _, err := c.Store.RunAttempt(c.ctx, r.Run,
				q.Attempt); !errors.Is(err, storage.ErrNotFound) {
				c.Errorf("attempt %d: %v, want %v", q.Attempt, err, storage.ErrNotFound)
			}
		}
	}},
}

// retried ends an attempt that another one follows.
func (c *check) retried(f storage.FinishRequest) {
	c.Helper()
	f.State = jobs.Waiting
	done, err := c.Store.Finish(c.ctx, []storage.FinishRequest{f})
	c.must(err)
	if !done[0] {
		c.Fatalf("finish of run %s was refused", f.Run)
	}
}

func (c *check) attempts(run uuid.UUID) []storage.RunAttempt {
	c.Helper()
	attempts, err := c.Store.RunAttempts(c.ctx, run)
	c.must(err)
	return attempts
}

func (c *check) attempt(run uuid.UUID, n int) storage.RunAttempt {
	c.Helper()
	attempt, err := c.Store.RunAttempt(c.ctx, run, n)
	c.must(err)
	return attempt
}
