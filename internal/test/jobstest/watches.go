package jobstest

import (
	"slices"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var watchRules = []rule{
	{"a session gets the watched runs that it has", func(c *check) {
		one, two := c.session("one"), c.session("two")
		watched, other, waits := request("a", 1, table("s/t")), request("b", 1),
			request("c", 1, table("s/t"))
		token := c.granted(one, watched)
		c.granted(one, other)
		c.blocked(one, waits, reasons.LockHeld, watched)
		for _, run := range []uuid.UUID{watched.Run, watched.Run, waits.Run, uuid.New()} {
			c.must(c.Second().Watch(c.ctx, run))
		}
		if got := c.controlState(one, c.controlState(one, -1).Generation).
			Watched; !slices.Equal(got, []uuid.UUID{watched.Run}) {
			c.Errorf("watched %s, want only %s", got, watched.Run)
		}
		if got := c.controlState(two, -1).Watched; len(got) > 0 {
			c.Errorf("another session got %s", got)
		}
		c.finished(watched, token, jobs.Succeeded)
		if got := c.controlState(one, -1).Watched; len(got) > 0 {
			c.Errorf("watched after its end: %s", got)
		}
	}},
	{"the output of a running run is shown until its end replaces it", func(c *check) {
		s := c.session("one")
		r := request("a", 1)
		token := c.granted(s, r)
		for _, text := range []string{"begun\n", "begun\nhalf\x00 done\n"} {
			c.must(c.Store.SaveOutput(c.ctx,
				[]storage.Output{{Token: token, Text: text},
					{Token: token + 1000, Text: "nobody's"}}))
			equal(c, "output", c.record(r.Run, jobs.Running).Output, output.PlainText(text))
		}
		finish := storage.FinishRequest{Run: r.Run, Token: token, State: jobs.Failed,
			Output: "all of it\n"}
		done, err := c.Store.Finish(c.ctx, []storage.FinishRequest{finish})
		c.must(err)
		equal(c, "finished", done[0], true)
		c.must(c.Store.SaveOutput(c.ctx, []storage.Output{{Token: token, Text: "too late"}}))
		equal(c, "output", c.record(r.Run, jobs.Failed).Output, "all of it\n")
	}},
}
