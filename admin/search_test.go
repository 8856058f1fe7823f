package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
)

func found(t *testing.T, handler http.Handler, text string) searchResults {
	t.Helper()
	return answered[searchResults](t,
		get(t, handler, "/api/v1/search?q="+url.QueryEscape(text)), http.StatusOK)
}

func TestSearchFindsParts(t *testing.T) {
	handler := newServer(t, contention()).Handler()
	names := func(s searchResults) string {
		var all []string
		for _, job := range s.Jobs {
			all = append(all, job.Name)
		}
		for _, run := range s.Runs {
			all = append(all, run.ID.String())
		}
		return fmt.Sprint(all, s.Resources, s.Replicas)
	}
	run := id(10).String()
	for text, want := range map[string]string{
		"ROLLUP":                    "[rollup-hourly rollup-sales] [public/sales_rollup] []",
		"public/ord":                "[] [public/orders public/orders_hourly] []",
		"replica-":                  "[] [] [replica-1 replica-2 replica-3 replica-4]",
		run:                         "[" + run + "] [] []",
		strings.ToUpper(run[:30]):   "[" + strings.Join(runsLike(t, run[:30]), " ") + "] [] []",
		"019":                       "[] [] []", // too short for an id
		"nothing":                   "[] [] []",
		"%":                         "[] [] []",
		"":                          "[] [] []",
		"01959":                     names(found(t, handler, "0195-9")),
		"zzzz":                      "[] [] []",
		run + "0":                   "[] [] []",
		strings.Repeat("0", 32)[:8]: "[] [] []",
	} {
		if got := names(found(t, handler, text)); got != want {
			t.Errorf("%q: found %s, want %s", text, got, want)
		}
	}
	if s := found(t, handler, "0195912a"); len(s.Runs) != len(contention().Store.(*history).runs) {
		t.Errorf("%d runs with the beginning of all ids", len(s.Runs))
	}
}

// runsLike returns the ids of the runs of contention that begin with a text, in order.
func runsLike(t *testing.T, text string) []string {
	t.Helper()
	first, last, ok := idsFrom(text)
	if !ok {
		t.Fatalf("%q is no beginning of an id", text)
	}
	runs, err := contention().Store.RunsBetween(t.Context(), first, last, 100)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, run := range runs {
		ids = append(ids, run.ID.String())
	}
	return ids
}

func TestSearchIsLimited(t *testing.T) {
	if s := found(t, newServer(t, fifty()).Handler(), "load"); len(s.Jobs) != foundOfEach ||
		!s.More {
		t.Errorf("%d jobs, more: %v; want %d, and more", len(s.Jobs), s.More, foundOfEach)
	}
}

// TestSearchForJobsIsFromMemory checks that the store is asked for jobs only if no known job has
// the text, and that a new job is found.
func TestSearchForJobsIsFromMemory(t *testing.T) {
	o := contention()
	h := o.Store.(*history)
	handler := newServer(t, o).Handler()
	found(t, handler, "rollup")
	h.jobs = append(h.jobs, job("new-job", "@daily"))
	asked := len(h.jobFilters)
	for text, want := range map[string]struct{ jobs, queries int }{
		"rollup": {2, 0}, "ROLLUP-S": {1, 0}, "new-j": {1, 1}, "nothing": {0, 1},
	} {
		s := found(t, handler, text)
		if queries := len(h.jobFilters) - asked; len(s.Jobs) != want.jobs ||
			queries != want.queries {
			t.Errorf("%q: %d jobs by %d queries, want %d by %d", text, len(s.Jobs), queries,
				want.jobs, want.queries)
		}
		asked = len(h.jobFilters)
	}
}

// TestSearchLeadsToAnExactHit checks that a whole name or id leads to its page, unless several
// things have the name.
func TestSearchLeadsToAnExactHit(t *testing.T) {
	o := contention()
	h := o.Store.(*history)
	h.jobs = append(h.jobs, job("public/events", "@daily"))
	for i := range foundOfEach + 1 {
		h.jobs = append(h.jobs, job(fmt.Sprintf("a-%02d-nightly", i), "@daily"))
	}
	h.jobs = append(h.jobs, job("nightly", "@daily"))
	handler := newServer(t, o).Handler()
	for text, want := range map[string]string{
		"rollup-sales":    param.JobPath("rollup-sales"),
		" rollup-sales ":  param.JobPath("rollup-sales"),
		"public/orders":   locks.TimelinePath("public/orders"),
		id(10).String():   param.RunPath(id(10)),
		"nightly":         param.JobPath("nightly"), // other results fill the page
		"rollup":          "",
		"public/events":   "", // a job and a table
		id(777).String():  "",
		"replica-1":       "",
		"//evil.example/": "",
	} {
		reply := get(t, handler, "/search?q="+url.QueryEscape(text))
		status := http.StatusOK
		if want != "" {
			status = http.StatusSeeOther
		}
		if got := reply.Header().Get("Location"); got != want || reply.Code != status {
			t.Errorf("%q: %d to %q, want %d to %q", text, reply.Code, got, status, want)
		}
	}
}

// TestSearchByKeyboardInABrowser searches with the keyboard, and shows the keys.
func TestSearchByKeyboardInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := siteIn(t, window, newServer(t, contention()).Handler())
	visit(t, window, screens()[2], site+"/jobs?refresh=off")
	press(t, window, "?")
	until(t, window, `document.getElementById("keyboard").open`)
	press(t, window, "\u001b")
	until(t, window, `!document.getElementById("keyboard").open`)
	press(t, window, "/")
	until(t, window, `document.activeElement.id == "search"`)
	// chromedp sends the character although the script has handled the key
	evaluate[bool](t, window, `document.getElementById("search").value = "", true`)
	typed(t, window, "a/?")
	if got := evaluate[string](t, window,
		`document.getElementById("search").value`); got != "a/?" {
		t.Errorf("the field has %q, want a/?: keys are text there", got)
	}
	evaluate[bool](t, window, `document.getElementById("search").value = "rollup-sales", true`)
	press(t, window, "\r")
	until(t, window, `location.pathname == "/jobs/rollup-sales"`)
}

// typed types a text into the focused field.
func typed(t *testing.T, window context.Context, text string) {
	t.Helper()
	if err := chromedp.Do(window, chromedp.SendKeys("#search", text)); err != nil {
		t.Fatal(err)
	}
}
