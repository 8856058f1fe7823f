package jobs

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// A firing may be delayed for as long as the jitter. With a shorter deadline it could never begin.
func TestDeadlineIsLongerThanJitter(t *testing.T) {
	everyHour, err := schedule.Parse(schedule.Spec{Every: time.Hour}, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		deadline, jitter time.Duration
		want             string
	}{
		{0, time.Minute, ""},
		{time.Minute, 0, ""},
		{time.Minute + 1, time.Minute, ""},
		{time.Minute, time.Minute, "deadline: more than the jitter of 1m0s, or 0s for none, found 1m0s"},
		{time.Second, time.Minute, "deadline: more than the jitter of 1m0s, or 0s for none, found 1s"},
		{-time.Second, 0, "deadline: 0s for none, or more, found -1s"},
	} {
		j := Job{Name: "job", Schedule: everyHour.WithJitter(c.jitter), Deadline: c.deadline,
			MisfireThreshold: time.Second}
		got := ""
		if _, err := j.Check(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("deadline %s, jitter %s: got %q, want %q", c.deadline, c.jitter, got, c.want)
		}
	}
}
