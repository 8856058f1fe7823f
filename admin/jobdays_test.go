package admin

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestCalendarOfReadRuns counts runs by the days of the job's zone. 23:30 UTC is on the next day in
// Berlin. If the bound is reached, the oldest day is not counted completely.
func TestCalendarOfReadRuns(t *testing.T) {
	view := job("a", "30 * * * *")
	outcomes := []storage.Outcome{
		{ScheduledAt: noon.Add(-time.Hour), State: jobs.Running},
		{ScheduledAt: time.Date(2026, 3, 12, 23, 30, 0, 0, time.UTC), State: jobs.Failed},
		{ScheduledAt: time.Date(2026, 3, 12, 22, 30, 0, 0, time.UTC), State: jobs.Succeeded},
	}
	for bound, want := range map[int]string{
		2000: "11 unknown , 12 good 1, 13 bad ×1, 14 none ",
		3:    "11 unknown , 12 unknown 1+, 13 bad ×1, 14 none ",
	} {
		c := calendarOf(view, outcomes, bound, noon)
		var got []string
		for _, day := range c.Weeks[len(c.Weeks)-1][2:6] {
			got = append(got, day.Name+" "+day.Class+" "+day.Mark)
		}
		if text := strings.Join(got, ", "); text != want || c.Zone != "Europe/Berlin" {
			t.Errorf("with a bound of %d: %s in %s, want %s", bound, text, c.Zone, want)
		}
	}
	view.Zone = "Moon/Base"
	if c := calendarOf(view, outcomes, 2000, noon); c.Zone != "UTC" {
		t.Errorf("the zone is %s, want UTC", c.Zone)
	}
}

// TestPickedTimesAreExplained sends what a browser sends for a picked time: the fields of the form,
// without a zone on the page of the job, and in the zone of the page on that of an explanation.
func TestPickedTimesAreExplained(t *testing.T) {
	handler := newServer(t, busy()).Handler()
	for query, want := range map[string]string{
		"?at=2026-03-14T02:30":             "2026-03-14T01:30:00Z", // in the job's zone
		"?at=2026-03-14T02:30:15&zone=UTC": "2026-03-14T02:30:15Z",
		"?at=2026-03-14T02:30:15Z":         "2026-03-14T02:30:15Z",
	} {
		reply := get(t, handler, "/jobs/prune-orders/explain"+query)
		if body := reply.Body.String(); reply.Code != http.StatusOK ||
			!strings.Contains(body, `<time class="clock" datetime="`+want) {
			t.Errorf("%s: %d, page lacks %s", query, reply.Code, want)
		}
	}
}
