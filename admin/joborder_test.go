package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// ordered is a cluster with jobs that differ in each column, one of which is failing and one has
// never run.
func ordered() Options {
	h := &history{now: noon, typical: make(map[string]storage.Typical),
		replicas: []storage.ReplicaView{liveReplica(1, "replica-1", time.Second, 0)}}
	for i, j := range []struct {
		name, schedule string
		took           time.Duration
		states         []jobs.State // the newest first
	}{
		{"charlie", "0 5 * * *", 3 * time.Second, []jobs.State{jobs.Failed, jobs.Lost,
			jobs.TimedOut, jobs.Failed}},
		{"alpha", "0 4 * * *", time.Minute, []jobs.State{jobs.Succeeded, jobs.Failed}},
		{"bravo", "0 9 * * *", time.Second, []jobs.State{jobs.Skipped, jobs.Succeeded}},
		{"echo", "30 3 * * *", 0, nil},
		{"delta", "0 8 * * *", 10 * time.Second, []jobs.State{jobs.Failed, jobs.Succeeded}},
		{"foxtrot", "", 20 * time.Second, []jobs.State{jobs.Succeeded}},
	} {
		h.jobs = append(h.jobs, job(j.name, j.schedule, j.name))
		if j.took > 0 {
			h.typical[j.name] = storage.Typical{Runs: len(j.states), Median: j.took, Long: j.took}
		}
		for n, state := range j.states {
			run := done(100*i+n, j.name, "replica-1", time.Duration(n+1)*time.Hour, j.took, state)
			if state == jobs.Skipped {
				run.StartedAt = nil
			}
			h.runs = append(h.runs, run)
		}
	}
	slices.SortFunc(h.runs, func(a, b storage.Record) int {
		return b.CreatedAt.Compare(a.CreatedAt)
	})
	slices.SortFunc(h.jobs, func(a, b storage.JobView) int { return cmp.Compare(a.Name, b.Name) })
	o := options(h)
	o.ScheduledTimes = h.scheduledTimes
	return o
}

// rowsOf returns the names of the jobs of a page in its order.
func rowsOf(body string) (names []string) {
	row := regexp.MustCompile(`<tr role="row" data-key="job-.*?<th role="rowheader"[^>]*> ?<a [^>]*href="/jobs/([^"]*)"`)
	for _, match := range row.FindAllStringSubmatch(body, -1) {
		names = append(names, match[1])
	}
	return names
}

// TestJobsAreSorted checks the order of the page and of the API by each column, in both directions,
// also with filters and on several pages. Jobs without a value come last.
func TestJobsAreSorted(t *testing.T) {
	handler := newServer(t, ordered()).Handler()
	for query, want := range map[string]string{
		"":                                    "alpha bravo charlie delta echo foxtrot",
		"sort=name&order=desc":                "foxtrot echo delta charlie bravo alpha",
		"sort=next":                           "charlie delta bravo echo alpha foxtrot",
		"sort=next&order=desc":                "alpha echo bravo delta charlie foxtrot",
		"sort=duration&order=desc":            "alpha foxtrot delta charlie bravo echo",
		"sort=duration":                       "bravo charlie delta foxtrot alpha echo",
		"sort=state":                          "charlie delta bravo alpha foxtrot echo",
		"sort=state&order=desc":               "alpha foxtrot bravo charlie delta echo",
		"sort=next&text=a":                    "charlie delta bravo alpha",
		"sort=next&state=failed":              "charlie delta",
		"sort=duration&state=succeeded":       "foxtrot alpha",
		"state=failing":                       "charlie",
		"state=last_failed":                   "charlie delta",
		"state=last_failed&text=a&sort=next":  "charlie delta",
		"state=never_run":                     "echo",
		"state=never_run&text=x":              "",
		"sort=next&limit=2&skip=2":            "bravo echo",
		"sort=next&limit=2&skip=100":          "",
		"state=failing&sort=state":            "charlie",
		"state=failing&after=alpha":           "charlie",
		"state=failing&after=charlie":         "",
		"sort=name&state=succeeded&paused=no": "alpha foxtrot",
	} {
		body := flat(get(t, handler, "/jobs?"+query).Body.String())
		if got := strings.Join(rowsOf(body), " "); got != want {
			t.Errorf("%s: the page has %s, want %s", query, got, want)
		}
		reply := get(t, handler, "/api/v1/jobs?"+query)
		var list []Job
		if err := json.Unmarshal(reply.Body.Bytes(), &list); err != nil ||
			reply.Code != http.StatusOK {
			t.Fatalf("%s: %d, %v", query, reply.Code, err)
		}
		var names []string
		for _, job := range list {
			names = append(names, job.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: the API has %s, want %s", query, got, want)
		}
	}
	for _, query := range []string{"sort=size", "order=desc", "skip=3", "sort=next&after=alpha",
		"sort=next&order=up", "state=asleep", "state=failing&state=failed",
		"state=last_failed&state=lost"} {
		for _, path := range []string{"/jobs?", "/api/v1/jobs?"} {
			if reply := get(t, handler, path+query); reply.Code != http.StatusBadRequest {
				t.Errorf("%s%s: %d, want 400", path, query, reply.Code)
			}
		}
	}
}

// TestOverviewLeadsToFailedJobs checks that the overview links a list of the jobs whose last run
// failed that has as many jobs as it says.
func TestOverviewLeadsToFailedJobs(t *testing.T) {
	h := &history{now: noon}
	for i := range 20 {
		name := fmt.Sprintf("job-%02d", i)
		h.jobs = append(h.jobs, job(name, "0 5 * * *", name))
		states := [][]jobs.State{{jobs.Failed}, {jobs.TimedOut}, {jobs.Lost},
			{jobs.Skipped, jobs.Failed}, {jobs.Succeeded, jobs.Failed}}[i%5]
		for n, state := range states {
			h.runs = append(h.runs, done(100*i+n, name, "replica-1", time.Duration(n+1)*time.Hour,
				time.Second, state))
		}
	}
	slices.SortFunc(h.runs, func(a, b storage.Record) int {
		return b.CreatedAt.Compare(a.CreatedAt)
	})
	handler := newServer(t, options(h)).Handler()
	link := regexp.MustCompile(`<a href="(/jobs[^"]*)">4 more jobs</a>`).
		FindStringSubmatch(flat(get(t, handler, "/").Body.String()))
	if link == nil {
		t.Fatal("the overview has no link to 4 more jobs than the 12 that it lists")
	}
	body := flat(get(t, handler, link[1]).Body.String())
	if rows := rowsOf(body); len(rows) != 16 {
		t.Errorf("%s: got %s, want 16 jobs", link[1], rows)
	}
	const chip = `aria-current="true">Last run failed, timed out or lost ` +
		`<span class="n bad">16</span></a>`
	if !strings.Contains(body, chip) {
		t.Errorf("%s: the page lacks the chip %s: %s", link[1], chip, body)
	}
}

// TestHeadsOfColumnsSort follows the links in the heads of the columns. Each marks its column, and
// a second click reverses the order. They keep the filter, and the form and the pages keep the
// order.
func TestHeadsOfColumnsSort(t *testing.T) {
	handler := newServer(t, ordered()).Handler()
	heads := func(body string) map[string]string {
		found := make(map[string]string)
		head := regexp.MustCompile(`<th role="columnheader" scope="col" class="sort[^"]*"` +
			`(?: aria-sort="([^"]*)")?> ?<a href="([^"]*)">([^<]*)`)
		for _, match := range head.FindAllStringSubmatch(body, -1) {
			name := strings.TrimSpace(match[3])
			found[name] = strings.ReplaceAll(match[2], "&amp;", "&")
			if match[1] != "" {
				found["sorted"] += name + " " + match[1]
			}
		}
		return found
	}
	first := heads(flat(get(t, handler, "/jobs?text=a").Body.String()))
	if len(first) != 5 || first["sorted"] != "Job ascending" {
		t.Fatalf("the columns are %v, want four of which the first is sorted", first)
	}
	for name, want := range map[string]string{"Job": "descending", "State": "ascending",
		"Usual duration": "descending", "Next": "ascending"} {
		body := flat(get(t, handler, first[name]).Body.String())
		once := heads(body)
		if once["sorted"] != name+" "+want || !strings.Contains(first[name], "text=a") {
			t.Errorf("%s: %s is sorted, want %s", first[name], once["sorted"], want)
		}
		if !strings.Contains(body, `<input type="hidden" name="sort"`) {
			t.Errorf("%s: the form of the filter loses the order", first[name])
		}
		twice := heads(flat(get(t, handler, once[name]).Body.String()))
		if twice["sorted"] == once["sorted"] || !strings.HasPrefix(twice["sorted"], name) {
			t.Errorf("%s: %s is sorted after a second click", once[name], twice["sorted"])
		}
	}
	next := regexp.MustCompile(`href="([^"]*)" rel="next"`)
	var all []string
	for path := "/jobs?sort=duration&order=desc&limit=2"; path != ""; {
		body := flat(get(t, handler, path).Body.String())
		all = append(all, rowsOf(body)...)
		path = ""
		if match := next.FindStringSubmatch(body); match != nil {
			path = strings.ReplaceAll(match[1], "&amp;", "&")
		}
	}
	if got := strings.Join(all, " "); got != "alpha foxtrot delta charlie bravo echo" {
		t.Errorf("the pages have %s", got)
	}
}

// TestSortedJobsAreAnActionsTarget checks that an action on all failing jobs is on these only, and
// that its filter does not have the order.
func TestSortedJobsAreAnActionsTarget(t *testing.T) {
	handler := newServer(t, actionOptions(ordered())).Handler()
	body := flat(get(t, handler, "/jobs?state=failing&sort=next").Body.String())
	link := regexp.MustCompile(`href="(/bulk/pause\?matching=[^"]*)"`).FindStringSubmatch(body)
	if link == nil || strings.Contains(link[1], "sort") && !strings.Contains(link[1], "back=") {
		t.Fatalf("the link of the action is %q", link)
	}
	page := flat(get(t, handler, strings.ReplaceAll(link[1], "&amp;", "&")).Body.String())
	if !strings.Contains(page, "charlie") || strings.Contains(page, "delta") ||
		!strings.Contains(page, "1 job") {
		t.Errorf("the action is on other jobs than charlie: %s", page)
	}
}

// TestSortingTenThousandJobs checks that a page of sorted jobs asks for its own jobs only, and that
// the durations of all are known after some time.
func TestSortingTenThousandJobs(t *testing.T) {
	o := tenThousand()
	h := o.Store.(*history)
	server := newServer(t, o)
	handler := server.Handler()
	for _, order := range []string{"name", "state", "duration", "next"} {
		h.jobFilters = nil
		began := time.Now()
		body := flat(get(t, handler, "/jobs?order=desc&sort="+order).Body.String())
		if n := len(rowsOf(body)); n != pageJobs {
			t.Errorf("by %s: %d jobs, want %d", order, n, pageJobs)
		}
		t.Logf("by %s: %s", order, time.Since(began))
		for _, f := range h.jobFilters {
			if f.Limit > pageJobs {
				t.Errorf("by %s: the page asks for %d jobs", order, f.Limit)
			}
		}
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		body := get(t, handler, "/jobs?order=desc&sort=duration").Body.String()
		if !strings.Contains(body, "not known yet") {
			return
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the durations of some jobs stay unknown")
		}
	}
}

// TestSortWithTheKeyboardInABrowser sorts by the keyboard alone, with and without scripts, on a
// wide screen and on a phone. The heads of the columns are in sight.
func TestSortWithTheKeyboardInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := changingSite(t, window, ordered())
	for _, scripted := range []bool{true, false} {
		if _, err := chromedp.Call(window, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: !scripted}); err != nil {
			t.Fatal(err)
		}
		for _, s := range []screen{screens()[0], screens()[3]} {
			name := fmt.Sprintf("%s, scripts %t", s.Name, scripted)
			visit(t, window, s, site.url+"/jobs?refresh=off")
			if !evaluate[bool](t, window, `(() => {
				const links = [...document.querySelectorAll("th.sort a")];
				return links.every((e) => e.getClientRects().length > 0
					&& e.getBoundingClientRect().height >= 20
					&& e.getBoundingClientRect().right <= innerWidth);
			})()`) {
				t.Errorf("%s: some heads of columns are not in sight", name)
			}
			followByKeys(t, window, `th.sort a[href*="sort=next"]`)
			if got := evaluate[string](t, window, `[...document.querySelectorAll("tr[data-key^=job-] .name")]`+
				`.map((e) => e.textContent.trim()).join(" ")`); got != "charlie delta bravo echo alpha foxtrot" {
				t.Errorf("%s: the jobs are %s", name, got)
			}
			if !evaluate[bool](t, window,
				`document.documentElement.scrollWidth <= document.documentElement.clientWidth`) {
				t.Errorf("%s: the page scrolls sideways", name)
			}
		}
	}
}
