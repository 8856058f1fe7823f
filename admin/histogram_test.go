package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// quartersUntil returns the quarters of an hour of the last 20 hours. Each hour has failures, and
// one hour has skips and long start delays.
func quartersUntil(now time.Time) (quarters []storage.Quarter) {
	last := storage.QuarterOf(now)
	for i := range 80 {
		q := storage.Quarter{From: last.Add(-time.Duration(79-i) * storage.QuarterLength),
			Runs: map[jobs.State]int{jobs.Succeeded: 150 + i*37%60}}
		q.Delays[i%3] = q.Runs[jobs.Succeeded]
		if i%4 == 2 {
			q.Runs[jobs.Failed], q.Runs[jobs.TimedOut] = 1, i/40
		}
		if i/8 == 6 {
			q.Runs[jobs.Skipped], q.Runs[jobs.Missed] = 9+i%4, 2
			q.Delays[10] = 20
		}
		if i == 30 {
			q.Runs[jobs.Cancelled] = 1
		}
		quarters = append(quarters, q)
	}
	quarters[79].Runs = map[jobs.State]int{jobs.Succeeded: 31}
	quarters[79].Delays = storage.Delays{31}
	return quarters
}

func TestHistogramOfTheOverview(t *testing.T) {
	o := calm()
	h := o.Store.(*history)
	at := func(hour, minute int) time.Time {
		return time.Date(2026, 3, 14, hour, minute, 0, 0, time.UTC)
	}
	h.quarters = []storage.Quarter{
		{From: at(1, 15), Runs: map[jobs.State]int{jobs.Succeeded: 90, jobs.Failed: 2, jobs.Lost: 1,
			jobs.Skipped: 4}, Delays: storage.Delays{3: 80, 6: 13}},
		{From: at(3, 0), Runs: map[jobs.State]int{jobs.Succeeded: 1}, Delays: storage.Delays{15: 1}},
		{From: at(3, 15), Runs: map[jobs.State]int{jobs.Succeeded: 7}}, // after now
		{From: at(3, 0).Add(-24 * time.Hour), Runs: map[jobs.State]int{jobs.Succeeded: 7}},
	}
	handler := newServer(t, o).Handler()
	var overview Overview
	if err := json.Unmarshal(get(t, handler, "/api/v1/overview").Body.Bytes(),
		&overview); err != nil {
		t.Fatal(err)
	}
	got := overview.Histogram
	if !got.From.Equal(at(3, 15).Add(-24*time.Hour)) || !got.Until.Equal(at(3, 15)) ||
		len(got.Quarters) != 96 {
		t.Fatalf("%d quarters from %s to %s", len(got.Quarters), got.From, got.Until)
	}
	var runs int
	for i, q := range got.Quarters {
		if want := got.From.Add(time.Duration(i) * storage.QuarterLength); !q.From.Equal(want) {
			t.Errorf("quarter %d is from %s, want %s", i, q.From, want)
		}
		for _, n := range q.Runs {
			runs += n
		}
		if len(q.Runs) == 0 && (q.Runs == nil || q.StartDelay != nil) {
			t.Errorf("empty quarter %+v", q)
		}
	}
	busy, last := got.Quarters[88], got.Quarters[95]
	if runs != 98 || !busy.From.Equal(at(1, 15)) || busy.Runs[jobs.Failed] != 2 ||
		busy.StartDelay == nil || *busy.StartDelay != 1 || busy.StartDelayAbove ||
		*last.StartDelay != 3600 || !last.StartDelayAbove {
		t.Errorf("%d runs; quarters %+v, %+v", runs, busy, last)
	}

	page := get(t, handler, "/").Body.String()
	for _, want := range []string{"98, at most 97 in 15 min", "3 failed, 4 skipped",
		"highest: more than 1 h",
		"2026-03-14 01:15:00 UTC, 15 min: 90 succeeded, 2 failed, 1 lost, 4 skipped",
		"2026-03-14 01:15:00 UTC, 15 min: at most 1.0 s"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// Each bar and each number of the table links to a list with that number of runs.
func TestHistogramLeadsToItsRuns(t *testing.T) {
	o := calm()
	h := o.Store.(*history)
	counts := map[jobs.State]int{jobs.Succeeded: 3, jobs.Failed: 2, jobs.TimedOut: 1,
		jobs.Skipped: 2, jobs.Missed: 1, jobs.Cancelled: 1}
	from := storage.QuarterOf(noon.Add(-3 * time.Hour))
	h.quarters = []storage.Quarter{{From: from, Runs: counts, Delays: storage.Delays{2: 7}}}
	h.runs = nil
	for state, n := range counts {
		for i := range n {
			r := done(100*len(h.runs)+i, "job", "replica-1", time.Hour, time.Second, state)
			r.CreatedAt = from.Add(time.Duration(i) * 5 * time.Minute)
			outside := r
			outside.ID, outside.CreatedAt = id(50_000+len(h.runs)), from.Add(time.Hour)
			h.runs = append(h.runs, r, outside)
		}
	}
	handler := newServer(t, o).Handler()
	page := get(t, handler, "/").Body.String()
	found := 0
	for _, link := range regexp.MustCompile(`href="(/runs\?from=[^"]*until=[^"]*)"`).
		FindAllStringSubmatch(page, -1) {
		address, err := url.Parse(strings.ReplaceAll(link[1], "&amp;", "&"))
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for state := range strings.SplitSeq(address.Query().Get("state"), ",") {
			want += counts[jobs.State(state)]
		}
		reply := get(t, handler, "/api/v1"+address.String())
		var list []storage.Record
		if err := json.Unmarshal(reply.Body.Bytes(), &list); err != nil ||
			reply.Code != http.StatusOK {
			t.Fatalf("%s: got %d (%v), want 200 and JSON", link[1], reply.Code, err)
		}
		if len(list) != want {
			t.Errorf("%s has %d runs, want %d", link[1], len(list), want)
		}
		found++
	}
	if found != 4+4 { // bars of all runs, failed, skipped and delayed ones, and cells of the hour
		t.Errorf("%d links, want 8", found)
	}
}

// The charts have the same height with and without runs, so that an update does not move the page.
func TestHistogramKeepsItsHeight(t *testing.T) {
	heights := func(o Options) string {
		page := get(t, newServer(t, o).Handler(), "/").Body.String()
		return fmt.Sprint(regexp.MustCompile(`class="chart columns" width="100%" height="\d+"`).
			FindAllString(page, -1))
	}
	without, with := heights(empty()), heights(contention())
	if without != with || strings.Count(with, "columns") != 3 {
		t.Errorf("charts %s without runs, %s with", without, with)
	}
}
