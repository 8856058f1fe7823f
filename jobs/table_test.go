package jobs

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// TestDefinitionCoversDues holds that replicas whose calendars or policies
// differ know that they have different definitions of a job.
func TestDefinitionCoversDues(t *testing.T) {
	daily, err := schedule.ParseText("30 2 * * *", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	holidays := func(date string) *schedule.Calendar {
		c, err := schedule.NewCalendar(schedule.CalendarSpec{Name: "holidays", Exclude: schedule.TimesSpec{Dates: []string{date}}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	seen := map[string]int{}
	for i, s := range []schedule.Schedule{
		daily, daily.WithClockChanges(schedule.ClockChanges{Skip: true}), daily.WithClockChanges(schedule.ClockChanges{Both: true}),
		daily.WithJitter(time.Minute), daily.WithCalendars(holidays("12-24")), daily.WithCalendars(holidays("12-25")),
	} {
		d, err := define(Job{Name: "a", Schedule: s}, nil)
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

func TestSchedulesThatAreNotFiredAreRefused(t *testing.T) {
	after, err := schedule.ParseText("after: a", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	daily, err := schedule.ParseText("30 2 * * *", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	for what, s := range map[string]schedule.Schedule{"after": after} {
		if err := fireable(s); !errors.Is(err, errNotFired) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := fireable(daily); err != nil {
		t.Error(err)
	}
}
