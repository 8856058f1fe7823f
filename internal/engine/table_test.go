package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// Replicas with different calendars or policies must see that their definitions of a job differ.
func TestDefinitionCoversScheduledTimes(t *testing.T) {
	daily, err := schedule.ParseText("30 2 * * *", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	holidays := func(date string) *schedule.Calendar {
		c, err := schedule.NewCalendar(schedule.CalendarSpec{Name: "holidays",
			Exclude: schedule.TimesSpec{Dates: []string{date}}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	seen := map[string]int{}
	for i, s := range []schedule.Schedule{
		daily, daily.WithClockChanges(schedule.ClockChanges{Skip: true}),
		daily.WithClockChanges(schedule.ClockChanges{Both: true}),
		daily.WithJitter(time.Minute), daily.WithCalendars(holidays("12-24")),
		daily.WithCalendars(holidays("12-25")),
	} {
		d, err := storage.Define(jobs.Job{Name: "a", Schedule: s}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if first, twice := seen[d.Hash]; twice {
			t.Errorf("schedules %d and %d have one hash", first, i)
		}
		seen[d.Hash] = i
		if d.Schedule != "30 2 * * *" {
			t.Errorf("schedule %d is shown as %q", i, d.Schedule)
		}
	}
}

func TestMistakesInDependencies(t *testing.T) {
	registry, err := jobs.NewRegistry(jobs.Handle("work",
		func(context.Context, *jobs.Run, struct{}) error {
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		schedules map[string]string
		want      string // of the error, by line
	}{
		"none":           {map[string]string{"extract": "@daily", "load": "after:extract", "report": "after:extract,load"}, ""},
		"unknown":        {map[string]string{"extract": "@daily", "load": "after:extrct"}, `job "load": schedule: after: unknown job "extrct"; did you mean "extract"?`},
		"itself":         {map[string]string{"load": "after:load"}, `job "load": schedule: after: found the job itself, expected others`},
		"only triggered": {map[string]string{"extract": "", "load": "after:extract"}, `job "load": schedule: after: found job "extract", which has no schedule: it is only triggered, and has no scheduled times for dependents`},
		"a cycle":        {map[string]string{"a": "after:b", "b": "after:c", "c": "after:a", "d": "after:a"}, `job "a": schedule: after: found jobs that wait for each other: a after b after c after a, expected no cycle`},
		"two cycles": {map[string]string{"a": "after:b", "b": "after:a", "c": "after:d",
			"d": "after:c"}, `job "a": schedule: after: found jobs that wait for each other: a after b after a, expected no cycle
job "c": schedule: after: found jobs that wait for each other: c after d after c, expected no cycle`},
	} {
		t.Run(name, func(t *testing.T) {
			var table []jobs.Job
			for job, text := range c.schedules {
				j := jobs.Job{Name: job, Handler: "work", MisfireThreshold: time.Second}
				if text != "" {
					if j.Schedule, err = schedule.ParseText(text, time.UTC); err != nil {
						t.Fatal(err)
					}
				}
				table = append(table, j)
			}
			_, err := newCronTable(registry, nil, table)
			if found := fmt.Sprint(err); found != c.want && (err != nil || c.want != "") {
				t.Errorf("found\n%s\nexpected\n%s", found, c.want)
			}
		})
	}
}

// longestWait returns the total delay of the wait policy. It returns its argument if the job waits
// on, and nothing if other replicas fire the job.
func TestRetryPolicyOfTheWaitPolicy(t *testing.T) {
	registry, err := jobs.NewRegistry(jobs.Handle("work",
		func(context.Context, *jobs.Run, struct{}) error {
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	wait := retry.Policy{Attempts: 4, Delay: time.Second}
	table, err := newCronTable(registry, nil, []jobs.Job{
		{Name: "skips", Handler: "work", Wait: wait, MisfireThreshold: time.Minute}, {Name: "waits on", Handler: "work", Wait: wait, MisfireThreshold: time.Minute, MisfireBy: jobs.MisfireRules{LockHeld: jobs.MisfireRunOnce}},
		{Name: "elsewhere", Handler: "work", Wait: wait, MisfireThreshold: time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	table.get("elsewhere").activeVersion.active.Store(7)
	for name, want := range map[string]time.Duration{"skips": 3 * time.Second,
		"waits on": time.Hour, "elsewhere": -1, "nobody": -1} {
		got, known := table.longestWait(name, time.Hour)
		if !known {
			got = -1
		}
		if got != want {
			t.Errorf("%s waits for %s, want %s", name, got, want)
		}
	}
}

// TestMiddlewareIsCalledForOneJobAtATime counts the calls of a middleware without a lock. The jobs
// are bound concurrently, and the race detector would report concurrent calls.
func TestMiddlewareIsCalledForOneJobAtATime(t *testing.T) {
	registry, err := jobs.NewRegistry(jobs.Handle("work",
		func(context.Context, *jobs.Run, struct{}) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	list := make([]jobs.Job, 1_000)
	for i := range list {
		list[i] = jobs.Job{Name: fmt.Sprint("job ", i), Handler: "work",
			MisfireThreshold: time.Minute}
	}
	calls := 0
	middleware := []jobs.Middleware{func(next jobs.HandlerFunc) jobs.HandlerFunc {
		calls++
		return next
	}}
	table, err := newCronTable(registry, middleware, list)
	if err != nil {
		t.Fatal(err)
	}
	if calls != len(list) || table.len() != len(list) {
		t.Errorf("got %d calls for %d jobs, want %d", calls, table.len(), len(list))
	}
}

// TestJobOfAReloadIsAssumedToBeLikeTheOthers calls a handler, and adds another job after that.
func TestJobOfAReloadIsAssumedToBeLikeTheOthers(t *testing.T) {
	registry, err := jobs.NewRegistry(jobs.Handle("work",
		func(context.Context, *jobs.Run, struct{}) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	var tables [2]*cronTable
	list := []jobs.Job{{Name: "old", Handler: "work", MisfireThreshold: time.Minute},
		{Name: "new", Handler: "work", MisfireThreshold: time.Minute}}
	for i := range tables {
		if tables[i], err = newCronTable(registry, nil, list[:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	table := tables[0]
	table.revise(tables[1].all())
	if table.get("new").quickness.isQuick() {
		t.Error("the new job is quick before any call")
	}
	table.get("old").quickness.add(time.Millisecond)
	if !table.get("new").quickness.isQuick() {
		t.Error("the new job is not quick, but the first call of the other one was")
	}
}
