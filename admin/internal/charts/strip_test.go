package charts

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/markup"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestStrip draws a run that succeeded and one that was skipped before it. The text of a reason
// that a newer version wrote is escaped.
func TestStrip(t *testing.T) {
	at := time.Date(2026, 3, 14, 3, 0, 0, 0, time.UTC)
	end := at.Add(90 * time.Second)
	var got, many markup.Builder
	AddStrip(&got, []storage.Outcome{
		{ScheduledAt: at, State: jobs.Succeeded, StartedAt: &at, FinishedAt: &end},
		{ScheduledAt: at.Add(-time.Hour), State: jobs.Skipped, Reason: reasons.LockHeld},
		{ScheduledAt: at.Add(-2 * time.Hour), State: jobs.Failed, Reason: "<b>&"},
	})
	want := `<svg class="spark" viewBox="0 0 100 18" role="img" ` +
		`aria-label="last 3 runs: 1 succeeded, 1 failed, 1 skipped">` +
		`<rect x="95"><title>2026-03-14 03:00:00 UTC succeeded after 1 min 30 s</title></rect>` +
		`<rect class="skipped" x="90"><title>2026-03-14 02:00:00 UTC skipped: a resource is ` +
		`held</title></rect>` +
		`<rect class="failed" x="85"><title>2026-03-14 01:00:00 UTC failed: &lt;b&gt;&amp;` +
		`</title></rect></svg>`
	if got.String() != want {
		t.Errorf("got  %s\nwant %s", got.String(), want)
	}
	AddStrip(&many, make([]storage.Outcome, 30))
	if drawn := many.String(); !strings.Contains(drawn, `viewBox="0 0 150 18"`) ||
		!strings.Contains(drawn, ` x="0"`) {
		t.Errorf("30 outcomes: got %s", drawn)
	}
}
