package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestActiveRunOfAJob checks which run a row of the list shows: a running run comes before a
// waiting one, and before newer runs that were skipped.
func TestActiveRunOfAJob(t *testing.T) {
	of := func(state jobs.State, age time.Duration) storage.Outcome {
		o := storage.Outcome{State: state, ScheduledAt: noon.Add(-age)}
		if state == jobs.Running {
			o.StartedAt = pointer(o.ScheduledAt.Add(time.Second))
		}
		return o
	}
	for name, c := range map[string]struct {
		outcomes []storage.Outcome // the newest first
		want     string
	}{
		"no runs":                 {nil, ""},
		"ended":                   {[]storage.Outcome{of(jobs.Failed, time.Minute)}, ""},
		"running behind skipped":  {[]storage.Outcome{of(jobs.Skipped, 0), of(jobs.Running, time.Hour)}, "running 59m59s"},
		"waiting":                 {[]storage.Outcome{of(jobs.Waiting, time.Minute), of(jobs.Waiting, time.Hour)}, "waiting 1m0s"},
		"running behind waiting":  {[]storage.Outcome{of(jobs.Waiting, time.Minute), of(jobs.Running, time.Hour)}, "running 59m59s"},
		"triggered for the night": {[]storage.Outcome{of(jobs.Waiting, -time.Hour), of(jobs.Succeeded, time.Hour)}, ""},
	} {
		got := ""
		if active := newActiveRun(c.outcomes, noon); active != nil {
			got = string(active.State) + " " + noon.Sub(active.Since).String()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestJobsShowActiveRuns checks the rows of jobs with an active run, and the link that triggers a
// job.
func TestJobsShowActiveRuns(t *testing.T) {
	handler := newServer(t, actionOptions(contention())).Handler()
	body := flat(get(t, handler, "/jobs?text=rollup-sales").Body.String())
	for _, want := range []string{`class="badge running">running</a>`, `<span class="sub tight">for `,
		`href="/jobs/rollup-sales/trigger"> Run now<span class="hidden">: rollup-sales</span>`} {
		if !strings.Contains(body, want) {
			t.Errorf("the list lacks %s", want)
		}
	}
}
