package admin

import (
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestRefreshKeepsRows changes the jobs of a page. Rows of jobs that are still listed must be the
// same elements as before with the new text, at their new places. The focus and a ticked box must
// stay.
func TestRefreshKeepsRows(t *testing.T) {
	t.Parallel()
	window := tab(t)
	o := actionOptions(contention())
	h := o.Store.(*history)
	handler := hasty(t, o).Handler()
	var mu sync.RWMutex // guards the history
	site := siteIn(t, window, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.RLock()
		defer mu.RUnlock()
		handler.ServeHTTP(w, r)
	}))
	visit(t, window, screens()[3], site+"/jobs")
	row := func(name string) string {
		return `[...document.querySelectorAll("tbody tr")]` +
			`.find((e) => e.querySelector(".name").textContent === "` + name + `")`
	}
	evaluate[bool](t, window, `(() => {
	window.rows = {news: `+row("rollup-sales")+`, stays: `+row("report/weekly")+`, live: document.getElementById("live")};
	window.swapped = 0;
	document.addEventListener("htmx:afterSwap", () => window.swapped++);
	rows.stays.querySelector(".pick").checked = true;
	rows.stays.querySelector("a").focus();
	return rows.news != null && !!`+row("merge-events")+`;
})()`)
	mu.Lock()
	h.jobs = slices.DeleteFunc(slices.Clone(h.jobs), func(v storage.JobView) bool {
		return v.Name == "merge-events"
	})
	for i := range h.jobs {
		if h.jobs[i].Name == "rollup-sales" {
			h.jobs[i].Description = "Has a new description"
		}
	}
	h.jobs = append(h.jobs, job("a-new-job", "@daily", "orders"))
	h.mu.Lock()
	h.indexes = nil
	h.mu.Unlock()
	mu.Unlock()
	until(t, window, row("a-new-job")+` != null`)
	until(t, window, `window.swapped > 1`)
	for what, is := range map[string]string{
		"the live part is the same":    `rows.live === document.getElementById("live")`,
		"a row that stays is the same": `rows.stays === ` + row("report/weekly"),
		"a row with news is the same":  `rows.news === ` + row("rollup-sales"),
		"the row has the news":         `rows.news.textContent.includes("Has a new description")`,
		"another row is gone":          row("merge-events") + ` == null`,
		"the new row is the first":     row("a-new-job") + ` === document.querySelector("tbody tr")`,
		"the focus stays":              `document.activeElement === rows.stays.querySelector("a")`,
		"the box of the row is ticked": `rows.stays.querySelector(".pick").checked`,
		"no other box is ticked":       `document.querySelectorAll(".pick:checked").length === 1`,
	} {
		if !evaluate[bool](t, window, is) {
			t.Errorf("after a refresh, not so: %s", what)
		}
	}
}

// TestRefreshIsThePage refreshes live pages after their content changed. The result must be the
// page that the server sent, apart from the places of entries in lists that keep them.
func TestRefreshIsThePage(t *testing.T) {
	t.Parallel()
	window := tab(t)
	before, after := contention(), calm()
	var mu sync.RWMutex // guards the choice
	serving := hasty(t, before).Handler()
	next := hasty(t, after).Handler()
	site := siteIn(t, window, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.RLock()
		defer mu.RUnlock()
		serving.ServeHTTP(w, r)
	}))
	for _, path := range []string{"/", "/jobs", "/runs", "/locks", "/replicas",
		"/jobs/rollup-sales", "/locks/timeline", "/grid", "/backfills", "/audit"} {
		visit(t, window, screens()[3], site+path)
		evaluate[bool](t, window,
			`window.swapped = 0, document.addEventListener("htmx:afterSwap", () => window.swapped++), true`)
		mu.Lock()
		serving, next = next, serving
		mu.Unlock()
		until(t, window, `window.swapped > 1`)
		refreshed := evaluate[string](t, window, wholePage)
		if lanes := evaluate[string](t, window, keptLanes); lanes != "" {
			path += "?lanes=" + lanes // the timeline keeps them
		}
		visit(t, window, screens()[3], site+path)
		loaded := evaluate[string](t, window, wholePage)
		if refreshed != loaded {
			at := 0
			for at < min(len(refreshed), len(loaded)) && refreshed[at] == loaded[at] {
				at++
			}
			from := max(0, at-200)
			t.Errorf("%s: a refreshed page differs from a loaded one:\n%s\nwant\n%s", path,
				refreshed[from:min(at+300, len(refreshed))], loaded[from:min(at+300, len(loaded))])
		}
		mu.Lock()
		serving, next = next, serving
		mu.Unlock()
	}
}

// keptLanes is the parameter lanes of the updates of a page.
const keptLanes = `JSON.parse(document.getElementById("live").getAttribute("hx-vals") || "{}").lanes || ""`

// wholePage is the live part without what differs between two moments: the counters, the state of
// the stream of events, which folds are open, and what keeps the page in its place, such as the
// order of lists, entries that left and the number of new runs.
const wholePage = `(() => {
	const copy = document.getElementById("live").cloneNode(true);
	for (const e of copy.querySelectorAll("details")) e.removeAttribute("open");
	for (const e of copy.querySelectorAll("[tabindex]")) e.removeAttribute("tabindex");
	for (const e of copy.querySelectorAll("[data-tick]")) e.textContent = "";
	for (const e of copy.querySelectorAll("[data-left], .low p + p")) e.remove();
	for (const e of copy.querySelectorAll("[style]")) e.removeAttribute("style");
	for (const e of [...copy.querySelectorAll("[data-slots]")].reverse()) {
		e.replaceChildren(...[...e.children].sort((a, b) => a.outerHTML < b.outerHTML ? -1 : 1));
	}
	for (const name of ["data-events", "class", "hx-vals"]) copy.removeAttribute(name);
	return copy.outerHTML.replace(/\s+/g, " ");
})()`
