package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
)

// TestSearchSplitsTerms checks how a search is split into terms and free text.
func TestSearchSplitsTerms(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"  import-orders ":                 "| import-orders",
		"table:public/orders":              "table=public/orders",
		"Table:public/orders reason:x":     "table=public/orders, reason=x",
		`job:"my job" late`:                "job=my job| late",
		"error:division by zero":           "error=division by zero",
		"error:division by zero job:etl/*": "error=division by zero, job=etl/*",
		`error:"a: b" web-1`:               "error=a: b| web-1",
		"error: timeout":                   "error=timeout",
		"error:  division by  zero job:a":  "error=division by zero, job=a",
		"error: job:a":                     "error=, job=a",
		"resource:path:a/b":                "resource=path:a/b",
		"path:a/b":                         "| path:a/b",
		"division by zero":                 "| division by zero",
		`"job:x is late"`:                  `| "job:x is late"`,
		"job:":                             "job=",
		`job:"open`:                        "job=open",
	} {
		s := newRunSearch(text)
		var terms []string
		for _, term := range s.terms {
			terms = append(terms, term.name+"="+term.value)
		}
		got := strings.Join(terms, ", ")
		switch {
		case s.quoted:
			got += `| "` + s.free + `"`
		case s.free != "":
			got += "| " + s.free
		}
		if got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

// TestSearchMeans checks what a search means in a cluster with known names.
func TestSearchMeans(t *testing.T) {
	names := knownNames{jobs: []string{"etl/a", "etl/b", "import-orders", "merge-events", "orders"},
		groups: []string{"nightly"}, resources: []string{"path:exports", "public/customers",
			"public/orders", "public/orders_hourly"},
		replicas: []string{"web-1", "web-2", "batch-1"}}
	for text, want := range map[string]string{
		"import-orders":              "job=import-orders",
		"orders":                     "job=orders",
		"import":                     "job=import-orders",
		"etl":                        "job=etl*",
		"etl/*":                      "job=etl/*",
		"events":                     "job=merge-events",
		"table:orders":               "resource=public/orders",
		"table:Orders":               "resource=public/orders",
		"public.orders":              "resource=public/orders",
		"table:hourly":               "resource=public/orders_hourly",
		"table:public/new":           "resource=public/new",
		"customers":                  "resource=public/customers",
		"path:exports":               "resource=path:exports",
		"batch":                      "replica=batch-1",
		"replica:gone":               "replica=gone",
		"web-2":                      "replica=web-2",
		"group:night":                "group=nightly",
		"reason:lock_h":              "reason=" + string(reasons.LockHeld),
		"reason:lock":                "mistake: no reason is",
		"a resource is held":         "reason=" + string(reasons.LockHeld),
		"cancelled":                  "state=cancelled",
		"panic":                      "reason=panic",
		"pan":                        "error=pan",
		"reason:LOCK_HELD job:etl/a": "job=etl/a&reason=" + string(reasons.LockHeld),
		"timed out":                  "state=timed_out",
		"state:failed,lost":          "state=failed,lost",
		"division by zero":           "error=division by zero",
		`"import-orders"`:            "error=import-orders",
		"error:orders":               "error=orders",
		"job:deleted":                "job=deleted",
		"web":                        "error=web",
		"run:0195":                   "run=0195",
		"reason:nonsense":            "mistake: no reason is",
		"state:asleep":               "mistake: no state is",
		"job:":                       "mistake: job: needs a value",
		"backfill:x":                 "mistake: backfill is",
	} {
		found, err := names.filter(newRunSearch(text))
		got, _ := url.QueryUnescape(found.params.Encode())
		if found.run != "" {
			got = "run=" + found.run
		}
		if err != nil {
			got = "mistake: " + err.Error()
		}
		if got != want && !(strings.HasPrefix(want, "mistake") && strings.HasPrefix(got, want)) {
			t.Errorf("%q means %s, want %s", text, got, want)
		}
	}
	found, err := knownNames{}.filter(newRunSearch("import-orders"))
	if err != nil || found.params.Get("error") != "import-orders" {
		t.Errorf("without known names: %v, %v, want an error text", found, err)
	}
}

// TestSearchFieldOfRuns submits the form of the list. It leads to the list with the filters that
// the text means, beside the other filters, or to the page of a run. A mistake is shown beside the
// field.
func TestSearchFieldOfRuns(t *testing.T) {
	handler := newServer(t, contention()).Handler()
	running := id(10).String()
	for query, want := range map[string]string{
		"q=merge-events":                         "/runs?job=merge-events",
		"q=merge-events&job=&group=&state=":      "/runs?job=merge-events",
		"q=public%2Forders&state=failed&limit=9": "/runs?limit=9&resource=public%2Forders&state=failed",
		"q=reason%3Alock_held&job=merge-events":  "/runs?job=merge-events&reason=lock_held",
		"q=job%3Arollup-sales&job=merge-events":  "/runs?job=rollup-sales",
		"q=duplicate+key":                        "/runs?error=duplicate+key",
		"q=replica-1&from=2026-03-14T02:00:00Z":  "/runs?from=2026-03-14T02%3A00%3A00Z&replica=replica-1",
		"q=" + running:                           "/runs/" + running,
		"q=run%3A" + running:                     "/runs/" + running,
	} {
		reply := get(t, handler, "/runs?"+query)
		if got := reply.Header().Get("Location"); reply.Code != http.StatusSeeOther || got != want {
			t.Errorf("%s: %d, leads to %s, want %s", query, reply.Code, got, want)
		}
	}
	for query, want := range map[string]string{
		"q=reason%3Alock_hold&job=merge-events": "did you mean",
		"q=run%3Affffffff":                      "No run has an id that begins with",
		"q=table%3A%2F%2F":                      "is no name of a table or resource",
	} {
		reply := get(t, handler, "/runs?"+query)
		body := flat(reply.Body.String())
		values, _ := url.ParseQuery(query)
		for _, want := range []string{want, `id="mistake"`, `aria-invalid="true"`,
			fmt.Sprintf(`name="q" type="search" value="%s"`, values.Get("q"))} {
			if reply.Code != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s: %d, the page lacks %s", query, reply.Code, want)
			}
		}
		if strings.Contains(body, `/api/v1/runs?q=`) {
			t.Errorf("%s: the link to the JSON has the search", query)
		}
	}
	body := flat(get(t, handler, "/runs").Body.String())
	for _, want := range []string{`<option value="merge-events">job`,
		`<option value="table:public/orders">`, `<option value="replica:replica-1">`,
		`<option value="reason:lock_held">`} {
		if !strings.Contains(body, want) {
			t.Errorf("the field does not suggest %s", want)
		}
	}
}

// TestSearchOfRunsInABrowser types into the field, with and without scripts, and removes the filter
// again.
func TestSearchOfRunsInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := changingSite(t, window, contention())
	for _, scripted := range []bool{true, false} {
		if _, err := chromedp.Call(window, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: !scripted}); err != nil {
			t.Fatal(err)
		}
		for _, s := range []screen{screens()[0], screens()[3]} {
			visit(t, window, s, site.url+"/runs?refresh=off")
			fillByKeys(t, window, "#q", "table:orders")
			awaitPage(t, window, "#q", chromedp.KeyEvent("\r"))
			if got := evaluate[string](t, window, "location.search"); got !=
				"?resource=public%2Forders" {
				t.Fatalf("%s, scripts %t: the search leads to %s", s.Name, scripted, got)
			}
			if !evaluate[bool](t, window, `document.querySelector(".chip.on").textContent`+
				`.includes("table or resource: public/orders")`) {
				t.Errorf("%s, scripts %t: no filter is shown", s.Name, scripted)
			}
			follow(t, window, ".chip.on")
			if got := evaluate[string](t, window, "location.search"); got != "" {
				t.Errorf("%s, scripts %t: the list still has %s", s.Name, scripted, got)
			}
		}
	}
}

// TestTabsOfStatesAreCountedWithFilters checks that each tab has the number of runs of its list,
// whatever other filter is set.
func TestTabsOfStatesAreCountedWithFilters(t *testing.T) {
	handler := newServer(t, busy()).Handler()
	seen := 0
	for _, filter := range []string{"job=merge-events", "job=roll*", "resource=public%2Forders",
		"replica=replica-1", "reason=lock_held", "error=duplicate", "group=warehouse",
		"from=2026-03-14T02%3A07%3A00Z", "until=2026-03-14T03%3A00%3A00Z",
		"job=merge-events&replica=replica-1"} {
		body := flat(get(t, handler, "/runs?"+filter).Body.String())
		tabs := tabLinks(body)
		if len(tabs) != len(runTabs()) {
			t.Fatalf("%s: %d tabs, want %d", filter, len(tabs), len(runTabs()))
		}
		for name, tab := range tabs {
			list := get(t, handler, tab.path+"&limit=1000").Body.String()
			if got := strings.Count(list, `data-key="run-`); fmt.Sprint(got) != tab.count {
				t.Errorf("%s: the tab %s has %s runs, its list has %d", filter, name, tab.count,
					got)
			} else {
				seen += got
			}
		}
	}
	if seen < 20 {
		t.Errorf("all tabs have %d runs, want more", seen)
	}
	o := busy()
	h := o.Store.(*history)
	for range countedMost + 10 {
		h.runs = append(h.runs, done(200, "merge-events", "replica-1", 0, 0, jobs.Succeeded))
	}
	body := flat(get(t, newServer(t, o).Handler(), "/runs?job=merge-events").Body.String())
	if !strings.Contains(body, "10,000&#43; runs") ||
		!strings.Contains(body, ">10,000&#43;</span>") {
		t.Errorf("the page does not say that there are more than 10,000 runs: %v", tabLinks(body))
	}
}
