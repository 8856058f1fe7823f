package clustertest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
	"github.com/holdfast-dev/holdfast/internal/test/replicas"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

const (
	maxShift = 0.05 // in total, in the unit of the layout-shift entries of browsers
	updates  = 6    // of each page, at least; there is at most one a second
)

// watchShifts makes a page add up its layout shifts and count its updates. Browsers compare only
// elements that stay, so it also counts the elements that do. A new problem may move the page.
const watchShifts = `(() => {
	const first = document.querySelectorAll("#live, main, main h1, main h2, main .panel, .tile");
	window.watched = {shift: 0, updates: 0, sources: [], first: first.length,
		kept: () => [...first].filter((e) => e.isConnected).length};
	const brief = ({node, previousRect: a, currentRect: b}) => [node?.nodeName, node?.className,
		node?.textContent, a.x, a.y, "to", b.x, b.y].join(" ").replace(/\s+/g, " ").slice(-100);
	const problems = () => [...document.querySelectorAll(".problems li, main > .note")].map(
		(e) => e.textContent.trim().replace(/\s+/g, " "));
	let known = problems();
	new PerformanceObserver((list) => {
		const before = known, grown = (known = problems()).length > before.length;
		const other = [...before.filter((text) => !known.includes(text)).map((text) => "ended: " + text),
			...known.filter((text) => !before.includes(text)).map((text) => "new: " + text)];
		for (const entry of list.getEntries()) {
			if (entry.hadRecentInput || grown) continue;
			watched.shift += entry.value;
			watched.sources.push(entry.value.toFixed(4) + ": " + [...entry.sources.slice(0, 2).map(brief), ...other].join("; "));
		}
	}).observe({type: "layout-shift", buffered: true});
	document.addEventListener("htmx:afterSettle", () => watched.updates++);
	return true;
})()`

// watchedPage is a page whose updates a test watches.
type watchedPage struct {
	path     string
	scrolled bool // to its middle
}

func (p watchedPage) String() string {
	if p.scrolled {
		return p.path + ", scrolled"
	}
	return p.path
}

// atOnce is the number of pages that are open at the same time. There are few, so that a busy
// machine has time for their updates, and enough, because a cluster ends after clusterLimit.
const atOnce = 7

// watchedPages returns the pages that TestPagesDoNotShift watches.
func watchedPages(run string) []watchedPage {
	pages := []watchedPage{{path: "/"}, {path: "/locks"}, {path: "/runs"}, {path: "/runs/" + run},
		{path: "/locks/timeline"}, {path: "/backfills"}, {"/", true}, {"/locks", true}}
	for _, path := range []string{"/jobs", "/jobs/shared-0", "/grid", "/replicas", "/audit"} {
		pages = append(pages, watchedPage{path: path})
	}
	for _, path := range []string{"/runs", "/locks/timeline", "/backfills", "/jobs",
		"/jobs/shared-0", "/grid", "/replicas", "/audit"} {
		pages = append(pages, watchedPage{path, true})
	}
	return pages
}

// TestPagesDoNotShift opens the live pages of a replica whose jobs fire nine times a second, in
// narrow and wide windows, and checks for a minute that updates keep their elements and do not move
// them. Runs are triggered and backfills begin meanwhile. Some pages are scrolled to their middle.
// In package admin, TestLivePartIsReplaced and TestEntriesKeepTheirPlaces check single updates.
func TestPagesDoNotShift(t *testing.T) {
	t.Parallel()
	soak.Only(t)
	screens := browsertest.Screens()
	for _, screen := range []browsertest.Screen{screens[0], screens[2]} {
		t.Run(screen.Name, func(t *testing.T) { checkShifts(t, screen) })
	}
}

func checkShifts(t *testing.T, screen browsertest.Screen) {
	const command = "  - {name: %s, handler: command, params: {command: [%s]}%s}\n"
	table := fmt.Sprintf(command, "talk", `sh, -c, "while date; do sleep 0.4; done"`, "") +
		fmt.Sprintf(command, "fail", `"false"`, ", schedule: {every: 1s}") +
		fmt.Sprintf(command, "fail-with-a-name-that-fills-more-than-one-line-of-a-phone",
			`"false"`, ", schedule: {every: 2s}") +
		fmt.Sprintf(command, "past", `sleep, "0.3"`, ", schedule: {every: 1h}") +
		fmt.Sprintf(command, "poked", `"true"`, ", overlap: allow")
	for i := range 4 {
		table += ledgerJob(fmt.Sprintf("alone-%d", i), fmt.Sprintf("alone_%d", i),
			"schedule: {every: 1s}", fmt.Sprintf("takes: %dms", 100+200*i)) +
			ledgerJob(fmt.Sprintf("shared-%d", i), "shared", "schedule: {every: 2s}",
				"takes: 400ms")
	}
	c := newCluster(t, settings{jobs: table,
		wait: "{attempts: 0, elapsed: 1500ms, delay: 50ms, backoff: constant}"})
	c.start("a")
	replica := c.replicas["a"]
	if status, answer := c.post(replica, "/api/v1/jobs/talk/trigger", `{}`); status != 200 {
		t.Fatalf("trigger: %d %s", status, answer)
	}
	talk := c.awaitRun("job = 'talk' AND state = 'running'")
	// Until the lists of the overview are full, each new entry moves the elements below them.
	c.awaitRuns(10, "state = 'failed'")
	c.awaitRuns(15, "finished_at IS NOT NULL")
	stop := act(t, replica)
	defer stop()
	// Each tab needs connections of its own, because its stream of events takes one of six.
	browser := new(browsertest.Browser)
	t.Cleanup(func() {
		if err := browser.Stop(); err != nil {
			t.Error(err)
		}
	})
	for some := range slices.Chunk(watchedPages(talk.ID), atOnce) {
		var tabs []context.Context
		for _, page := range some {
			tab := browser.Tab(t, "responded with a status of 503") // while the machine is busy
			browsertest.Resize(t, tab, screen)
			browsertest.Visit(t, tab, replica.URL+page.path)
			if page.scrolled {
				browsertest.Await[bool](t, tab, scrollToMiddle)
			}
			browsertest.Evaluate[bool](t, tab, watchShifts)
			tabs = append(tabs, tab)
		}
		for i, tab := range tabs {
			checkShift(t, tab, screen.Name+" "+some[i].String())
		}
	}
}

// scrollToMiddle scrolls a page before its shifts are watched.
const scrollToMiddle = `new Promise((done) => {
	scrollTo(0, document.documentElement.scrollHeight / 2);
	requestAnimationFrame(() => requestAnimationFrame(() => done(true)));
})`

// act triggers runs and begins backfills until the returned function is called.
func act(t *testing.T, replica *replicas.Process) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	hour := time.Now().UTC().Truncate(time.Hour).Add(-20 * 24 * time.Hour)
	// 409, 404: a backfill is active, or has just ended; 503: the machine is busy
	accepted := []int{http.StatusOK, http.StatusCreated, http.StatusConflict, http.StatusNotFound,
		http.StatusServiceUnavailable}
	go func() {
		pause := time.NewTicker(700 * time.Millisecond)
		defer pause.Stop()
		for n := 0; ; n++ {
			path, body := "/api/v1/jobs/poked/trigger", "{}"
			if n%4 == 0 { // a few scheduled times that have no run
				from := hour.Add(time.Duration(n) * time.Hour)
				path, body = "/api/v1/jobs/past/backfill", fmt.Sprintf(`{"from": %q, "to": %q}`,
					from.Format(time.RFC3339), from.Add(3*time.Hour).Format(time.RFC3339))
			}
			status, answer, err := post(ctx, replica, path, body)
			switch {
			case ctx.Err() != nil:
				ended <- nil
				return
			case err != nil || !slices.Contains(accepted, status):
				ended <- fmt.Errorf("%s: got %d %s (%v)", path, status, answer, err)
				return
			}
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		}
	}()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// checkShift waits for the updates of a tab, and checks that its elements kept their places.
func checkShift(t *testing.T, tab context.Context, page string) {
	t.Helper()
	browsertest.Until(t, tab, fmt.Sprintf("watched.updates >= %d && performance.now() > %d",
		updates, time.Minute.Milliseconds()))
	got := browsertest.Evaluate[struct {
		Shift       float64
		Updates     int
		Sources     []string
		First, Kept int
	}](t, tab, "({...watched, kept: watched.kept()})")
	slices.Sort(got.Sources)
	slices.Reverse(got.Sources) // the largest first
	got.Sources = got.Sources[:min(len(got.Sources), 8)]
	t.Logf("%s: a shift of %.4f in %d updates, %d of %d elements stay: %q", page, got.Shift,
		got.Updates, got.Kept, got.First, got.Sources)
	if got.Kept < got.First {
		t.Errorf("%s: %d of %d elements stay, want all", page, got.Kept, got.First)
	}
	if got.Shift > maxShift {
		t.Errorf("%s: a shift of %.4f in %d updates, want at most %.2f: %q", page, got.Shift,
			got.Updates, maxShift, got.Sources)
	}
	if err := chromedp.Do(tab, chromedp.Navigate("about:blank")); err != nil {
		t.Error(err)
	}
}
