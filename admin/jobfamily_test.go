package admin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// families is a cluster with jobs of two for_each, of which one has a failed job.
func families() Options {
	h := &history{now: noon, jobs: []storage.JobView{job("nightly", "0 2 * * *", "orders")},
		replicas: []storage.ReplicaView{liveReplica(1, "replica-1", time.Second, 0)}}
	add := func(n int, name, schedule, description string, state jobs.State) {
		view := job(name, schedule, strings.ReplaceAll(name, ".", "_"))
		view.Description = description
		h.jobs = append(h.jobs, view)
		if state != "" {
			h.runs = append(h.runs, done(n, name, "replica-1", time.Minute, time.Second, state))
		}
	}
	for i := range 5 {
		add(10+i, fmt.Sprintf("shard-compact.%d", i), "0 4 * * *", "Compacts a shard",
			jobs.Succeeded)
	}
	for i, name := range []string{"acme", "globex", "hooli", "umbrella"} {
		state := jobs.Succeeded
		if name == "hooli" {
			state = jobs.Failed
		}
		add(20+i, "tenant-rollup-"+name, "*/20 * * * *", "Sums up one tenant", state)
	}
	return options(h)
}

// outcomes gives a job these last outcomes, as the list of jobs does.
func outcomes(newestFirst ...storage.Outcome) func(*Job) {
	return func(j *Job) {
		j.Outcomes, j.active = newestFirst, newActiveRun(newestFirst, noon)
	}
}

// TestJobsFoldIntoFamilies checks which neighbouring jobs fold, and which families are open.
func TestJobsFoldIntoFamilies(t *testing.T) {
	of := func(names ...string) (list []Job) {
		for _, name := range names {
			list = append(list, Job{Name: name, Schedule: "@daily", Description: "x"})
		}
		return list
	}
	changed := func(change func(*Job), names ...string) []Job {
		list := of(names...)
		change(&list[1])
		return list
	}
	run := func(state jobs.State) func(*Job) {
		return func(j *Job) { j.LastRun = &storage.Record{State: state} }
	}
	waits := storage.Outcome{State: jobs.Waiting, ScheduledAt: noon}
	later := storage.Outcome{State: jobs.Waiting, ScheduledAt: noon.Add(time.Hour)}
	runs := storage.Outcome{State: jobs.Running, StartedAt: &noon}
	ended := storage.Outcome{State: jobs.Succeeded}
	abc := []string{"roll.a", "roll.b", "roll.c"}
	for name, c := range map[string]struct {
		list []Job
		open bool
		want string // families with their size; ! is open
	}{
		"three":                              {of(abc...), false, "roll.* 3"},
		"two":                                {of("roll.a", "roll.b"), false, "roll.a roll.b"},
		"between others":                     {of("a", "roll.a", "roll.b", "roll.c", "z"), false, "a roll.* 3 z"},
		"long items":                         {of("roll-eu-1", "roll-eu-2", "roll-us-1"), false, "roll-* 3"},
		"no separator":                       {of("rolla", "rollb", "rollc"), false, "rolla rollb rollc"},
		"two families":                       {of("a.1", "a.2", "a.3", "b.1", "b.2", "b.3"), false, "a.* 3 b.* 3"},
		"filtered":                           {of(abc...), true, "roll.* 3!"},
		"failed":                             {changed(run(jobs.TimedOut), abc...), false, "roll.* 3!"},
		"succeeded":                          {changed(run(jobs.Succeeded), abc...), false, "roll.* 3"},
		"other schedule":                     {changed(func(j *Job) { j.Schedule = "@hourly" }, abc...), false, "roll.a roll.b roll.c"},
		"other group":                        {changed(func(j *Job) { j.Group = "g" }, abc...), false, "roll.a roll.b roll.c"},
		"other words":                        {changed(func(j *Job) { j.Description = "y" }, abc...), false, "roll.a roll.b roll.c"},
		"waits":                              {changed(outcomes(waits), abc...), false, "roll.* 3!"},
		"starts later":                       {changed(outcomes(later), abc...), false, "roll.* 3"},
		"runs, and another run starts later": {changed(outcomes(later, runs), abc...), false, "roll.* 3"},
		"waits, and a newer run has ended":   {changed(outcomes(ended, waits), abc...), false, "roll.* 3!"},
		"no jobs":                            {nil, false, ""},
	} {
		var got []string
		listed := 0
		for _, s := range jobSections(c.list, c.open, noon) {
			listed += len(s.Jobs)
			if s.Family == nil {
				got = append(got, s.Jobs[0].Name)
				continue
			}
			text := fmt.Sprintf("%s %d", s.Family.Name, s.Family.Jobs)
			if s.Family.Open {
				text += "!"
			}
			got = append(got, text)
		}
		if text := strings.Join(got, " "); text != c.want || listed != len(c.list) {
			t.Errorf("%s: got %q with %d jobs, want %q with %d", name, text, listed, c.want,
				len(c.list))
		}
	}
}

// TestFamilyUnfoldsInABrowser opens a family with the keyboard. A refresh
// leaves it open.
func TestFamilyUnfoldsInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := siteIn(t, window, hasty(t, actionOptions(families())).Handler())
	for _, s := range []screen{screens()[0], screens()[3]} {
		visit(t, window, s, site+"/jobs")
		shown := func(name string) bool {
			return evaluate[bool](t, window, `[...document.querySelectorAll("tbody .name")]`+
				`.find((e) => e.textContent === "`+name+`").checkVisibility()`)
		}
		if shown("shard-compact.0") || !shown("tenant-rollup-acme") || !shown("nightly") {
			t.Fatalf("%s: at first, want the jobs of the family with a failure only", s.Name)
		}
		evaluate[bool](t, window, `document.querySelector(".unfold").focus(), window.swapped = 0,
			document.addEventListener("htmx:afterSwap", () => window.swapped++), true`)
		press(t, window, " ")
		if !shown("shard-compact.0") {
			t.Errorf("%s: the family stays closed", s.Name)
		}
		until(t, window, `window.swapped > 0`)
		if !shown("shard-compact.0") {
			t.Errorf("%s: a refresh closes the family", s.Name)
		}
	}
}
