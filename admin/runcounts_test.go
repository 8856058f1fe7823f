package admin

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// countedRuns is a cluster with counted runs, one of which is running.
func countedRuns() Options {
	o := calm()
	h := o.Store.(*history)
	quarter := storage.QuarterOf(noon)
	for i := range 8 {
		h.quarters = append(h.quarters, storage.Quarter{
			From: quarter.Add(time.Duration(i-7) * storage.QuarterLength),
			Runs: map[jobs.State]int{jobs.Succeeded: 100, jobs.Failed: 1, jobs.TimedOut: 1}})
	}
	return o
}

// lastHour is the address of the runs since 02:00, which are five quarters of an hour.
const lastHour = "/runs?from=2026-03-14T02%3A00%3A00Z"

func TestTabsCountRuns(t *testing.T) {
	handler := newServer(t, countedRuns()).Handler()
	body := flat(get(t, handler, lastHour+"&state=failed,timed_out").Body.String())
	for _, want := range []string{`>All <span class="n ">511</span>`,
		`>Failed <span class="n bad">10</span>`, `>Running <span class="n ">1</span>`,
		`>Lost <span class="n ">0</span>`, "Ended runs over time"} {
		if !strings.Contains(body, want) {
			t.Errorf("page lacks %s", want)
		}
	}
	body = flat(get(t, handler, lastHour).Body.String())
	if !strings.Contains(body, "511 runs, 2 on this page") {
		t.Error("page lacks the total")
	}
	for _, path := range []string{"/runs", lastHour + "&job=merge-events",
		lastHour + "&backfill=" + id(activeBackfill).String(),
		"/runs?from=2026-03-14T02%3A07%3A00Z", "/runs?from=2026-02-01T00%3A00%3A00Z"} {
		if body := get(t, handler, path).Body.String(); strings.Contains(body, `class="n `) ||
			strings.Contains(body, "Ended runs over time") {
			t.Errorf("%s has counts, want none: the store has not counted these runs", path)
		}
	}
}

// TestColumnsLeadToTheirRuns checks the charts of a week and of a month, whose columns are several
// quarters. Each column must lead to the time of its runs, and together they must have all runs.
func TestColumnsLeadToTheirRuns(t *testing.T) {
	for _, days := range []int{7, 30} {
		testColumns(t, days, "", 8*102+1) // the running run is not in the charts
		// the last column is shorter, and does not lead to later runs
		testColumns(t, days, "&until=2026-03-14T02%3A00%3A00Z", 3*102)
	}
}

func testColumns(t *testing.T, days int, until string, want int) {
	t.Helper()
	handler := newServer(t, countedRuns()).Handler()
	from := storage.QuarterOf(noon.Add(-time.Duration(days) * 24 * time.Hour))
	address := "/runs?from=" + url.QueryEscape(from.Format(time.RFC3339)) + until
	body := get(t, handler, address).Body.String()
	if !regexp.MustCompile(`data-day>Mar \d+ 00:00</text>`).MatchString(body) {
		t.Errorf("the axis of %s has no days", address)
	}
	link := regexp.MustCompile(`<a href="(/runs\?from=[^"]*)" class="ended"`)
	total := 0
	for _, match := range link.FindAllStringSubmatch(body, -1) {
		u, err := url.Parse(strings.ReplaceAll(match[1], "&amp;", "&"))
		if err != nil {
			t.Fatal(err)
		}
		list := flat(get(t, handler, "/runs?"+u.RawQuery).Body.String())
		var all int
		if _, err := fmt.Sscanf(regexp.MustCompile(`>All <span class="n ">\d+`).FindString(list),
			`>All <span class="n ">%d`, &all); err != nil {
			t.Fatalf("%s has no count: %v", u, err)
		}
		total += all
	}
	if total != want {
		t.Errorf("the columns of %s lead to %d runs, want %d", address, total, want)
	}
}
