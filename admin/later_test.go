package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestPagesSayWhenARunStarts shows a run that was triggered for a later time. Pages of runs say
// when it starts, and pages of the present leave it out.
func TestPagesSayWhenARunStarts(t *testing.T) {
	at := noon.Add(3 * time.Hour)
	later := storage.Record{ID: id(70), Job: "rollup-sales", Key: "k", ScheduledAt: at,
		WaitSince: at, CreatedAt: ago(time.Minute), State: jobs.Waiting,
		Reason: reasons.Triggered, Detail: "triggered by anna"}
	handler := newServer(t, options(&history{now: noon, runs: []storage.Record{later}})).Handler()
	for path, want := range map[string]string{
		"/runs": `> starts <time`, "/runs?state=waiting": `> starts <time`,
		"/jobs/rollup-sales": `> starts <time`, param.RunPath(later.ID): `, starts <time`,
	} {
		body := flat(get(t, handler, path).Body.String())
		if !strings.Contains(body, want) || strings.Contains(body, "waits for <time") {
			t.Errorf("%s lacks %q", path, want)
		}
	}
	body := flat(get(t, handler, param.RunPath(later.ID)).Body.String())
	for _, want := range []string{"Triggered for <time", "Triggered for this time",
		"<strong>Starts</strong>"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page of the run lacks %q", want)
		}
	}
	if overview := answered[Overview](t, get(t, handler, "/api/v1/overview"), 200); len(
		overview.Waiting) != 0 {
		t.Errorf("the overview has the waiting runs %+v, want none", overview.Waiting)
	}
}
