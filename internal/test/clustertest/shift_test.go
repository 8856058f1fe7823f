package clustertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

const (
	maxShift = 0.05 // in total, in the unit of the layout-shift entries of browsers
	updates  = 6    // of each page, at least; there is at most one a second
)

// watchShifts makes a page add up its layout shifts and count its updates. Browsers do not compare
// elements that an update replaces.
const watchShifts = `(() => {
	window.watched = {shift: 0, updates: 0, sources: []};
	const brief = (node) => ((node?.outerHTML ?? node?.textContent) || "").replace(/\s+/g, " ").slice(0, 100);
	new PerformanceObserver((list) => {
		for (const entry of list.getEntries()) {
			if (entry.hadRecentInput) continue;
			watched.shift += entry.value;
			watched.sources.push(entry.value.toFixed(4) + " " + brief(entry.sources[0]?.node));
		}
	}).observe({type: "layout-shift", buffered: true});
	document.addEventListener("htmx:afterSettle", () => watched.updates++);
	return true;
})()`

// TestPagesDoNotShift opens pages of a replica whose jobs run each second, and checks that live
// updates do not move their contents. A soak watches more pages for a minute, in wide and narrow
// windows. The short test has the two pages that moved most before, in a narrow window.
func TestPagesDoNotShift(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a browser, PostgreSQL and memcached")
	}
	const command = "  - {name: %s, handler: command, params: {command: [%s]}%s}\n"
	table := fmt.Sprintf(command, "talk", `sh, -c, "while date; do sleep 0.4; done"`, "") +
		fmt.Sprintf(command, "fail", `"false"`, ", schedule: {every: 1s}")
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
	c.awaitRuns(3, "job = 'fail' AND state = 'failed'")
	// Each tab needs connections of its own, because its stream of events takes one of six.
	browser := new(browsertest.Browser)
	t.Cleanup(func() {
		if err := browser.Stop(); err != nil {
			t.Error(err)
		}
	})
	type page struct {
		path   string
		tab    context.Context
		screen browsertest.Screen
	}
	screens := browsertest.Screens()
	var pages []page
	paths := []string{"/locks", "/jobs", "/", "/runs", "/runs/" + talk.ID}
	for _, screen := range soak.Pick(screens[:1], []browsertest.Screen{screens[0], screens[2]}) {
		for _, path := range soak.Pick(paths[:2], paths) {
			tab := browser.Tab(t, "responded with a status of 503") // while the machine is busy
			browsertest.Resize(t, tab, screen)
			browsertest.Visit(t, tab, replica.URL+path)
			browsertest.Evaluate[bool](t, tab, watchShifts)
			pages = append(pages, page{path, tab, screen})
		}
	}
	for _, p := range pages {
		browsertest.Until(t, p.tab, fmt.Sprintf("watched.updates >= %d && performance.now() > %d",
			updates, soak.Pick(0, time.Minute).Milliseconds()))
		got := browsertest.Evaluate[struct {
			Shift   float64
			Updates int
			Sources []string
		}](t, p.tab, "watched")
		t.Logf("%s, %s: a shift of %.4f in %d updates", p.path, p.screen.Name, got.Shift,
			got.Updates)
		if got.Shift > maxShift {
			t.Errorf("%s, %s: a shift of %.4f in %d updates, want at most %.2f: %q", p.path,
				p.screen.Name, got.Shift, got.Updates, maxShift,
				got.Sources[:min(len(got.Sources), 8)])
		}
		if err := chromedp.Do(p.tab, chromedp.Navigate("about:blank")); err != nil {
			t.Error(err)
		}
	}
}
