package charts

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestScatter draws a skip between a run of 4 s, that started 2 s late, and a failed run of 8 s.
func TestScatter(t *testing.T) {
	outcome := func(minute int, state jobs.State, delay, took time.Duration) storage.Outcome {
		o := storage.Outcome{Run: uuid.UUID{byte(minute)}, State: state,
			ScheduledAt: noon.Add(time.Duration(minute) * time.Minute)}
		if took > 0 {
			started := o.ScheduledAt.Add(delay)
			ended := started.Add(took)
			o.StartedAt, o.FinishedAt = &started, &ended
		}
		return o
	}
	last := outcome(20, jobs.Failed, 0, 8*time.Second)
	s := NewScatter("a", []storage.Outcome{last, outcome(10, jobs.Skipped, 0, 0),
		outcome(0, jobs.Succeeded, 2*time.Second, 4*time.Second)}, noon)
	if len(s.Duration.Points) != 2 || len(s.Duration.Marks) != 1 || len(s.Delay.Points) != 2 ||
		len(s.Delay.Marks) != 0 || len(s.Rows) != 3 {
		t.Fatalf("got %+v", s)
	}
	point, mark := s.Duration.Points[1], s.Duration.Marks[0]
	if point.X != 98.5 || point.Y != 32 || point.State != jobs.Failed ||
		point.Path != "/runs/"+last.Run.String() ||
		!strings.HasSuffix(point.Title, "failed after 8.0 s") {
		t.Errorf("the failed run is %+v", point)
	}
	if mark.X != 50 || mark.State != jobs.Skipped || s.Delay.Points[0].Y != scatterTop {
		t.Errorf("the skip is %+v, the delays are %+v", mark, s.Delay.Points)
	}
	if s.Duration.Levels[0] != (ScatterLevel{scatterTop, "10 s"}) ||
		s.Duration.Words != "2 runs: 8.0 s at the median, 8.0 s at the longest, 1 skipped" {
		t.Errorf("words are %q, levels %v", s.Duration.Words, s.Duration.Levels)
	}
	if row := s.Rows[2]; row.Delay != "2.0 s" || row.Duration != "4.0 s" ||
		!strings.HasPrefix(row.Explain, "/jobs/a/explain?at=") {
		t.Errorf("the oldest row is %+v", row)
	}
	if NewScatter("a", []storage.Outcome{last}, noon) != nil {
		t.Error("one run is drawn")
	}
}

// TestScalesOfScatter checks that labels fit for all lengths of time.
func TestScalesOfScatter(t *testing.T) {
	for length := time.Millisecond; length < 50*365*24*time.Hour; length = length*5/4 + 1 {
		if top := roundLength(length); top < length || top > max(10*time.Millisecond, length*5/2) {
			t.Errorf("%s is rounded to %s", length, top)
		}
		step := scatterStep(length)
		if n := length / step; step <= 0 || n > 6 {
			t.Errorf("%s has %d steps of %s", length, n, step)
		}
	}
}
