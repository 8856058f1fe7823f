package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
)

// Scheduled times during the absence of a rolled-back job are not misfires when the job is deployed
// again.
func TestRedeployedJobGetsANewCursor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, start := newCluster(t), time.Now()
		rolled, kept := job(t, "rolled", 10*time.Minute), job(t, "kept", time.Hour)
		rolled.Misfire = jobs.MisfireRunAll
		with, without := []jobs.Job{rolled, kept}, []jobs.Job{kept}
		stop, stopOther := c.start(c.options("a", takes(0), with...)),
			c.start(c.options("b", takes(0), without...))
		time.Sleep(25 * time.Minute)
		stop()
		stop = c.start(c.options("a", takes(0), without...))
		time.Sleep(90 * time.Minute) // 1 h 55 min
		stop()
		stop = c.start(c.options("a", takes(0), with...))
		time.Sleep(20 * time.Minute) // 2 h 15 min
		stop()
		stopOther()
		c.expectScheduledTimes(start, "rolled", 600, 1200, 2*3600, 2*3600+600)
		if n := len(c.runs("rolled")); n != 4 {
			t.Errorf("%d records, want those of its 4 runs", n)
		}
		if n := len(c.runs("kept")); n != 2 {
			t.Errorf("%d runs of the job that was there all the time, want 2", n)
		}
	})
}

// While no replica has the job, free workers of other replicas are not the reason why it does not
// start.
func TestMisfiresOfAJobThatNoLiveReplicaHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		j := job(t, "job", 10*time.Minute)
		j.Misfire, j.MisfireBy.NoWorker = jobs.MisfireSkip, jobs.MisfireSkip
		stopOther := c.start(c.options("b", takes(0)))
		stop := c.start(c.options("a", takes(0), j))
		time.Sleep(5 * time.Minute)
		stop()
		time.Sleep(20 * time.Minute)
		stop = c.start(c.options("a", takes(0), j))
		time.Sleep(10 * time.Second)
		stop()
		stopOther()
		records := c.runs("job")
		if len(records) != 2 {
			t.Fatalf("records: %+v", records)
		}
		for _, r := range records {
			if r.State != jobs.Missed || r.Reason != reasons.Misfire ||
				!strings.Contains(r.Detail, "no replica with the job was up from ") {
				t.Errorf("record: %s %s %q", r.State, r.Reason, r.Detail)
			}
		}
	})
}

// Scheduled times count from a change of the schedule on, even if its text is the same.
func TestCursorMovesWhenScheduledTimesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		j := job(t, "job", time.Hour)
		c.outage(10*time.Minute, j)
		began := time.Now()
		cursor := func() time.Time {
			versions, err := c.store.Versions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return versions["job"].CheckedUntil
		}
		j.Description = "the same"
		c.outage(10*time.Minute, j)
		if cursor().After(began) {
			t.Errorf("the cursor moved to %s with a description", cursor())
		}
		j.Schedule = j.Schedule.WithJitter(time.Minute)
		moved := time.Now()
		c.outage(10*time.Minute, j)
		if cursor().Before(moved) {
			t.Errorf("the cursor is at %s, want it to be where the jitter came into force, %s",
				cursor(), moved)
		}
	})
}
