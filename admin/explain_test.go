package admin

import (
	"context"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// explainedJob returns a cluster whose job rollup-sales fires every 5 minutes in the time zone.
func explainedJob(t *testing.T, zone string) Options {
	t.Helper()
	o := contention()
	h := o.Store.(*history)
	index := h.index("rollup-sales")
	if index < 0 {
		t.Fatal("the history has no job rollup-sales")
	}
	h.jobs[index].Zone = zone
	return o
}

// A local time is in the zone that the form sends, or else in the job's zone.
func TestExplainTimeIsInTheZoneOfTheForm(t *testing.T) {
	t.Parallel()
	handler := newServer(t, explainedJob(t, "America/New_York")).Handler()
	heading := regexp.MustCompile(`<h1>.*<time class="clock" datetime="([^"]*)".*</h1>`)
	const badZone = ", expected a zone by its IANA name, such as Europe/Berlin"
	for name, c := range map[string]struct {
		query   url.Values
		status  int // 0 means 200
		explain string
		has     string
	}{
		"zone of the form": {query: url.Values{"at": {"2026-03-12 11:25"},
			"zone": {"Europe/Berlin"}}, explain: "2026-03-12T10:25:00Z"},
		"with seconds": {query: url.Values{"at": {"2026-03-12T11:25:07"},
			"zone": {"Asia/Tokyo"}}, explain: "2026-03-12T02:25:07Z"},
		"UTC, sent without the script": {query: url.Values{"at": {"2026-03-12 11:25"},
			"zone": {"UTC"}}, explain: "2026-03-12T11:25:00Z"},
		"no zone": {query: url.Values{"at": {"2026-03-12 11:25"}},
			explain: "2026-03-12T15:25:00Z"},
		"empty zone": {query: url.Values{"at": {"2026-03-12 11:25"}, "zone": {""}},
			explain: "2026-03-12T15:25:00Z"},
		"time with an offset": {query: url.Values{"at": {"2026-03-12T11:25:00Z"},
			"zone": {"Europe/Berlin"}}, explain: "2026-03-12T11:25:00Z"},
		"gap of the zone": {query: url.Values{"at": {"2026-03-29 02:30"},
			"zone": {"Europe/Berlin"}}, explain: "2026-03-29T01:00:00Z"},
		"now": {query: url.Values{"at": {""}, "zone": {"Europe/Berlin"}},
			explain: "2026-03-14T03:12:15Z"},
		"unknown zone": {query: url.Values{"at": {"2026-03-12 11:25"}, "zone": {"Mars/Olympus"}},
			status: http.StatusBadRequest, has: `zone is "Mars/Olympus"` + badZone},
		"zone of the replica": {query: url.Values{"at": {"2026-03-12 11:25"}, "zone": {"Local"}},
			status: http.StatusBadRequest, has: `zone is "Local"` + badZone},
		"no time": {query: url.Values{"at": {"yesterday"}, "zone": {"Europe/Berlin"}},
			status: http.StatusBadRequest, has: `at is "yesterday", expected a time`},
	} {
		t.Run(name, func(t *testing.T) {
			answer := get(t, handler, "/jobs/rollup-sales/explain?"+c.query.Encode())
			want := c.status
			if want == 0 {
				want = http.StatusOK
			}
			if answer.Code != want {
				t.Errorf("status %d, want %d", answer.Code, want)
			}
			page := html.UnescapeString(answer.Body.String())
			if !strings.Contains(page, c.has) {
				t.Errorf("the page lacks %q", c.has)
			}
			var explained string
			if found := heading.FindStringSubmatch(page); found != nil {
				explained = found[1]
			}
			if explained != c.explain {
				t.Errorf("the page explains %q, want %q", explained, c.explain)
			}
		})
	}
}

// TestExplainAsksAboutTheListedTimeInABrowser enters a time as a page shows it in Tokyo: in the
// form of the page of a job, and in that of an explanation. The job has another zone.
func TestExplainAsksAboutTheListedTimeInABrowser(t *testing.T) {
	t.Parallel()
	window := tabInTokyo(t)
	site := siteIn(t, window, newServer(t, explainedJob(t, "America/New_York")).Handler())
	visit(t, window, screens()[2],
		site+"/jobs/rollup-sales/explain?refresh=off&at=2026-03-12T02:30:00Z")
	const listed = `document.querySelector('dd a[href*="/explain?at="] time')`
	text, utc := evaluate[string](t, window, listed+`.textContent`),
		evaluate[string](t, window, listed+`.dateTime`)
	if text != "2026-03-12 11:25:00" || utc != "2026-03-12T02:25:00Z" {
		t.Fatalf("the page lists %q for %s, want Tokyo's time", text, utc)
	}
	for _, path := range []string{"/jobs/rollup-sales?refresh=off", ""} {
		if path != "" {
			visit(t, window, screens()[2], site+path)
		}
		explainedTimeIs(t, window, text, utc)
	}
}

// explainedTimeIs enters a time in the only form that explains a firing, and checks which time the
// form sends and the next page explains.
func explainedTimeIs(t *testing.T, window context.Context, text, utc string) {
	t.Helper()
	const field, form = `document.getElementById("at").value`, `form[action$="/explain"]`
	typed := strings.TrimSuffix(strings.Replace(text, " ", "T", 1), ":00")
	if n := evaluate[int](t, window, `document.querySelectorAll('`+form+`').length`); n != 1 {
		t.Errorf("the page has %d forms that explain a firing, want 1", n)
	}
	if err := chromedp.Do(window, chromedp.SetValue("#at", typed)); err != nil {
		t.Fatal(err)
	}
	follow(t, window, form+` button`)
	for _, test := range []struct{ what, script, want string }{
		{"form sends", `new URLSearchParams(location.search).get("at")`, utc},
		{"page explains", `document.querySelector("h1 time").dateTime`, utc},
		{"heading reads", `document.querySelector("h1 time").textContent`, text},
		{"field reads", field, typed},
	} {
		if got := evaluate[string](t, window, test.script); got != test.want {
			t.Errorf("the %s %q, want %q", test.what, got, test.want)
		}
	}
}

// TestTimeFieldIsSentAsItIs submits a form, changes its time field and submits the form again, on a
// page that stays. Each time the form must send the time that the field shows.
func TestTimeFieldIsSentAsItIs(t *testing.T) {
	t.Parallel()
	window := tabInTokyo(t)
	handler, sent := newServer(t, explainedJob(t, "America/New_York")).Handler(),
		make(chan []string, 1)
	site := siteIn(t, window, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if query := r.URL.Query(); query.Has("at") {
			sent <- query["at"]
			w.WriteHeader(http.StatusNoContent) // the browser stays on the page
			return
		}
		handler.ServeHTTP(w, r)
	}))
	visit(t, window, screens()[2], site+"/jobs/rollup-sales/explain?refresh=off")
	for _, c := range []struct{ typed, want string }{
		{"2026-03-12T11:25", "2026-03-12T02:25:00Z"},
		{"2026-03-13T08:00:05", "2026-03-12T23:00:05Z"},
		{"", ""},
	} {
		evaluate[bool](t, window, `(() => {
			document.getElementById("at").value = "`+c.typed+`";
			document.querySelector('form[action$="/explain"]').requestSubmit();
			return true;
		})()`)
		select {
		case got := <-sent:
			if !slices.Equal(got, []string{c.want}) {
				t.Errorf("for %q the form sends %q, want %q", c.typed, got, c.want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("for %q the form sends nothing within a minute", c.typed)
		}
	}
}

// TestJSONOfAnExplanation follows the link to the JSON of pages that the form opens. The JSON must
// be about the same time.
func TestJSONOfAnExplanation(t *testing.T) {
	handler := newServer(t, explainedJob(t, "America/New_York")).Handler()
	link := regexp.MustCompile(`<a href="([^"]*)">This page as JSON</a>`)
	for query, want := range map[string]string{
		"?at=2026-03-12T02%3A25%3A00Z&zone=UTC": "2026-03-12T02:25:00Z",
		"?at=2026-03-12T11:25&zone=Asia/Tokyo":  "2026-03-12T02:25:00Z",
		"?at=2026-03-12T11:25":                  "2026-03-12T15:25:00Z",
		"?at=&zone=UTC":                         "2026-03-14T03:12:15Z",
		"":                                      "2026-03-14T03:12:15Z",
	} {
		page := get(t, handler, "/jobs/rollup-sales/explain"+query).Body.String()
		found := link.FindStringSubmatch(page)
		if found == nil {
			t.Errorf("%s: the page has no link to its JSON", query)
			continue
		}
		reply := get(t, handler, html.UnescapeString(found[1]))
		var explained struct{ At time.Time }
		if err := json.Unmarshal(reply.Body.Bytes(), &explained); err != nil ||
			reply.Code != http.StatusOK ||
			explained.At.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s: %s answers %d %.300s, want %s", query, found[1], reply.Code, reply.Body,
				want)
		}
	}
}

// TestExplainSaysTheVerdictOnce checks the sentence about a skipped firing.
func TestExplainSaysTheVerdictOnce(t *testing.T) {
	reply := get(t, newServer(t, shop()).Handler(),
		"/jobs/rollup-sales/explain?at=2026-03-14T02:30:00Z")
	want := `<strong>Skipped</strong>: <bdi data-says>public/orders was held by job ` +
		`archive-orders (run …255b0001) on replica-2; tried 34 times in 5 min.</bdi>`
	if !strings.Contains(flat(reply.Body.String()), want) {
		t.Errorf("the page (%d) lacks %s", reply.Code, want)
	}
}

// TestSkippedFiringNamesItsRootRun checks that the pages about a skipped firing say what the run
// that caused the skip does now.
func TestSkippedFiringNamesItsRootRun(t *testing.T) {
	handler := newServer(t, shop()).Handler()
	said := regexp.MustCompile(`Run <a [^>]*>…255b0001</a> of <a [^>]*><bdi>archive-orders</bdi>` +
		`</a> has run for <time [^>]*>1 h 7 min</time>, 7× usual\.`)
	for _, path := range []string{"/jobs/rollup-sales",
		"/jobs/rollup-sales/explain?at=2026-03-14T02:30:00Z"} {
		page := flat(get(t, handler, path).Body.String())
		if found := said.FindAllString(page, -1); len(found) != 1 {
			t.Errorf("%s has %d sentences about the root run, want 1", path, len(found))
			if at := strings.Index(page, " has run for "); at > 300 {
				t.Log(page[at-300 : at+200])
			}
		}
	}
}
