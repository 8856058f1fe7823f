package cli

import (
	"regexp"
	"testing"
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
