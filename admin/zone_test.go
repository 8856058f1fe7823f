package admin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// sendZone sends the form of the account menu for the time zone.
func sendZone(handler http.Handler, zone, next string) *httptest.ResponseRecorder {
	return accesstest.Ask(handler, http.MethodPost, "/zone", fromItsPage,
		accesstest.WithForm(url.Values{"zone": {zone}, "next": {next}}))
}

func TestZone(t *testing.T) {
	handler := newServer(t, calm()).Handler()
	reply := sendZone(handler, "utc", "/runs?job=a")
	cookies := reply.Result().Cookies()
	if got := reply.Header().Get("Location"); reply.Code != http.StatusSeeOther ||
		got != "/runs?job=a" || len(cookies) != 1 || cookies[0].Value != "utc" {
		t.Fatalf("got %d to %q with %v, want 303 to /runs?job=a with the zone", reply.Code, got,
			cookies)
	}
	page := accesstest.Ask(handler, http.MethodGet, "/runs", fromItsPage,
		accesstest.WithCookie(cookies[0])).Body.String()
	for _, want := range []string{`<html lang="en" data-times-in="utc">`,
		`value="utc" aria-pressed="true"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if cookies = sendZone(handler, "job", "/").Result().Cookies(); len(cookies) != 1 ||
		cookies[0].Value != "job" {
		t.Fatalf("cookies %v, want the zone of jobs", cookies)
	}
	for path, zone := range map[string]string{"/jobs/rollup-sales": "Europe/Berlin",
		"/jobs/rollup-sales/explain": "Europe/Berlin", "/runs?job=rollup-sales": "Europe/Berlin",
		"/runs/" + id(2).String(): "Europe/Berlin", "/": "", "/jobs": "", "/runs": ""} {
		page := accesstest.Ask(handler, http.MethodGet, path, fromItsPage,
			accesstest.WithCookie(cookies[0])).Body.String()
		want := `<html lang="en" data-times-in="job"`
		if zone != "" {
			want += ` data-job-zone="` + zone + `"`
		}
		if !strings.Contains(page, want+">") {
			t.Errorf("%s: the page lacks %s: %.100s", path, want, page)
		}
	}
	if cookies = sendZone(handler, "", "/").Result().Cookies(); len(cookies) != 1 ||
		cookies[0].MaxAge >= 0 {
		t.Errorf("cookies %v, want the zone deleted", cookies)
	}
	if reply := sendZone(handler, "Mars", "/"); reply.Code != http.StatusBadRequest {
		t.Errorf("an unknown zone gives %d, want 400", reply.Code)
	}
	if got := sendZone(handler, "utc", "https://evil.example/").Header().Get(
		"Location"); got != "/" {
		t.Errorf("the address of another site leads to %q, want /", got)
	}
}

// TestViewerChoosesUTCInABrowser chooses UTC in a browser in Tokyo, and returns to the zone of the
// browser.
func TestViewerChoosesUTCInABrowser(t *testing.T) {
	t.Parallel()
	window := tabInTokyo(t)
	site := siteIn(t, window, newServer(t, contention()).Handler())
	visit(t, window, screens()[2], site+"/runs?from=2026-03-13T12:00")
	choose := func(zone, clock, field string) {
		t.Helper()
		if err := chromedp.Do(window, chromedp.Click(".menu > summary"),
			chromedp.Click(`button[name="zone"][value="`+zone+`"]`)); err != nil {
			t.Fatal(err)
		}
		until(t, window, `document.querySelector(".fresh time").textContent == "`+clock+`"`)
		if got := evaluate[string](t, window,
			`document.getElementById("from").value`); got != field {
			t.Errorf("the field has %s, want %s", got, field)
		}
	}
	choose("utc", "03:12:15", "2026-03-13T12:00")
	choose("", "12:12:15", "2026-03-13T21:00")
}

// TestViewerChoosesTheZoneOfTheJobInABrowser chooses the zone of the job in a browser in Tokyo. The
// job is in Berlin, whose summer time begins two weeks later.
func TestViewerChoosesTheZoneOfTheJobInABrowser(t *testing.T) {
	t.Parallel()
	window := tabInTokyo(t)
	site := siteIn(t, window, newServer(t, actionOptions(busy())).Handler())
	text := func(expression string) string {
		return evaluate[string](t, window, expression)
	}
	const clock = `document.querySelector(".fresh time").textContent`
	const next = `[...document.querySelectorAll(".zones :is(th, td)")].slice(0, 6).filter((e) => e.checkVisibility()).map((e) => e.innerText.trim()).join(" | ")`
	visit(t, window, screens()[2], site+"/jobs/prune-orders")
	if got, want := text(next), "Europe/Berlin, job | Asia/Tokyo | From now | "+
		"2026-03-15 02:30:00 | 2026-03-15 10:30:00 | in 22 h 17 min"; got != want {
		t.Errorf("the next scheduled times are %s, want %s", got, want)
	}
	if err := chromedp.Do(window, chromedp.Click(".menu > summary"),
		chromedp.Click(`button[name="zone"][value="job"]`)); err != nil {
		t.Fatal(err)
	}
	until(t, window, clock+` == "04:12:15"`)
	if got, want := text(next), "Europe/Berlin | From now | 2026-03-15 02:30:00 | "+
		"in 22 h 17 min"; got != want {
		t.Errorf("in the zone of the job they are %s, want %s", got, want)
	}
	for expression, want := range map[string]string{
		`document.querySelector(".fresh time").title`: "2026-03-14 04:12:15 +01:00 " +
			"(2026-03-14 03:12:15 UTC)",
		`document.querySelector("[data-times]").textContent`: "All times are in " +
			"Europe/Berlin, unless another zone is shown.",
	} {
		if got := text(expression); got != want {
			t.Errorf("%s: got %q, want %q", expression, got, want)
		}
	}
	// summer time and winter time, and the hours between them
	for utc, berlin := range map[string]string{"2026-03-29T00:30": "2026-03-29T01:30",
		"2026-03-29T01:30": "2026-03-29T03:30", "2026-10-25T01:30": "2026-10-25T02:30",
		"2026-07-01T22:30": "2026-07-02T00:30"} {
		visit(t, window, screens()[2], site+"/runs?job=rollup-sales&from="+utc)
		const field = `document.getElementById("from").value`
		if got := text(field); got != berlin {
			t.Errorf("%s: the field reads %q, want %q", utc, got, berlin)
		}
		follow(t, window, `.tools > button`)
		if got := evaluate[string](t, window,
			`new URLSearchParams(location.search).get("from")`); got != utc+":00Z" {
			t.Errorf("%s is sent as %s", utc, got)
		}
	}
	night := `document.querySelector("a[data-night]").search`
	if got := text(night); !strings.Contains(got, "from=2026-03-13T19%3A00%3A00Z") ||
		!strings.Contains(got, "until=2026-03-14T05%3A00%3A00Z") {
		t.Errorf("the last night leads to %s", got)
	}
	visit(t, window, screens()[2], site+"/jobs/rollup-sales/explain?at=2026-03-13T19:00:00Z")
	if got := text(`document.getElementById("at").value`); got != "2026-03-13T20:00" {
		t.Errorf("the field of the explanation reads %q, want the time in Berlin", got)
	}
	visit(t, window, screens()[2], site+"/runs")
	if got := text(clock); got != "12:12:15" {
		t.Errorf("a page about several jobs reads %q, want Tokyo's time", got)
	}
}

// TestZoneOfAJobWithoutItsStore checks that a page whose store does not answer is in the zone of
// the browser, and that it does not ask for the zone of its job first.
func TestZoneOfAJobWithoutItsStore(t *testing.T) {
	o := calm()
	handler := newServer(t, o).Handler()
	cookie := accesstest.WithCookie(sendZone(handler, "job", "/").Result().Cookies()[0])
	ask := func() string {
		return accesstest.Ask(handler, http.MethodGet, "/jobs/rollup-sales", fromItsPage,
			cookie).Body.String()
	}
	if page := ask(); !strings.Contains(page, `data-job-zone="Europe/Berlin"`) {
		t.Fatalf("the page lacks the zone of its job: %.100s", page)
	}
	h, asked := o.Store.(*history), 0
	h.err, h.onJob = errors.New("connection refused"), func() { asked++ }
	for n := range 2 {
		asked = 0
		if page := ask(); strings.Contains(page, "data-job-zone") ||
			!strings.Contains(page, `class="stale"`) {
			t.Errorf("got %.100s, want the cached page in the zone of the browser", page)
		}
		if n > 0 && asked > 0 {
			t.Errorf("a store that does not answer was asked %d times for a job", asked)
		}
	}
}

// TestNoPageMixesZonesInABrowser checks in the time zone of Tokyo that no text of a page has a time
// in UTC. It checks a few pages, and in a soak every state of every page.
func TestNoPageMixesZonesInABrowser(t *testing.T) {
	t.Parallel()
	window := tabInTokyo(t)
	some := soak.Pick([]string{"explain", "run-skipped", "job-paused", "audit", "backfill",
		"trigger-refused-paused"}, nil)
	for _, state := range galleryStates() {
		if some != nil && !slices.Contains(some, state.name) {
			continue
		}
		server := newServer(t, state.options)
		if state.before != nil {
			state.before(t, server)
		}
		visit(t, window, screens()[2], siteIn(t, window, state.handler(server))+state.address())
		if found := evaluate[[]string](t, window, timesInUTC); len(found) > 0 {
			t.Errorf("%s has times in UTC: %q", state.name, found)
		}
	}
}

// timesInUTC lists the texts with a time in UTC. It leaves out what jobs and users wrote, hints
// about the form of a time, and keys of runs.
const timesInUTC = `(() => {
	const found = [];
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let node = walker.nextNode(); node; node = walker.nextNode()) {
		if (node.parentElement.closest("script, style, noscript, pre, code, .code, .log, .hint, .err")) continue;
		if (/such as \d/.test(node.data)) continue;
		if (/\d\d:\d\d(:\d\d)? UTC|T\d\d:\d\d:\d\d(\.\d+)?Z/.test(node.data)) found.push(node.data.trim());
	}
	return found;
})()`
