package admin

import (
	"context"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
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
	for _, path := range []string{lastHour + "&job=merge-events",
		lastHour + "&backfill=" + id(activeBackfill).String(),
		"/runs?from=2026-03-14T02%3A07%3A00Z", "/runs?from=2026-02-01T00%3A00%3A00Z",
		"/runs?until=2026-03-14T02%3A00%3A00Z", "/runs?job=merge-events"} {
		body := get(t, handler, path).Body.String()
		if strings.Contains(body, "Ended runs over time") {
			t.Errorf("%s has a chart, want none: the store has not counted these runs", path)
		}
		for name, tab := range tabLinks(flat(body)) {
			list := get(t, handler, tab.path).Body.String()
			if got := strconv.Itoa(strings.Count(list, `data-key="run-`)); got != tab.count {
				t.Errorf("%s: the tab %s has %s runs, its list has %s", path, name, tab.count, got)
			}
		}
	}
}

// TestCountedRunsAreListed checks that the links of the overview and of a job lead to the runs that
// their numbers count, without older ones.
func TestCountedRunsAreListed(t *testing.T) {
	o := calm()
	h := o.Store.(*history)
	h.now = h.now.Add(300 * time.Millisecond)
	for i, age := range []time.Duration{time.Hour, 24 * time.Hour, 25 * time.Hour,
		outcomesSince, outcomesSince + time.Hour} {
		h.runs = append(h.runs, done(100+i, "rollup-sales", "replica-1", age, 0, jobs.Failed))
	}
	handler := newServer(t, o).Handler()
	link := regexp.MustCompile(`<a[^>]* href="(/runs\?[^"]*job=rollup-sales[^"]*)">(\d+)</a>`)
	for path, want := range map[string]int{"/": 2, "/jobs/rollup-sales": 4} {
		found := false
		body := flat(get(t, handler, path).Body.String())
		for _, match := range link.FindAllStringSubmatch(body, -1) {
			to := html.UnescapeString(match[1])
			if !strings.Contains(to, "state=failed") {
				continue
			}
			found = true
			listed := len(answered[[]storage.Record](t, get(t, handler, "/api/v1"+to), 200))
			if match[2] != strconv.Itoa(want) || listed != want {
				t.Errorf("%s: %s runs, and %d in %s, want %d", path, match[2], listed, to, want)
			}
		}
		if !found {
			t.Errorf("%s has no link to failed runs", path)
		}
	}
}

// tabLink is a tab of the list of runs.
type tabLink struct{ path, count string }

// tabLinks returns the tabs of states that have numbers, by name.
func tabLinks(body string) map[string]tabLink {
	tabs := make(map[string]tabLink)
	link := regexp.MustCompile(`<a href="([^"]*)"[^>]*>([^<]*) <span class="n [^>]*>([^<]*)</span>`)
	_, nav, _ := strings.Cut(body, `aria-label="State"`)
	nav, _, _ = strings.Cut(nav, "</nav>")
	for _, match := range link.FindAllStringSubmatch(nav, -1) {
		tabs[match[2]] = tabLink{strings.ReplaceAll(match[1], "&amp;", "&"), match[3]}
	}
	return tabs
}

// TestRunsWithoutATimeAreCounted checks the numbers of the whole history: exact ones, estimates,
// and an estimate without states. Later pages have them too.
func TestRunsWithoutATimeAreCounted(t *testing.T) {
	long := map[jobs.State]int{jobs.Succeeded: 10_994_300, jobs.Failed: 1_204_000,
		jobs.TimedOut: 700, jobs.Lost: 3}
	for _, c := range []struct {
		path  string
		ended *storage.EndedRuns
		has   []string
	}{
		{"/runs", nil, []string{`>All <span class="n ">2</span>`, "2 runs, 2 on this page",
			`>Succeeded <span class="n ">1</span>`, `>Running <span class="n ">1</span>`}},
		{"/runs?limit=1&before=" + id(1).String(), nil, []string{
			`>All <span class="n ">2</span>`, "2 runs, 1 on this page"}},
		{"/runs?state=running", nil, []string{"1 run, 1 on this page", "All that match (1 run):"}},
		{"/runs", new(storage.NewEndedRuns(long, true)), []string{
			`>All <span class="n " title="about 12.2 million">~12.2M</span>`,
			`>Failed <span class="n bad" title="about 1.2 million">~1.2M</span>`,
			`>Lost <span class="n bad" title="about 3">~3</span>`,
			`>Missed <span class="n ">0</span>`, `>Running <span class="n ">1</span>`,
			"About 12.2 million runs, 2 on this page"}},
		{"/runs?state=running", new(storage.NewEndedRuns(long, true)), []string{
			"1 run, 1 on this page"}},
		{"/runs?state=failed,timed_out", new(storage.NewEndedRuns(long, true)), []string{
			`>Failed <span class="n bad" title="about 1.2 million">`}},
		{"/runs", &storage.EndedRuns{Runs: 10_400, Estimated: true}, []string{
			`>All <span class="n " title="about 10,400">~10.4k</span>`,
			"About 10,400 runs, 2 on this page"}},
	} {
		o := actionOptions(countedRuns())
		o.Store.(*history).ended = c.ended
		body := flat(get(t, newServer(t, o).Handler(), c.path).Body.String())
		for _, want := range c.has {
			if !strings.Contains(body, want) {
				t.Errorf("%s with %+v lacks %s", c.path, c.ended, want)
			}
		}
		if states := c.ended == nil || c.ended.ByState != nil; states != strings.Contains(body,
			`>Failed <span class="n`) {
			t.Errorf("%s with %+v: numbers of states, want them: %t", c.path, c.ended, states)
		}
		if strings.Contains(body, "Ended runs over time") {
			t.Errorf("%s has a chart, want none without a time", c.path)
		}
	}
}

// TestTotalsOfferTheActionOnAllThatMatch does so up to 1,000 runs. Beyond an estimate of 2,000 the
// list says that there are too many.
func TestTotalsOfferTheActionOnAllThatMatch(t *testing.T) {
	for failed, want := range map[int]string{
		900: "All that match (about 900 runs):", 1500: "All that match (about 1,500 runs):",
		2500: "More than 1,000 runs match.",
	} {
		o := actionOptions(countedRuns())
		h := o.Store.(*history)
		h.runs[1].State = jobs.Failed
		h.ended = new(storage.NewEndedRuns(map[jobs.State]int{jobs.Failed: failed}, true))
		body := flat(get(t, newServer(t, o).Handler(), "/runs?state=failed").Body.String())
		if !strings.Contains(body, want) {
			t.Errorf("with %d failed runs the list lacks %q", failed, want)
		}
	}
}

// endedCounter counts the queries of the number of ended runs.
type endedCounter struct {
	storage.Histograms
	result  storage.EndedRuns
	queries int
}

func (e *endedCounter) EndedRuns(context.Context, int) (storage.EndedRuns, error) {
	e.queries++
	return e.result, nil
}

// TestEstimatesAreCachedForLonger asks for the numbers every second for a minute.
func TestEstimatesAreCachedForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for estimated, most := range map[bool]int{false: 30, true: 5} {
			store := &endedCounter{result: storage.EndedRuns{Runs: 7, Estimated: estimated}}
			cached := newEndedRuns(store)
			for i := range 60 {
				got, err := cached.Get(t.Context(), noon.Add(time.Duration(i)*time.Second))
				if err != nil || got.Runs != 7 {
					t.Fatalf("got %+v, %v", got, err)
				}
				synctest.Wait() // for a query in the background
			}
			if store.queries < most/2 || store.queries > most {
				t.Errorf("estimated %t: %d queries in a minute, want about %d", estimated,
					store.queries, most)
			}
		}
	})
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
