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
// Berlin. If the bound is reached, the store counts the oldest day and the days before.
func TestCalendarOfReadRuns(t *testing.T) {
	view := job("a", "30 * * * *")
	outcomes := []storage.Outcome{
		{ScheduledAt: noon.Add(-time.Hour), State: jobs.Running},
		{ScheduledAt: time.Date(2026, 3, 12, 23, 30, 0, 0, time.UTC), State: jobs.Failed},
		{ScheduledAt: time.Date(2026, 3, 12, 22, 30, 0, 0, time.UTC), State: jobs.Succeeded},
	}
	h := &history{now: noon}
	add := func(day, n int, state jobs.State) {
		for range n {
			at := time.Date(2026, 3, day, 10, 0, len(h.runs)%60, 0, time.UTC)
			h.runs = append(h.runs, storage.Record{ID: id(len(h.runs)), Job: "a", State: state,
				ScheduledAt: at, CreatedAt: at.Add(time.Second)})
		}
	}
	add(12, 40, jobs.Succeeded)
	add(12, 1, jobs.Running)
	add(11, 3, jobs.Skipped)
	add(11, 30, jobs.Succeeded)
	add(10, maxOfDay+1, jobs.Succeeded)
	add(10, 2, jobs.TimedOut)
	r := newReader(options(h))
	for bound, want := range map[int]string{
		2000: "9 unknown , 10 unknown , 11 unknown , 12 good 1, 13 bad ×1, 14 none ",
		3:    "9 unknown , 10 bad ×2+, 11 warn many –\u00a03, 12 good 40, 13 bad ×1, 14 none ",
	} {
		c, err := r.days.calendar(t.Context(), view, outcomes, bound, noon)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, day := range c.Weeks[len(c.Weeks)-1][:6] {
			got = append(got, day.Name+" "+day.Class+" "+day.Mark)
		}
		if text := strings.Join(got, ", "); text != want || c.Zone != "Europe/Berlin" {
			t.Errorf("with a bound of %d: %s in %s, want %s", bound, text, c.Zone, want)
		}
	}
	view.Zone = "Moon/Base"
	if c, err := r.days.calendar(t.Context(), view, outcomes, 2000, noon); err != nil ||
		c.Zone != "UTC" {
		t.Errorf("the zone is %s, want UTC", c.Zone)
	}
}

// TestCountedDays counts the runs of a job in a zone whose clocks have skipped midnight. Requests
// for the same days share one query.
func TestCountedDays(t *testing.T) {
	view := job("a", "30 * * * *")
	view.Zone = "America/Santiago"
	now := time.Date(2026, 9, 6, 16, 0, 0, 0, time.UTC) // the day began at 01:00, at 04:00 UTC
	h := &history{now: now}
	for i, minutes := range []int{-90, -30, 30} { // before and after the day began
		at := time.Date(2026, 9, 6, 4, minutes, 0, 0, time.UTC)
		h.runs = append(h.runs, storage.Record{ID: id(i), Job: "a", State: jobs.Failed,
			ScheduledAt: at, CreatedAt: at})
	}
	r := newReader(options(h))
	outcomes := []storage.Outcome{{ScheduledAt: now.Add(-time.Hour), State: jobs.Succeeded}}
	for range 2 {
		c, err := r.days.calendar(t.Context(), view, outcomes, 1, now)
		if err != nil {
			t.Fatal(err)
		}
		week := c.Weeks[len(c.Weeks)-1]
		for place, want := range map[int]string{5: "5 bad ×2", 6: "6 bad ×1"} {
			if got := week[place].Name + " " + week[place].Class + " " +
				week[place].Mark; got != want {
				t.Errorf("day %d of the week: got %q, want %q", place, got, want)
			}
		}
	}
	if len(h.counted) != 1 {
		t.Errorf("the runs were counted %d times, want once", len(h.counted))
	}
}

// TestPickedTimesAreExplained sends what a browser sends for a picked time, with and without a
// script, and a time without a zone.
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
