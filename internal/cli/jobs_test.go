package cli

import (
	"regexp"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestJobsMarksPausedJobs checks that tables of jobs show which jobs are paused.
func TestJobsMarksPausedJobs(t *testing.T) {
	config := explainedStore(t)
	runs(t, config, "pause", "nightly")
	for _, format := range []string{"table", "wide"} {
		out := runs(t, config, "jobs", "-o", format)
		for _, want := range []string{`nightly .*Z \(paused\)  .*`, `report .*Z +never`} {
			if found, _ := regexp.MatchString(`(?m)^`+want+`$`, out); !found {
				t.Errorf("-o %s: want a line %s in\n%s", format, want, out)
			}
		}
	}
}

// TestJobsMarksAbsentJobs checks that the mark of a job that no live replica has replaces that of a
// pause.
func TestJobsMarksAbsentJobs(t *testing.T) {
	job := admin.Job{AbsentSince: &time.Time{}, Pauses: []storage.Pause{{}}}
	if got, want := nextScheduled(job), "- (on no replica)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
