package jobstest

import (
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var retryWaitRules = []rule{
	{"the duration of a run does not include the delays between attempts", func(c *check) {
		s := c.session("one")
		r := request("a", 1, table("s/t"))
		c.finished(r, c.granted(s, r), jobs.Waiting)
		ended := c.now()
		retrying := c.record(r.Run, jobs.Waiting)
		waits := retrying.RetryWaits
		if len(waits) != 1 || waits[0].Until != nil || waits[0].From.Before(*retrying.StartedAt) {
			c.Fatalf("waits %+v, want one that is open", waits)
		}
		since := waits[0].From
		time.Sleep(50 * time.Millisecond)
		waited := c.now().Sub(ended) // at least
		r.Attempt = 2
		c.finished(r, c.granted(s, r), jobs.Succeeded)
		record := c.record(r.Run, jobs.Succeeded)
		waits = record.RetryWaits
		if len(waits) != 1 || waits[0].Until == nil || !waits[0].From.Equal(since) {
			c.Fatalf("waits %+v, want one since %s that has ended", waits, since)
		}
		took := c.tookEverywhere(record)
		if whole := record.FinishedAt.Sub(*record.StartedAt); took < 0 || took > whole-waited {
			c.Errorf("took %s of %s, in which it waited for %s", took, whole, waited)
		}
	}},
	{"the duration of a run does not include a delay that a cancel ends", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		c.finished(r, c.granted(s, r), jobs.Waiting)
		ended := c.now()
		time.Sleep(50 * time.Millisecond)
		waited := c.now().Sub(ended)
		c.cancel(r.Run)
		record := c.record(r.Run, jobs.Cancelled)
		took := c.tookEverywhere(record)
		if whole := record.FinishedAt.Sub(*record.StartedAt); took < 0 || took > whole-waited {
			c.Errorf("took %s of %s, in which it waited for %s", took, whole, waited)
		}
	}},
	{"a run with one attempt has no delays", func(c *check) {
		s := c.session("one")
		r, blocker := request("a", 1, table("s/t")), request("b", 1, table("s/t"))
		token := c.granted(s, blocker)
		c.blocked(s, r, reasons.LockHeld, blocker)
		c.finished(blocker, token, jobs.Succeeded)
		c.finished(r, c.granted(s, r), jobs.Failed)
		record := c.record(r.Run, jobs.Failed)
		equal(c, "waits", len(record.RetryWaits), 0)
		equal(c, "took", c.tookEverywhere(record), record.FinishedAt.Sub(*record.StartedAt))
	}},
	{"the delays of many attempts are stored in few spans with an exact sum", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		var waited time.Duration
		token := c.granted(s, r)
		for n := 1; n <= storage.MaxRetryWaits+3; n++ {
			c.finished(r, token, jobs.Waiting)
			r.Attempt = n + 1
			token = c.granted(s, r)
			waits := c.record(r.Run, jobs.Running).RetryWaits
			if len(waits) != min(n, storage.MaxRetryWaits) {
				c.Fatalf("%d waits after %d", len(waits), n)
			}
			last := waits[len(waits)-1]
			waited += last.Until.Sub(last.From)
		}
		c.finished(r, token, jobs.Failed)
		record := c.record(r.Run, jobs.Failed)
		whole := record.FinishedAt.Sub(*record.StartedAt)
		equal(c, "sum of the waits", whole-c.tookEverywhere(record), waited)
	}},
}

// tookEverywhere returns how long the run took, and checks that every query agrees.
func (c *check) tookEverywhere(r storage.Record) time.Duration {
	c.Helper()
	took, ended := r.Took()
	if !ended {
		c.Fatalf("%+v has not ended", r)
	}
	outcomes, err := c.Store.Outcomes(c.ctx, []storage.OutcomesOf{{Job: r.Job}}, 1)
	c.must(err)
	if length, ended := outcomes[r.Job][0].Took(); !ended || length != took {
		c.Errorf("the outcome took %s, %t, the run %s", length, ended, took)
	}
	typical, err := c.Store.Typical(c.ctx, []string{r.Job})
	c.must(err)
	if t := typical[r.Job]; t.Runs != 1 || t.Median != took || t.Long != took {
		c.Errorf("typical is %+v, the run took %s", t, took)
	}
	stretches, err := c.Store.RunIntervals(c.ctx, storage.RunIntervalFilter{
		Jobs: []string{r.Job}, From: r.CreatedAt, Until: c.now().Add(time.Hour), Each: 1,
	})
	c.must(err)
	v := stretches[0]
	if length := storage.Executed(*v.StartedAt, *v.FinishedAt, v.RetryWaits); length != took {
		c.Errorf("the stretch took %s, the run %s", length, took)
	}
	return took
}
