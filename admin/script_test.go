package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// hasty returns a server whose pages refresh each second, which is more often than the options
// allow.
func hasty(t *testing.T, o Options) *Server {
	t.Helper()
	server := newServer(t, o)
	server.site.Refresh = time.Second
	return server
}

func evaluate[T any](t *testing.T, window context.Context, expression string) T {
	t.Helper()
	return browsertest.Evaluate[T](t, window, expression)
}

func until(t *testing.T, window context.Context, expression string) {
	t.Helper()
	browsertest.Until(t, window, expression)
}

// tabInTokyo opens a tab whose browser is in the time zone of Tokyo, +09:00.
func tabInTokyo(t *testing.T) context.Context {
	t.Helper()
	window := tab(t)
	if _, err := chromedp.Call(window, emulation.SetTimezoneOverride,
		emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Tokyo"}); err != nil {
		t.Fatal(err)
	}
	return window
}

// TestTimesAreInTheTimeZoneOfTheViewer checks a page in the time zone of Tokyo, where some of its
// times are on the next day.
func TestTimesAreInTheTimeZoneOfTheViewer(t *testing.T) {
	t.Parallel()
	window := tabInTokyo(t)
	site := siteIn(t, window, newServer(t, contention()).Handler())
	visit(t, window, screens()[2], site+"/runs/"+id(10).String())
	text := func(selector string) string {
		return evaluate[string](t, window, `document.querySelector('`+selector+`').textContent`)
	}
	title := func(selector string) string {
		return evaluate[string](t, window, `document.querySelector('`+selector+`').title`)
	}
	if got := text(".fresh time"); got != "12:12:15" {
		t.Errorf("the store's time reads %q, want Tokyo's", got)
	}
	if got, want := title(".fresh time"),
		"2026-03-14 12:12:15 +09:00 (2026-03-14 03:12:15 UTC)"; got != want {
		t.Errorf("on hover it reads %q, want %q", got, want)
	}
	if got, want := title(".lead time:nth-of-type(2)"),
		"since 2026-03-14 11:30:08 +09:00 (2026-03-14 02:30:08 UTC)"; got != want {
		t.Errorf("since when reads %q, want %q", got, want)
	}
	const zone = "All times are in Asia/Tokyo, unless another zone is shown."
	if got := text("[data-times]"); got != zone {
		t.Errorf("the page says %q", got)
	}
	visit(t, window, screens()[2], site+"/runs")
	last := `[...document.querySelectorAll(".runs .whole time")].at(-1).textContent`
	if got := evaluate[string](t, window, last); got != "2026-03-13 10:12:15" {
		t.Errorf("the day before reads %q", got)
	}
}

// TestTextsAreInTheTimeZoneOfTheViewerInABrowser checks in the time zone of Tokyo the sentences and
// the tooltips of charts that contain times.
func TestTextsAreInTheTimeZoneOfTheViewerInABrowser(t *testing.T) {
	t.Parallel()
	const sentence, tooltip = "[data-says]", "svg title"
	window := tabInTokyo(t)
	type text struct {
		name     string
		options  Options
		path     string
		selector string
		has      []string
	}
	rare := []text{{"end of the upcoming conflicts", rush(), "/locks/upcoming", sentence,
		[]string{"simulation ends after 50,000 scheduled times, at 13:30:00"}}} // it takes seconds
	for _, c := range append(soak.Pick(nil, rare), []text{
		{"explanation", explainedJob(t, "UTC"),
			"/jobs/rollup-sales/explain?at=2026-03-12T02:31:00Z", sentence,
			[]string{"It is not due at 2026-03-12 11:31:00: "}},
		{"explanation of a job in another zone", explainedJob(t, "America/New_York"),
			"/jobs/rollup-sales/explain?at=2026-03-12T02:31:00Z", sentence,
			[]string{"It is not due at 2026-03-12 11:31:00: the scheduled time before is " +
				"2026-03-12 11:30:00, the next is 2026-03-12 11:35:00."}},
		{"reason of a missed run", pausedThen(t), "/runs/" + id(34).String(), sentence,
			[]string{"job prune-logs was paused by anna at 2026-03-13 09:00:00 and resumed by " +
				"bob at 2026-03-13 11:30:00"}},
		{"last firing of a job", pausedThen(t), "/jobs/prune-logs", sentence,
			[]string{"paused by anna at 2026-03-13 09:00:00"}},
		{"reasons of listed runs", pausedThen(t), "/runs?state=missed", sentence,
			[]string{"paused by anna at 2026-03-13 09:00:00"}},
		{"refused trigger", actionOptions(contention(), paused(storage.Target{
			Kind: storage.TargetAll}, "")), "/jobs/rollup-sales/trigger", sentence,
			[]string{"everything is paused since 10:08:15 by anna"}},
		{"omitted runs of the timeline", crowd(), "/locks/timeline?span=24h", sentence,
			[]string{"are drawn, since 11:47:55: zoom in"}},
		{"histogram", contention(), "/", tooltip, []string{
			"2026-03-13 16:15:00, 15 min: 150 succeeded", "12:00:00, 15 min: 31 succeeded",
			"2026-03-13 16:45:00, 15 min: 1 failed", "10:15:00, 15 min: at most 10 ms"}},
		{"outcomes of jobs", busy(), "/jobs", tooltip, []string{"12:07:15 succeeded after "}},
		{"job", busy(), "/jobs/rollup-sales", tooltip, []string{"12:07:15 succeeded after "}},
		{"timeline", night(), "/locks/timeline", tooltip, []string{
			"rollup-sales succeeded after 1 min 55 s, from 11:11:20 to 11:13:15"}},
		{"agenda", hourly(), "/agenda?span=1h", sentence, []string{
			"scheduled until 13:12:15"}},
		{"bars of the agenda", hourly(), "/agenda?span=1h", tooltip, []string{
			"report scheduled 13:05:00, waits 5 min"}},
		{"attempts", story(), "/runs/" + id(302).String(), tooltip, []string{
			"Waited for public/vendors, held by report/weekly, from 12:08:15 to 12:08:25", "Attempt 1 ran from 12:08:25 to 12:08:37"}},
	}...) {
		t.Run(c.name, func(t *testing.T) {
			server := newServer(t, c.options)
			handler := server.Handler()
			if strings.HasSuffix(c.path, "/trigger") {
				handler = galleryState{sent: sent()}.handler(server)
			}
			site := siteIn(t, window, handler)
			visit(t, window, screens()[2], site+c.path)
			texts := evaluate[[]string](t, window,
				`[...document.querySelectorAll("`+c.selector+`")].map((e) => e.textContent)`)
			for _, text := range texts {
				if strings.Contains(text, "UTC") {
					t.Errorf("%s reads %q, want Tokyo's time", c.selector, text)
				}
			}
			all := strings.Join(texts, "\n")
			for _, want := range c.has {
				if !strings.Contains(all, want) {
					t.Errorf("the %d texts of %s lack %q: %.300s", len(texts), c.selector, want,
						all)
				}
			}
		})
	}
}

// pausedThen returns a cluster with a missed run whose reason has times.
func pausedThen(t *testing.T) Options {
	t.Helper()
	o := contention()
	h := o.Store.(*history)
	index := slices.IndexFunc(h.runs, func(r storage.Record) bool { return r.ID == id(34) })
	if index < 0 {
		t.Fatal("the history has no missed run")
	}
	h.runs[index].Reason = reasons.Paused
	h.runs[index].Detail = "job prune-logs was paused by anna at 2026-03-13T00:00:00Z and " +
		"resumed by bob at 2026-03-13T03:30:00+01:00"
	return o
}

// TestCountersTick checks a page that does not refresh. Its durations must grow, and the time until
// the next firing must shrink to zero.
func TestCountersTick(t *testing.T) {
	t.Parallel()
	window := tab(t)
	o := contention()
	site := siteIn(t, window, newServer(t, o).Handler())
	visit(t, window, screens()[2], site+"/?refresh=off")
	until(t, window, `[...document.querySelectorAll("#run-`+id(11).String()+
		` [data-tick=up]")].some((e) => parseInt(e.textContent) > 5)`)
	until(t, window, `document.querySelector("[aria-labelledby=next] [data-tick=down]")`+
		`.textContent === "now"`)
}

// movedByCounters advances the clock of the page second by second. It returns the first elements
// that are then higher or lower, and how many times have counted.
const movedByCounters = `(() => {
	const all = (selector) => [...document.querySelectorAll(selector)];
	const place = () => all("main *").map((e) => [e, e.getBoundingClientRect()]);
	const times = () => all("main time[data-tick]").map((e) => e.textContent);
	const moved = [], now = Date.now, first = times();
	let before = place();
	for (let s = 1; s <= 125 && moved.length < 3; s++) {
		Date.now = () => now() + s * 1000;
		document.dispatchEvent(new Event("visibilitychange"));
		const after = place();
		const at = before.findIndex(([, was], i) => Math.abs(was.top - after[i][1].top) > 1);
		if (at >= 0) moved.push("after " + s + " s: " + before[at][0].outerHTML.slice(0, 100));
		before = after;
	}
	return {moved, counted: times().filter((text, i) => text !== first[i]).length};
})()`

// TestCountersDoNotMoveThePageInABrowser checks that nothing becomes higher or lower when a time
// that counts becomes longer or shorter, for example from 59 s to 1 min to 1 min 1 s.
func TestCountersDoNotMoveThePageInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := siteIn(t, window, newServer(t, actionOptions(contention())).Handler())
	for n, path := range []string{"/", "/locks", "/jobs", "/jobs/rollup-sales"} {
		sizes := []screen{screens()[0], screens()[2]}
		for _, s := range soak.Pick(sizes[n%2:n%2+1], sizes) {
			visit(t, window, s, site+path+"?refresh=off")
			got := evaluate[struct {
				Moved   []string
				Counted int
			}](t, window, movedByCounters)
			if len(got.Moved) > 0 || got.Counted == 0 {
				t.Errorf("%s, %s: %d times counted, and moved %s", path, s.Name, got.Counted,
					strings.Join(got.Moved, "\n"))
			}
		}
	}
}

// TestExplainedTimeIsInTheFieldInTheZoneOfThePageInABrowser follows a link to an explanation, which
// has the time in UTC, and sends the form as it is.
func TestExplainedTimeIsInTheFieldInTheZoneOfThePageInABrowser(t *testing.T) {
	t.Parallel()
	window := tabInTokyo(t)
	site := siteIn(t, window, newServer(t, explainedJob(t, "America/New_York")).Handler())
	visit(t, window, screens()[2], site+"/jobs/rollup-sales/explain?at=2026-03-12T02:30:00Z")
	const field, explained = `document.getElementById("at").value`,
		`document.querySelector("h1 time").dateTime`
	if got := evaluate[string](t, window, field); got != "2026-03-12T11:30" {
		t.Errorf("the field reads %q, want Tokyo's time", got)
	}
	follow(t, window, `form[action$="/explain"] button`)
	if got := evaluate[string](t, window, explained); got != "2026-03-12T02:30:00Z" {
		t.Errorf("the form asks about %s, want the same time", got)
	}
	if got := evaluate[string](t, window, field); got != "2026-03-12T11:30" {
		t.Errorf("the field reads %q after it was sent, want the same time", got)
	}
}

// TestTimesAreFilledInByTheViewersClock sends a form from the time zone of Tokyo.
func TestTimesAreFilledInByTheViewersClock(t *testing.T) {
	t.Parallel()
	window := tabInTokyo(t)
	site := siteIn(t, window, newServer(t, contention()).Handler())
	visit(t, window, screens()[2], site+"/runs?from=2026-03-13T20:00")
	if got := evaluate[string](t, window,
		`document.getElementById("from").value`); got != "2026-03-14T05:00" {
		t.Errorf("the field reads %q, want Tokyo's time", got)
	}
	if err := chromedp.Do(window, chromedp.Click(`.tools > button`)); err != nil {
		t.Fatal(err)
	}
	until(t, window,
		`location.search.includes("from=2026-03-13T20%3A00%3A00Z") && document.readyState == "complete"`)
	if got := evaluate[string](t, window,
		`document.getElementById("from").value`); got != "2026-03-14T05:00" {
		t.Errorf("after it was sent the field reads %q", got)
	}
}

// TestLivePartIsReplaced checks that a refresh shows new data and keeps the focus, and that the
// page says when the replica no longer replies.
func TestLivePartIsReplaced(t *testing.T) {
	t.Parallel()
	o := contention()
	h := o.Store.(*history)
	var gone atomic.Bool
	var mu sync.RWMutex // guards the history
	handler := hasty(t, o).Handler()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gone.Load() {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				err = conn.Close()
			}
			if err != nil {
				t.Error(err)
			}
			return
		}
		mu.RLock()
		defer mu.RUnlock()
		handler.ServeHTTP(w, r)
	}))
	defer site.Close()
	window := chromium.Tab(t, "") // the test causes errors on the console
	visit(t, window, screens()[2], site.URL+"/replicas")
	evaluate[bool](t, window, `(() => {
		const link = document.querySelector('.inner a[href="/jobs/report%2Fweekly"]');
		link.closest("details").open = true;
		link.focus();
		return true;
	})()`)
	mu.Lock()
	h.replicas = append(h.replicas[:3:3], liveReplica(9, "replica-9", time.Second, 0))
	mu.Unlock()
	until(t, window, `document.body.textContent.includes("replica-9")`)
	if got := evaluate[string](t, window,
		`document.activeElement.getAttribute("href")`); got != "/jobs/report%2Fweekly" {
		t.Errorf("the focus is on %q", got)
	}
	if !evaluate[bool](t, window, `document.querySelector(".offline").hidden`) {
		t.Error("note that the replica does not answer: got one, want none")
	}
	gone.Store(true)
	until(t, window, `!document.querySelector(".offline").hidden`)
	if !strings.Contains(evaluate[string](t, window, `document.body.textContent`), "replica-9") {
		t.Error("content after the replica stopped: got none, want the last content")
	}
	gone.Store(false)
	until(t, window, `document.querySelector(".offline").hidden`)
}

// TestPageSaysThatALoadBalancerAnswers checks that the page says when a refresh gets an answer that
// is no page: that of a load balancer without replicas, or a message of a replica.
func TestPageSaysThatALoadBalancerAnswers(t *testing.T) {
	t.Parallel()
	window := tab(t)
	for _, body := range []string{"503 Service Unavailable",
		"<!doctype html><title>Holdfast</title><main>Too many connections.</main>"} {
		var gone atomic.Bool
		handler := hasty(t, contention()).Handler()
		site := siteIn(t, window, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if gone.Load() {
				http.Error(w, body, http.StatusServiceUnavailable)
				return
			}
			handler.ServeHTTP(w, r)
		}))
		visit(t, window, screens()[2], site+"/replicas")
		if !evaluate[bool](t, window, `document.querySelector(".offline").hidden`) {
			t.Error("note that the replica does not answer: got one, want none")
		}
		gone.Store(true)
		until(t, window, `!document.querySelector(".offline").hidden`)
		if !strings.Contains(evaluate[string](t, window, `document.body.textContent`), "replica-4") {
			t.Error("got no content, want the last content")
		}
		gone.Store(false)
		until(t, window, `document.querySelector(".offline").hidden`)
	}
}

// TestRefreshShowsARefusal checks that a page shows the message of the replica if a refresh is
// refused, and keeps its content if there are too many requests.
func TestRefreshShowsARefusal(t *testing.T) {
	t.Parallel()
	window := chromium.Tab(t, "responded with a status of 4", "Response Status Error Code 4")
	for _, c := range []struct {
		status int
		title  string
		shown  bool
	}{
		{http.StatusForbidden, "Refused · Holdfast", true},
		{http.StatusNotFound, "Refused · Holdfast", true},
		{http.StatusNotFound, "A load balancer", false},
		{http.StatusTooManyRequests, "Refused · Holdfast", false},
	} {
		var gone atomic.Bool
		handler := hasty(t, contention()).Handler()
		site := siteIn(t, window, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if gone.Load() {
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(c.status)
				fmt.Fprintf(w, "<!doctype html><title>%s</title><h1>Refused</h1>", c.title)
				return
			}
			handler.ServeHTTP(w, r)
		}))
		visit(t, window, screens()[2], site+"/replicas")
		gone.Store(true)
		if c.shown {
			until(t, window, `document.querySelector("h1").textContent === "Refused"`)
		} else {
			until(t, window, `!document.querySelector(".offline").hidden`)
		}
	}
}

// TestRefreshOfABusyReplicaInABrowser checks that a refresh leaves the page as it is if a busy
// replica answers without content.
func TestRefreshOfABusyReplicaInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	var busy atomic.Bool
	var refused atomic.Int64
	handler := hasty(t, contention()).Handler()
	site := siteIn(t, window, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if busy.Load() && r.Header.Get("HX-Request") != "" && refused.Add(1) <= 2 {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	visit(t, window, screens()[2], site+"/replicas")
	evaluate[bool](t, window, `(() => {
	window.noted = window.refused = window.swapped = 0;
	document.addEventListener("htmx:afterRequest", (event) => {
		if (event.detail.xhr.status === 204) window.refused++;
		if (!document.querySelector(".offline").hidden) window.noted++;
	});
	document.addEventListener("htmx:afterSwap", () => {
		if (window.refused > 0) window.swapped++;
	});
	return true;
})()`)
	busy.Store(true)
	until(t, window, `window.swapped > 0`)
	if got := evaluate[int](t, window, `window.refused`); got != 2 {
		t.Errorf("got %d refreshes without content on this page, want 2", got)
	}
	if got := evaluate[int](t, window, `window.noted`); got != 0 {
		t.Errorf("got %d notes that the replica does not answer, want none", got)
	}
}

// TestSignedOutPageGoesToSignIn checks that a page opens the sign-in when a refresh finds that its
// user is signed out.
func TestSignedOutPageGoesToSignIn(t *testing.T) {
	t.Parallel()
	o := contention()
	o.Users, o.Hosts = []User{user(t, "anna", "correct horse", Operator)}, []string{accesstest.Host}
	handler := hasty(t, o).Handler()
	cookie := accesstest.CookieOf(t, handler, "anna", "correct horse")
	var out atomic.Bool
	window := tab(t)
	site := siteIn(t, window, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !out.Load() {
			r.AddCookie(cookie)
		}
		handler.ServeHTTP(w, r)
	}))
	visit(t, window, screens()[2], site+"/")
	out.Store(true)
	until(t, window, `location.pathname == "/login" && document.getElementById("password") != null`)
}

// TestPageWithoutScripts checks that a page without scripts reloads itself and shows its times in
// UTC.
func TestPageWithoutScripts(t *testing.T) {
	t.Parallel()
	o := contention()
	handler := hasty(t, o).Handler()
	var asked atomic.Int64
	window := tab(t)
	site := siteIn(t, window, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			asked.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	if _, err := chromedp.Call(window, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	visit(t, window, screens()[2], site+"/")
	for deadline := time.Now().Add(time.Minute); asked.Load() < 3; {
		if time.Now().After(deadline) {
			t.Fatalf("the page asked %d times", asked.Load())
		}
		time.Sleep(10 * time.Millisecond) // there is no event for a reload by the browser
	}
}

// TestLastNightIsTheViewersNightInABrowser checks in the time zone of Tokyo that the link to last
// night selects the viewer's night.
func TestLastNightIsTheViewersNightInABrowser(t *testing.T) {
	t.Parallel()
	window := tabInTokyo(t)
	site := siteIn(t, window, newServer(t, contention()).Handler())
	visit(t, window, screens()[2], site+"/runs?job=rollup-sales")
	link := evaluate[string](t, window,
		`document.querySelector("[data-night]").getAttribute("href")`)
	if want := "/runs?from=2026-03-13T11%3A00%3A00Z&job=rollup-sales&" +
		"until=2026-03-13T21%3A00%3A00Z"; link != want {
		t.Errorf("the link is %s, want %s", link, want)
	}
	visit(t, window, screens()[2], site+link)
	if got := evaluate[string](t, window,
		`document.querySelector("[data-night]").getAttribute("aria-current") ?? ""`); got != "true" {
		t.Errorf("the link of the shown night has aria-current %q, want true", got)
	}
}

// TestCurrentPageIsInSightInANarrowWindowInABrowser checks that the last entry of the navigation is
// visible when its page is open.
func TestCurrentPageIsInSightInANarrowWindowInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := siteIn(t, window, newServer(t, contention()).Handler())
	visit(t, window, screens()[0], site+"/audit")
	if !evaluate[bool](t, window, `(() => {
		const box = document.querySelector(".nav [aria-current]").getBoundingClientRect();
		return box.left >= 0 && box.right <= innerWidth;
	})()`) {
		t.Error("the current page is out of sight")
	}
}

// TestThemeByClickingInABrowser chooses the dark theme without scripts while the system's theme is
// light.
func TestThemeByClickingInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	if _, err := chromedp.Call(window, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	site := siteIn(t, window, newServer(t, contention()).Handler())
	visit(t, window, screens()[2], site+"/runs?job=rollup-sales")
	const ground = `getComputedStyle(document.body).backgroundColor`
	if got := evaluate[string](t, window, ground); got != "rgb(243, 245, 247)" {
		t.Fatalf("the light ground is %s", got)
	}
	if err := chromedp.Do(window, chromedp.Click(".menu summary")); err != nil {
		t.Fatal(err)
	}
	follow(t, window, `.menu [value="dark"]`)
	if got := evaluate[string](t, window, ground); got != "rgb(15, 18, 21)" {
		t.Errorf("the dark ground is %s", got)
	}
	if got := evaluate[string](t, window, `location.pathname + location.search`); got !=
		"/runs?job=rollup-sales" {
		t.Errorf("the form leads to %s", got)
	}
}
