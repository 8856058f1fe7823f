package engine_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// delayed returns a job that overlaps with itself and whose starts are delayed by at most most.
func delayed(t *testing.T, name string, interval, most time.Duration) jobs.Job {
	t.Helper()
	j := job(t, name, interval)
	j.Schedule, j.Overlap, j.MisfireThreshold = j.Schedule.WithJitter(most), jobs.OverlapAllow,
		2*time.Second
	return j
}

// checkDelays fails the test unless each scheduled time in the interval ran exactly once, right
// after its delay and without the misfire policy. It tolerates some microseconds, the error of
// measured clocks.
func (c *cluster) checkDelays(job string, interval, most time.Duration, from, to time.Time) {
	c.t.Helper()
	started := map[time.Time]time.Time{}
	for _, r := range c.runs(job) {
		if _, twice := started[r.ScheduledAt]; twice || r.State != jobs.Succeeded ||
			r.Reason != "" {
			c.t.Errorf("scheduled time %s: %s %s, twice %v", r.ScheduledAt, r.State, r.Reason,
				twice)
		}
		if r.StartedAt != nil {
			started[r.ScheduledAt] = *r.StartedAt
		}
	}
	for scheduledAt := from.Truncate(interval).Add(interval); scheduledAt.Before(to); scheduledAt =
		scheduledAt.Add(interval) {
		want := scheduledAt.Add(schedule.Jitter(job, scheduledAt, most)).Truncate(time.Microsecond)
		if late := started[scheduledAt.UTC()].Sub(want); want.Before(to) &&
			(late < -time.Millisecond || late > 100*time.Millisecond) {
			c.t.Errorf("scheduled time %s: got start %s, want %s", scheduledAt,
				started[scheduledAt.UTC()], want)
		}
	}
}

func TestJitterDelaysTheStartAndNotTheScheduledTime(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]time.Duration{
		"shorter than the interval":        8 * time.Second,
		"longer than the interval":         time.Minute, // scheduled times overtake each other
		"longer than the threshold by far": 5 * time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				startedAt := time.Now()
				var stops []func()
				for _, replica := range []string{"a", "b", "c"} {
					stops = append(stops,
						c.start(c.options(replica, takes(time.Second),
							delayed(t, "job", 10*time.Second, most))))
				}
				time.Sleep(10 * time.Minute)
				c.checkDelays("job", 10*time.Second, most, startedAt,
					time.Now().Add(-3*time.Second))
				for _, stop := range stops {
					stop()
				}
			})
		})
	}
}

func TestDelaysChangeTheOrderOfStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		stop := c.start(c.options("a", takes(0), delayed(t, "job", 10*time.Second, time.Minute)))
		time.Sleep(10 * time.Minute)
		stop()
		inOrder := slices.IsSortedFunc(c.runs("job"), func(a, b storage.Record) int {
			return a.StartedAt.Compare(*b.StartedAt)
		})
		if inOrder {
			t.Error(
				"scheduled times started in their order, want them in the order of their delays")
		}
	})
}

// A replica that restarts still starts the firings whose delays have not ended.
func TestDelayedScheduledTimesSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		startedAt := time.Now()
		const most = 2 * time.Minute
		for range 4 {
			stop := c.start(c.options("a", takes(0), delayed(t, "job", 10*time.Second, most)))
			time.Sleep(time.Minute)
			stop()
		}
		stop := c.start(c.options("a", takes(0), delayed(t, "job", 10*time.Second, most)))
		time.Sleep(most)
		c.checkDelays("job", 10*time.Second, most, startedAt, time.Now().Add(-3*time.Second))
		stop()
	})
}

// If no replica was live at the start of a delayed firing, it is a misfire once it exceeds the
// threshold. It does not have to exceed the longest delay. Until then it starts.
func TestMisfiresCountFromTheDelayedStart(t *testing.T) {
	for name, test := range map[string]struct {
		late time.Duration
		want string
	}{
		"within the threshold": {20 * time.Second, "succeeded"},
		"after it":             {31 * time.Second, "missed misfire"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				const most, interval = 20 * time.Minute, time.Hour
				j := delayed(t, "job", interval, most)
				j.MisfireThreshold, j.Misfire = 30*time.Second, jobs.MisfireSkip
				stop := c.start(c.options("a", takes(0), j))
				time.Sleep(time.Second)
				stop()
				scheduledAt, start := j.Schedule.NextStart("job", time.Now().Add(interval/2))
				time.Sleep(time.Until(start) + test.late)
				stop = c.start(c.options("a", takes(0), j))
				time.Sleep(8 * time.Second)
				if got := c.outcomes("job"); !slices.Equal(got, []string{test.want}) ||
					!c.runs("job")[0].ScheduledAt.Equal(scheduledAt) {
					t.Errorf("got %v, want that the scheduled time of %s %s", got, scheduledAt,
						test.want)
				}
				stop()
			})
		})
	}
}

func TestUpcomingHasTheDelayedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		j := delayed(t, "job", 10*time.Second, time.Minute)
		replica, stop := c.begin(c.options("a", takes(0), j))
		time.Sleep(3 * time.Minute)
		defer stop()
		from := time.Now()
		got := replica.Upcoming(from, 1)
		if len(got) != 1 || !got[0].Start.Equal(
			got[0].ScheduledAt.Add(schedule.Jitter("job", got[0].ScheduledAt,
				time.Minute))) || !got[0].Start.After(from) {
			t.Fatalf("upcoming %+v", got)
		}
		time.Sleep(time.Until(got[0].Start) + 10*time.Millisecond)
		last := slices.MaxFunc(c.runs("job"), func(a, b storage.Record) int {
			return a.StartedAt.Compare(*b.StartedAt)
		})
		if !last.ScheduledAt.Equal(got[0].ScheduledAt) {
			t.Errorf("started %s, upcoming was %+v", last.ScheduledAt, got[0])
		}
	})
}
