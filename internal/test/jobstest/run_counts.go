package jobstest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// runCountRules are about numbers of runs.
var runCountRules = []rule{
	{"failed and skipped runs are counted by job, state and reason", func(c *check) {
		s := c.session("one")
		for i := range 3 {
			c.note(s, noteOf(request("a", i), jobs.Skipped, reasons.LockHeld))
		}
		since := c.now()
		c.note(s, noteOf(request("a", 3), jobs.Skipped, reasons.LockHeld))
		c.note(s, noteOf(request("a", 4), jobs.Skipped, reasons.Overlap))
		c.note(s, noteOf(request("b", 5, table("s/t")), jobs.Waiting, reasons.LockHeld))
		for i, state := range []jobs.State{jobs.Failed, jobs.Failed, jobs.Succeeded} {
			r := request("b", i)
			c.finished(r, c.granted(s, r), state)
		}
		equal(c, "since then", c.endCounts(c.Store.EndCounts(c.ctx, since)),
			"a skipped lock_held 1, a skipped overlap 1, b failed  2")
		equal(c, "in all", c.endCounts(c.Store.EndCounts(c.ctx, since.Add(-time.Hour))),
			"a skipped lock_held 4, a skipped overlap 1, b failed  2")
		equal(c, "of one job", c.endCounts(c.Store.JobEndCounts(c.ctx, "b", since)),
			"b failed  2, b succeeded  1")
		equal(c, "of one job, in all",
			c.endCounts(c.Store.JobEndCounts(c.ctx, "a", since.Add(-time.Hour))),
			"a skipped lock_held 4, a skipped overlap 1")
		equal(c, "of the future", c.endCounts(c.Store.EndCounts(c.ctx, c.now().Add(time.Hour))), "")
		equal(c, "of another job", c.endCounts(c.Store.JobEndCounts(c.ctx, "c", since)), "")
		endCounts, err := c.Store.JobEndCounts(c.ctx, "b", since)
		c.must(err)
		for _, t := range endCounts {
			within(c, "the last", t.Last, since, c.now())
		}
	}},
	{"jobs are listed by the ends of their runs", func(c *check) {
		s := c.session("one")
		began := c.now()
		for i, job := range []string{"a", "b", "b", "c", "d"} {
			state := []jobs.State{jobs.Failed, jobs.TimedOut, jobs.Succeeded, jobs.Failed,
				jobs.Succeeded}[i]
			r := request(job, i)
			c.finished(r, c.granted(s, r), state)
		}
		c.granted(s, request("e", 5)) // is running
		c.note(s, noteOf(request("f", 6), jobs.Skipped, reasons.LockHeld))
		failed := c.runs(storage.RunFilter{States: []jobs.State{jobs.Failed}}) // c, then a
		end := c.now().Add(time.Second)
		listed := func(from, until time.Time, most int, states ...jobs.State) string {
			found, err := c.Store.EndedJobs(c.ctx, storage.EndedJobsFilter{From: from, Until: until,
				States: states, Most: most})
			c.must(err)
			return fmt.Sprint(slices.Sorted(maps.Keys(found.Names)), " ", found.More)
		}
		equal(c, "failed", listed(began, end, 2, jobs.Failed), "[a c] false")
		equal(c, "failed or timed out", listed(began, end, 2, jobs.Failed, jobs.TimedOut),
			"[a b c] false")
		equal(c, "skipped", listed(began, end, 2, jobs.Skipped, jobs.Missed), "[f] false")
		equal(c, "lost", listed(began, end, 2, jobs.Lost), "[] false")
		equal(c, "bounded", listed(began, end, 1, jobs.Failed), "[a c] true")
		equal(c, "bounded more", listed(began, end, 0, jobs.Failed, jobs.TimedOut), "[b c] true")
		equal(c, "before the last", listed(began, failed[0].CreatedAt, 2, jobs.Failed), "[a] false")
		equal(c, "from the last", listed(failed[0].CreatedAt, end, 2, jobs.Failed), "[c] false")
	}},
	{"runs are counted by job and part of a time", func(c *check) {
		s := c.session("one")
		began := c.now()
		for i, state := range []jobs.State{jobs.Failed, jobs.Succeeded, jobs.Failed,
			jobs.TimedOut} {
			r := request("a", i)
			c.finished(r, c.granted(s, r), state)
		}
		c.granted(s, request("a", 4)) // is running
		c.note(s, noteOf(request("b", 5), jobs.Skipped, reasons.LockHeld))
		all := c.runs(storage.RunFilter{Job: "a"}) // the youngest first
		slices.Reverse(all)
		end := c.now().Add(time.Second)
		counted := func(most int, parts ...storage.JobPart) string {
			counts, err := c.Store.CountRuns(c.ctx, parts, most)
			c.must(err)
			var lines []string
			for i, n := range counts {
				for state, last := range n.Last {
					if !slices.ContainsFunc(c.runs(storage.RunFilter{Job: parts[i].Job}),
						func(r storage.Record) bool {
							return r.State == state && r.ScheduledAt.Equal(last)
						}) {
						c.Errorf("no run of %s is %s at %s", parts[i].Job, state, last)
					}
				}
				more := ""
				if n.More {
					more = "+"
				}
				lines = append(lines, fmt.Sprintf("%d%s %v", n.Runs, more, n.Unsuccessful))
			}
			return strings.Join(lines, ", ")
		}
		a := storage.JobPart{Job: "a", From: began, Until: end}
		b := storage.JobPart{Job: "b", From: began, Until: end}
		none := storage.JobPart{Job: "none", From: began, Until: end}
		later := storage.JobPart{Job: "a", From: end, Until: end.Add(time.Hour)}
		equal(c, "all", counted(100, a, b, none, later),
			"5 map[failed:2 timed_out:1], 1 map[skipped:1], 0 map[], 0 map[]")
		first := storage.JobPart{Job: "a", From: began, Until: all[2].CreatedAt}
		rest := storage.JobPart{Job: "a", From: all[2].CreatedAt, Until: all[4].CreatedAt}
		equal(c, "parts", counted(100, rest, first),
			"2 map[failed:1 timed_out:1], 2 map[failed:1]")
		equal(c, "exactly as many", counted(5, a), "5 map[failed:2 timed_out:1]")
		equal(c, "at most 4", counted(4, a, b), "4+ map[failed:2 timed_out:1], 1 map[skipped:1]")
		counts, err := c.Store.CountRuns(c.ctx, []storage.JobPart{a}, 1)
		c.must(err)
		equal(c, "at most 1", counts[0].More && counts[0].Runs == 1, true)
		equal(c, "the youngest of at most 1", counts[0].Unsuccessful[jobs.TimedOut], 1)
		equal(c, "of nothing", counted(5), "")
	}},
	{"runs of a filter are counted", func(c *check) {
		c.inGroups(map[string]string{"a": "group", "b": "group"})
		s := c.session("one")
		began := c.now()
		for i, state := range []jobs.State{jobs.Failed, jobs.Succeeded, jobs.Failed,
			jobs.TimedOut} {
			r := request("a", i, table("s/t"))
			c.finished(r, c.granted(s, r), state)
		}
		c.granted(s, request("a", 4)) // is running
		c.note(s, noteOf(request("b", 5), jobs.Skipped, reasons.LockHeld))
		other := c.session("two")
		r := request("b", 6)
		c.finished(r, c.granted(other, r), jobs.Failed)
		counted := func(f storage.RunFilter, most int) string {
			n, err := c.Store.CountFiltered(c.ctx, f, most)
			c.must(err)
			more := ""
			if n.More {
				more = "+"
			}
			if n.MoreUnsuccessful {
				return fmt.Sprintf("%d%s %v+", n.Runs, more, n.Unsuccessful)
			}
			return fmt.Sprintf("%d%s %v", n.Runs, more, n.Unsuccessful)
		}
		all := storage.RunFilter{}
		equal(c, "all", counted(all, 100), "7 map[failed:3 skipped:1 timed_out:1]")
		equal(c, "exactly as many", counted(all, 7), "7 map[failed:3 skipped:1 timed_out:1]")
		equal(c, "at most", counted(all, 3), "3+ map[failed:3 skipped:1 timed_out:1]")
		ofA := storage.RunFilter{Job: "a", States: []jobs.State{jobs.Succeeded}, Limit: 1}
		equal(c, "of a job", counted(ofA, 100), "5 map[failed:2 timed_out:1]")
		equal(c, "of a job, at most", counted(ofA, 2)[:2], "2+")
		equal(c, "of a prefix", counted(storage.RunFilter{JobPrefix: "b"}, 100),
			"2 map[failed:1 skipped:1]")
		equal(c, "of a replica", counted(storage.RunFilter{Replica: "two"}, 100), "1 map[failed:1]")
		equal(c, "of a job and a replica",
			counted(storage.RunFilter{Job: "b", Replica: "one"}, 100), "1 map[skipped:1]")
		equal(c, "of a reason", counted(storage.RunFilter{Reason: reasons.LockHeld}, 100),
			"1 map[skipped:1]")
		equal(c, "of a job and a reason",
			counted(storage.RunFilter{Job: "a", Reason: reasons.LockHeld}, 100), "0 map[]")
		equal(c, "of a time", counted(storage.RunFilter{From: began,
			Until: c.now().Add(time.Second)}, 100), "7 map[failed:3 skipped:1 timed_out:1]")
		equal(c, "of another time", counted(storage.RunFilter{Until: began}, 100), "0 map[]")
		equal(c, "of a group", counted(storage.RunFilter{Group: "group"}, 100),
			"7 map[failed:3 skipped:1 timed_out:1]")
		equal(c, "of another group", counted(storage.RunFilter{Group: "x"}, 100), "0 map[]")
		equal(c, "of a job in another group",
			counted(storage.RunFilter{Group: "x", Job: "a"}, 100), "0 map[]")
		equal(c, "of a job in its group",
			counted(storage.RunFilter{Group: "group", Job: "b"}, 100), "2 map[failed:1 skipped:1]")
		equal(c, "of an error", counted(storage.RunFilter{Error: "no such error"}, 100), "0 map[]")
		// Each combination of these has the runs that are listed with it.
		narrow := []func(f *storage.RunFilter){
			func(f *storage.RunFilter) { f.Job = "b" },
			func(f *storage.RunFilter) { f.JobPrefix = "a" },
			func(f *storage.RunFilter) { f.Replica = "one" },
			func(f *storage.RunFilter) { f.Reason = reasons.LockHeld },
			func(f *storage.RunFilter) { f.From = began },
			func(f *storage.RunFilter) { f.Until = c.now().Add(time.Second) },
			func(f *storage.RunFilter) { f.Group = "group" },
			func(f *storage.RunFilter) { f.Backfill = uuid.New() },
		}
		for chosen := range 1 << len(narrow) {
			var f storage.RunFilter
			for i, part := range narrow {
				if chosen>>i&1 == 1 {
					part(&f)
				}
			}
			listed := c.runs(f)
			unsuccessful := map[jobs.State]int{}
			for _, r := range listed {
				if r.State.Final() && r.State != jobs.Succeeded {
					unsuccessful[r.State]++
				}
			}
			equal(c, fmt.Sprintf("filter %+v", f), counted(f, 100),
				fmt.Sprintf("%d %v", len(listed), unsuccessful))
		}
		equal(c, "of a backfill", counted(storage.RunFilter{Backfill: uuid.New()}, 100), "0 map[]")
	}},
}

// endCounts formats counts in a fixed order.
func (c *check) endCounts(endCounts []storage.EndCount, err error) string {
	c.Helper()
	c.must(err)
	var lines []string
	for _, t := range endCounts {
		lines = append(lines, fmt.Sprintf("%s %s %s %d", t.Job, t.State, t.Reason, t.Runs))
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}
