package jobstest

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// previous fails the test unless this is the last success of job "a" before a time; zero is none.
func (c *check) previous(before, want time.Time) {
	c.Helper()
	for _, store := range []storage.Store{c.Store, c.Second()} {
		got, err := store.PreviousSuccess(c.ctx, "a", before)
		c.must(err)
		equal(c, "previous success", got, want)
	}
}

// ended executes a run of job "a" at its nth scheduled time, and returns that time.
func (c *check) ended(s uuid.UUID, n int, state jobs.State) time.Time {
	c.Helper()
	r := request("a", n)
	c.finished(r, c.granted(s, r), state)
	return r.Firing.ScheduledAt
}

// triggeredBy executes a run of job "a" with trigger params, and returns its scheduled time.
func (c *check) triggeredBy(s uuid.UUID, params string) time.Time {
	c.Helper()
	answer, err := c.Store.Trigger(c.ctx, action,
		storage.TriggerRequest{Job: "a", Params: json.RawMessage(params)})
	c.must(err)
	_, err = c.Store.Adopt(c.ctx, s, Adoption(nil, 1, "a"))
	c.must(err)
	r := c.startOf(answer)
	c.finished(r, c.granted(s, r), jobs.Succeeded)
	return answer.ScheduledAt
}

var successRules = []rule{
	{"a job that never succeeded has no previous success", func(c *check) {
		s := c.session("one")
		c.ended(s, 1, jobs.Failed)
		running := request("a", 2)
		c.granted(s, running)
		other := request("b", 1)
		c.finished(other, c.granted(s, other), jobs.Succeeded)
		c.previous(running.Firing.ScheduledAt.Add(time.Hour), time.Time{})
	}},
	{"the previous success is the latest before a time, in whatever order runs ended",
		func(c *check) {
			s := c.session("one")
			second, first := c.ended(s, 2, jobs.Succeeded), c.ended(s, 1, jobs.Succeeded)
			third := c.ended(s, 3, jobs.TimedOut)
			c.previous(third, second)
			c.previous(second.Add(time.Microsecond), second)
			c.previous(second, first)
			c.previous(first, time.Time{})
		}},
	{"a triggered run counts unless it had other params", func(c *check) {
		s := c.session("one")
		c.register("h", "a")
		scheduled := c.ended(s, 1, jobs.Succeeded)
		c.triggeredBy(s, `{"region":"north"}`)
		c.previous(c.now(), scheduled)
		c.previous(c.now(), scheduled)
		at := c.triggeredBy(s, `{}`)
		c.previous(c.now().Add(time.Hour), at)
	}},
	{"pruning the history keeps the previous success", func(c *check) {
		s := c.session("one")
		c.ended(s, 1, jobs.Succeeded)
		last := c.ended(s, 2, jobs.Succeeded)
		failed := c.ended(s, 3, jobs.Failed)
		for _, want := range []int{2, 0} {
			equal(c, "pruned", c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 10}).Runs, want)
			c.previous(failed, last)
		}
		c.ended(s, 4, jobs.Failed)
		equal(c, "pruned", c.prune(s, storage.PruneRequest{Keep: atOnce, Limit: 10}).Runs, 1)
		c.previous(failed, last)
		next := c.ended(s, 5, jobs.Succeeded)
		c.previous(next.Add(time.Hour), next)
		c.previous(failed, last)
	}},
}
