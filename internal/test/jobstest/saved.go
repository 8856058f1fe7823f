package jobstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// saved fails the test unless the job's next run finds this value.
func (c *check) saved(job, want string) {
	c.Helper()
	for _, store := range []storage.Store{c.Store, c.Second()} {
		got, err := store.Saved(c.ctx, job)
		c.must(err)
		equal(c, "saved by "+job, string(got), want)
	}
}

// keeps ends an attempt that saves a value.
func (c *check) keeps(r storage.StartRequest, token jobs.Token, state jobs.State, saved,
	result string) bool {
	c.Helper()
	f := storage.FinishRequest{Run: r.Run, Token: token, State: state}
	if saved != "" {
		f.Saved = json.RawMessage(saved)
	}
	if result != "" {
		f.Result = json.RawMessage(result)
	}
	done, err := c.Store.Finish(c.ctx, []storage.FinishRequest{f})
	c.must(err)
	return done[0]
}

var savedStateRules = []rule{
	{"a job without saved state has none", func(c *check) { c.saved("a", "") }},
	{"the next run gets the state that the previous run saved", func(c *check) {
		s := c.session("one")
		for n, state := range []string{`{"at":1}`, `"two \u0000 é <&>"`, `null`} {
			r := request("a", n)
			equal(c, "finished", c.keeps(r, c.granted(s, r), jobs.Succeeded, state, ""), true)
			c.saved("a", state)
		}
		c.saved("b", "")
	}},
	{"a state or result above the limit is refused and nothing is stored",
		func(c *check) {
			s := c.session("one")
			large := json.RawMessage(`"` + strings.Repeat("x", storage.MaxSaved-2) + `"`)
			var ends []storage.FinishRequest
			for n := range storage.MaxFinishBytes/storage.MaxSaved + 1 {
				r := request(fmt.Sprintf("job %d", n), 1)
				ends = append(ends, storage.FinishRequest{Run: r.Run, Token: c.granted(s, r),
					State: jobs.Succeeded, Saved: large})
			}
			_, err := c.Store.Finish(c.ctx, ends)
			if !errors.Is(err, jobs.ErrTooLarge) || errors.Is(err, storage.ErrUnavailable) ||
				!strings.Contains(err.Error(), fmt.Sprintf("limit is %d", storage.MaxFinishBytes)) {
				c.Fatalf("got error %v, want one that names the limit", err)
			}
			for _, end := range ends {
				c.record(end.Run, jobs.Running)
			}
			for _, part := range [][]storage.FinishRequest{ends[1:], ends[:1]} {
				done, err := c.Store.Finish(c.ctx, part)
				c.must(err)
				equal(c, "finished", slices.Contains(done, false), false)
			}
			c.saved("job 0", string(large))
			for _, f := range []storage.FinishRequest{
				{Saved: json.RawMessage(`"` + string(large)[1:] + " ")}, {Result: large}} {
				_, err := c.Store.Finish(c.ctx, []storage.FinishRequest{f})
				c.refused("too large a state or result", err, jobs.ErrTooLarge)
			}
		}},
	{"a run that saves nothing keeps the saved state", func(c *check) {
		s := c.session("one")
		for n, state := range []string{`1`, ""} {
			r := request("a", n)
			equal(c, "finished", c.keeps(r, c.granted(s, r), jobs.Succeeded, state, ""), true)
		}
		c.saved("a", `1`)
	}},
	{"a run that does not succeed stores no state", func(c *check) {
		s := c.session("one")
		for n, state := range []jobs.State{jobs.Failed, jobs.TimedOut, jobs.Cancelled, jobs.Lost,
			jobs.Waiting} {
			r := request("a", n)
			equal(c, "finished", c.keeps(r, c.granted(s, r), state, `"half"`, ""), true)
		}
		c.saved("a", "")
	}},
	{"a superseded run stores neither state nor result", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		token := c.granted(s, r)
		c.must(c.Store.Revoke(c.ctx, token, jobs.Lost, reasons.ClaimLost))
		equal(c, "finished", c.keeps(r, token, jobs.Succeeded, `"late"`, `"late"`), false)
		c.saved("a", "")
		equal(c, "result", string(c.record(r.Run, jobs.Lost).Result), "")
	}},
	{"an earlier attempt stores no state", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		first := c.granted(s, r)
		c.finished(r, first, jobs.Waiting)
		r.Attempt = 2
		second := c.granted(s, r)
		equal(c, "finish of attempt 1", c.keeps(r, first, jobs.Succeeded, `1`, `1`), false)
		c.saved("a", "")
		equal(c, "finish of attempt 2", c.keeps(r, second, jobs.Succeeded, `2`, `2`), true)
		c.saved("a", `2`)
		equal(c, "result", string(c.record(r.Run, jobs.Succeeded).Result), `2`)
	}},
	{"a repeated finish does not restore an older state", func(c *check) {
		s := c.session("one")
		first, second := request("a", 1), request("a", 2)
		token := c.granted(s, first)
		equal(c, "first", c.keeps(first, token, jobs.Succeeded, `1`, ""), true)
		equal(c, "second", c.keeps(second, c.granted(s, second), jobs.Succeeded, `2`, ""), true)
		equal(c, "first, repeated", c.keeps(first, token, jobs.Succeeded, `1`, ""), true)
		c.saved("a", `2`)
	}},
	{"a batch stores the state of each job", func(c *check) {
		s := c.session("one")
		var all []storage.FinishRequest
		for n := range 30 {
			r := request(fmt.Sprintf("job %d", n%20), n) // some jobs twice: the later finish wins
			all = append(all, storage.FinishRequest{Run: r.Run, Token: c.granted(s, r),
				State: jobs.Succeeded, Saved: json.RawMessage(fmt.Sprint(n))})
		}
		_, err := c.Store.Finish(c.ctx, all)
		c.must(err)
		for n := range 20 {
			want := n
			if n < 10 {
				want = n + 20
			}
			c.saved(fmt.Sprintf("job %d", n), fmt.Sprint(want))
		}
	}},
	{"a state of one mebibyte is stored completely", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		state := `"` + strings.Repeat("x", storage.MaxSaved-2) + `"`
		equal(c, "finished", c.keeps(r, c.granted(s, r), jobs.Succeeded, state, ""), true)
		c.saved("a", state)
	}},
	{"a run has its result in every final state, and lists do not have it", func(c *check) {
		s := c.session("one")
		for n, state := range []jobs.State{jobs.Succeeded, jobs.Failed, jobs.Waiting} {
			r := request("a", n)
			result := fmt.Sprintf(`{"n":%d, "nul":"\u0000"}`, n)
			equal(c, "finished", c.keeps(r, c.granted(s, r), state, "", result), true)
			equal(c, "result", string(c.record(r.Run, state).Result), result)
		}
		for _, r := range c.runs(storage.RunFilter{}) {
			equal(c, "result in a list", string(r.Result), "")
		}
	}},
	{"an attempt without result or output keeps the previous ones", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		end := func(state jobs.State, output, result string) {
			f := storage.FinishRequest{Run: r.Run, Token: c.granted(s, r), State: state,
				Output: output}
			if result != "" {
				f.Result = json.RawMessage(result)
			}
			_, err := c.Store.Finish(c.ctx, []storage.FinishRequest{f})
			c.must(err)
			r.Attempt++
		}
		end(jobs.Waiting, "first", `1`)
		end(jobs.Waiting, "", `2`)
		end(jobs.Failed, "third", "")
		record := c.record(r.Run, jobs.Failed)
		equal(c, "output", record.Output, "third")
		equal(c, "result", string(record.Result), `2`)
	}},
}
