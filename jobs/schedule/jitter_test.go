package schedule_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// The expected delays are constants, because an old and a new version of Holdfast must compute the
// same delay.
func TestJitterIsStable(t *testing.T) {
	scheduledAt := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)
	for job, want := range map[string]time.Duration{"rollup-sales": 12_889_414_940,
		"a": 30_166_172_137, "": 17_362_493_139} {
		got := schedule.Jitter(job, scheduledAt, time.Minute)
		if got != want {
			t.Errorf("%q: %d, want %d", job, got, want)
		}
		if there := schedule.Jitter(job, scheduledAt.In(time.FixedZone("", 3600)),
			time.Minute); there != got {
			t.Errorf("%q: %s in another zone", job, there)
		}
	}
}

// The test counts delays in tenths of the maximum: over the scheduled times of one job, and over
// the jobs of one scheduled time.
func TestJitterIsSpread(t *testing.T) {
	const most, n = 10 * time.Second, 10_000
	scheduledAt := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)
	for name, delay := range map[string]func(i int) time.Duration{
		"scheduled_times": func(i int) time.Duration {
			return schedule.Jitter("a", scheduledAt.Add(time.Duration(i)*time.Minute), most)
		},
		"jobs": func(i int) time.Duration { return schedule.Jitter(fmt.Sprintf("job-%d", i), scheduledAt, most) },
	} {
		var tenths [10]int
		for i := range n {
			d := delay(i)
			if d < 0 || d >= most {
				t.Fatalf("%s: %s is not from 0 to %s", name, d, most)
			}
			tenths[d/time.Second]++
		}
		for i, count := range tenths {
			if count < n/10*85/100 || count > n/10*115/100 {
				t.Errorf("%s: %d of %d delays in tenth %d", name, count, n, i)
			}
		}
	}
}

func TestJitterOfSchedule(t *testing.T) {
	scheduledAt := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)
	s := parse(t, "@daily", time.UTC)
	if s.Delay("a", scheduledAt) != 0 || s.MaxDelay() != 0 {
		t.Errorf("delayed by %s of %s", s.Delay("a", scheduledAt), s.MaxDelay())
	}
	late := s.WithJitter(time.Hour)
	if late.Delay("a", scheduledAt) != schedule.Jitter("a", scheduledAt, time.Hour) ||
		late.MaxDelay() != time.Hour {
		t.Errorf("delayed by %s of %s", late.Delay("a", scheduledAt), late.MaxDelay())
	}
	if late.Next(scheduledAt) != s.Next(scheduledAt) {
		t.Errorf("got scheduled time %s, want %s", late.Next(scheduledAt), s.Next(scheduledAt))
	}
	if got := schedule.Jitter("a", scheduledAt, -1); got != 0 {
		t.Errorf("delayed by %s of less than nothing", got)
	}
}

// The expected values are all starts of some hours, sorted.
func TestNextStart(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, text := range []string{"every:10s", "*/5 * * * *", "0 * * * *", "@daily"} {
		for _, most := range []time.Duration{0, 3 * time.Second, time.Minute, 2 * time.Hour} {
			s := parse(t, text, time.UTC).WithJitter(most)
			type start struct{ scheduledAt, at time.Time }
			var all []start
			for _, scheduledAt := range s.Upcoming(from.Add(-most), 3000) {
				all = append(all, start{scheduledAt, scheduledAt.Add(s.Delay("a", scheduledAt))})
			}
			slices.SortFunc(all, func(a, b start) int { return a.at.Compare(b.at) })
			for after := from; after.Before(from.Add(5 * time.Hour)); after =
				after.Add(7 * time.Minute) {
				i := slices.IndexFunc(all, func(s start) bool { return s.at.After(after) })
				if scheduledAt, at := s.NextStart("a", after); scheduledAt != all[i].scheduledAt ||
					at != all[i].at {
					t.Fatalf("%s by %s, after %s: %s at %s, want %s at %s", text, most, after,
						scheduledAt, at, all[i].scheduledAt, all[i].at)
				}
			}
		}
	}
	never := parse(t, "at:2026-01-01T00:00:00Z", time.UTC).WithJitter(time.Minute)
	if scheduledAt, at := never.NextStart("a", from.Add(time.Minute)); !scheduledAt.IsZero() ||
		!at.IsZero() {
		t.Errorf("got %s at %s", scheduledAt, at)
	}
	if scheduledAt, _ := never.NextStart("a", from.Add(time.Second)); scheduledAt != from {
		t.Errorf("got %s, want the scheduled time whose delay goes on", scheduledAt)
	}
}
