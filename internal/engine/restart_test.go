package engine_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Firings that were scheduled while no replica was live start when a replica starts. Within the
// threshold the misfire policy does not apply.
func TestRestartContinuesFromTheCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, start := newCluster(t), time.Now()
		j := job(t, "job", time.Minute)
		j.Misfire = jobs.MisfireSkip
		stop := c.start(c.options("a", takes(time.Second), j))
		time.Sleep(59 * time.Second)
		stop()
		time.Sleep(2 * time.Second) // a scheduled time passes meanwhile
		for _, name := range []string{"a", "b"} {
			defer c.start(c.options(name, takes(time.Second), j))()
		}
		time.Sleep(2*time.Minute + 10*time.Second)
		records := c.runs("job")
		if got, want := c.outcomes("job"),
			[]string{"succeeded", "succeeded", "succeeded"}; !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		if late := records[0].StartedAt.Sub(start.Add(time.Minute)); late < time.Second ||
			late > 2*time.Second {
			t.Errorf(
				"the first began %s after its scheduled time, want as soon as a replica was up",
				late)
		}
	})
}

// A scheduled time does not start again if it has a run or a misfire, or if it came before the job.
func TestRestartStartsNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		j := job(t, "job", 10*time.Second)
		j.Misfire, j.Overlap = jobs.MisfireSkip, jobs.OverlapAllow
		stop := c.start(c.options("a", takes(0), j))
		time.Sleep(35 * time.Second)
		stop()
		time.Sleep(5 * time.Minute)
		stop = c.start(c.options("a", takes(0), j))
		time.Sleep(time.Second)
		stop() // again, before all misfires are recorded
		o := c.options("b", takes(0), j)
		o.Locker = nil // only the store excludes
		stop = c.start(o)
		time.Sleep(70 * time.Second)
		stop()
		seen := map[time.Time]bool{}
		for _, r := range c.runs("job") {
			if seen[r.ScheduledAt] {
				t.Errorf("scheduled time %s is recorded twice", r.ScheduledAt)
			}
			seen[r.ScheduledAt] = true
			if r.StartedAt != nil && r.StartedAt.Sub(r.ScheduledAt) > j.MisfireThreshold {
				t.Errorf("scheduled time %s: started %s late", r.ScheduledAt,
					r.StartedAt.Sub(r.ScheduledAt))
			}
			if r.State != jobs.Succeeded && r.State != jobs.Missed {
				t.Errorf("scheduled time %s: %s %s", r.ScheduledAt, r.State, r.Reason)
			}
		}
		if len(seen) < 35 {
			t.Errorf("%d scheduled times recorded", len(seen))
		}
	})
}
