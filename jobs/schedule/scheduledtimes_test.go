package schedule

import (
	"slices"
	"testing"
	"time"
)

func TestScheduledTimesOfJobsThatFollowOthers(t *testing.T) {
	parse := func(s Spec) Schedule {
		parsed, err := Parse(s, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	schedules := map[string]Schedule{
		"hourly": parse(Spec{Cron: "0 * * * *"}), "halves": parse(Spec{Cron: "*/30 * * * *"}), "threes": parse(Spec{Cron: "0 */3 * * *"}),
		"one": parse(Spec{After: []string{"hourly"}}), "all": parse(Spec{After: []string{"halves", "one", "threes"}}),
		"chain": parse(Spec{After: []string{"all"}}), "never": parse(Spec{After: []string{"odd", "hourly"}}), "odd": parse(Spec{Cron: "1 * * * *"}),
		"a": parse(Spec{After: []string{"b"}}), "b": parse(Spec{After: []string{"a"}}), "unknown": parse(Spec{After: []string{"nobody"}}), "manual": {},
	}
	from := time.Date(2026, 3, 1, 1, 0, 0, 0, time.UTC)
	for job, want := range map[string][]int{
		"hourly": {2, 3}, "one": {2, 3}, "all": {3, 6}, "chain": {3, 6}, "never": nil, "a": nil, "unknown": nil, "manual": nil, "none": nil,
	} {
		var hours []int
		for _, scheduledAt := range ScheduledTimes(schedules, job, from, 2) {
			hours = append(hours, scheduledAt.Hour())
		}
		if !slices.Equal(hours, want) {
			t.Errorf("%s: got scheduled times %v, want %v", job, hours, want)
		}
	}
}
