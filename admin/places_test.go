package admin

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestNewRunsWait updates the first page of runs after new ones. The page must keep its runs, with
// their current states, and count the new ones.
func TestNewRunsWait(t *testing.T) {
	o := contention()
	h := o.Store.(*history)
	handler := newServer(t, o).Handler()
	newest := h.runs[0].CreatedAt
	update := "/runs?newest=" + newest.UTC().Format(time.RFC3339Nano)
	if body := get(t, handler, "/runs").Body.String(); !strings.Contains(body,
		`hx-vals='{"newest": "`+newest.UTC().Format(time.RFC3339Nano)+`"}'`) {
		t.Error("the page does not name its newest run to its updates")
	}
	h.runs[0].State, h.runs[0].FinishedAt = jobs.Succeeded, pointer(noon)
	for _, c := range []struct {
		add  int
		want string
	}{
		{0, ""}, {1, `<p>1 new run. <a href="/runs">Show</a></p>`},
		{1, `<p>2 new runs. <a href="/runs">Show</a></p>`},
		{98, `<p>More than 99 new runs. <a href="/runs">Show</a></p>`},
	} {
		for range c.add {
			run := running(5000+len(h.runs), "merge-events", "replica-1", time.Second)
			h.runs = slices.Insert(h.runs, 0, run)
		}
		body := flat(get(t, handler, update).Body.String())
		if c.want == "" && strings.Contains(body, "new run") || !strings.Contains(body, c.want) {
			t.Errorf("%d new runs: got no %q", len(h.runs), c.want)
		}
		if n := strings.Count(body, `<tr role="row" data-key="run-`); n != 18 ||
			strings.Contains(body, h.runs[0].ID.String()) != (c.want == "") {
			t.Errorf("the update lists %d runs, want those of before", n)
		}
		if strings.Count(body, `class="badge running"`) != 2 { // of three before
			t.Error("the update does not show the end of a run")
		}
		if strings.Contains(body, "newest=") {
			t.Error("a link of the update keeps to the runs of before")
		}
	}
	for _, query := range []string{"newest=soon", "newest=2026-03-14T03:12:11Z&newest="} {
		if reply := get(t, handler, "/runs?"+query); reply.Code != http.StatusBadRequest {
			t.Errorf("%s: got %d, want 400", query, reply.Code)
		}
	}
	page := "/runs?limit=2&before=" + h.runs[len(h.runs)-4].ID.String()
	if body := get(t, handler, page).Body.String(); strings.Contains(body, "hx-vals") {
		t.Error("a later page, to which no new runs come, names a newest run")
	}
}

// TestNewRunsWaitOnPagesAfterARun updates pages that begin after an older run. New runs must wait
// while the page is not full. To a full page no new runs come, and it links the page with them.
func TestNewRunsWaitOnPagesAfterARun(t *testing.T) {
	for _, filter := range []string{"", "&job=merge-events", "&state=running"} {
		o := contention()
		h := o.Store.(*history)
		handler := newServer(t, o).Handler()
		page := "/runs?after=" + h.runs[len(h.runs)-1].ID.String() + filter
		body := get(t, handler, page).Body.String()
		newest := regexp.MustCompile(`hx-vals='\{"newest": "([^"]*)"`).FindStringSubmatch(body)
		if newest == nil {
			t.Fatalf("%s does not name its newest run to its updates", page)
		}
		rows := strings.Count(body, `data-key="run-`)
		for n := range 2 {
			h.runs = slices.Insert(h.runs, 0, running(6000+n, "merge-events", "replica-1", 0))
		}
		body = flat(get(t, handler, page+"&newest="+newest[1]).Body.String())
		if got := strings.Count(body, `data-key="run-`); got != rows ||
			!strings.Contains(body, "2 new runs. <a") {
			t.Errorf("%s: an update lists %d runs, want %d and 2 new ones", page, got, rows)
		}
		body = flat(get(t, handler, page).Body.String())
		if got := strings.Count(body, `data-key="run-`); got != rows+2 ||
			strings.Contains(body, "new runs") {
			t.Errorf("%s: without newest the page lists %d runs, want %d", page, got, rows+2)
		}
		full := page + "&limit=1&newest=" + newest[1]
		body = flat(get(t, handler, full).Body.String())
		if strings.Contains(body, "new run") || !strings.Contains(body, `rel="prev"`) {
			t.Errorf("%s: a full page has new runs, or no link to them", full)
		}
	}
}

// TestPagesAfterARunKeepTheirPlaces starts a run while such a page is open. It must wait for the
// viewer, and the rows must stay.
func TestPagesAfterARunKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := changingSite(t, window, contention())
	visit(t, window, screens()[2], site.url+"/runs?after="+site.runs[len(site.runs)-1].ID.String())
	evaluate[bool](t, window, `(() => {
		window.before = [...document.querySelectorAll("tr[data-key^=run-]")];
		window.tops = before.map((e) => e.getBoundingClientRect().top);
		window.height = document.body.scrollHeight;
		return true;
	})()`)
	site.change(func() {
		site.runs = slices.Insert(site.runs, 0, running(77, "merge-events", "replica-3", 0))
	})
	until(t, window, `document.querySelector(".low").textContent.includes("1 new run.")`)
	if !evaluate[bool](t, window, `document.body.scrollHeight === height &&
		document.querySelectorAll("tr[data-key^=run-]").length === before.length &&
		before.every((e, i) => e.isConnected && e.getBoundingClientRect().top === tops[i])`) {
		t.Error("a new run moves the rows")
	}
	follow(t, window, ".low a")
	if !evaluate[bool](t, window,
		`document.querySelector("tr[data-key=run-`+id(77).String()+`]") !== null`) {
		t.Error("the link does not show the new run")
	}
}

// changing is a site whose history a test changes.
type changing struct {
	*history
	mu  sync.RWMutex
	url string
}

func changingSite(t *testing.T, window context.Context, o Options) *changing {
	c := &changing{history: o.Store.(*history)}
	handler := hasty(t, o).Handler()
	c.url = siteIn(t, window, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.RLock()
		defer c.mu.RUnlock()
		handler.ServeHTTP(w, r)
	}))
	return c
}

func (c *changing) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// TestEntriesKeepTheirPlaces ends a run that is first in a list, and starts others. Entries of the
// others must be the same elements at the same places, and new entries take free places.
func TestEntriesKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := changingSite(t, window, contention())
	visit(t, window, screens()[2], site.url+"/")
	const list = `[...document.querySelector("section[aria-labelledby=running] .list").children]`
	entry := func(n int) string { return `document.getElementById("run-` + id(n).String() + `")` }
	evaluate[bool](t, window, `(() => {
		window.before = `+list+`;
		window.tops = before.map((e) => e.getBoundingClientRect().top);
		window.places = () => before.every((e, i) => i === 0 || e.isConnected && e.getBoundingClientRect().top === tops[i]);
		return true;
	})()`)
	isRun := func(n int) func(storage.Record) bool {
		return func(r storage.Record) bool { return r.ID == id(n) }
	}
	site.change(func() { site.runs = slices.DeleteFunc(site.runs, isRun(10)) })
	until(t, window, list+`[0].inert && !`+list+`[0].checkVisibility({visibilityProperty: true})`)
	if n := evaluate[int](t, window, list+`.length`); n != 3 ||
		!evaluate[bool](t, window, `places()`) {
		t.Errorf("after the end of the first of three runs, %d places are left or have moved", n)
	}
	site.change(func() {
		site.runs = slices.Insert(site.runs, 0, running(77, "merge-events", "replica-3", 0))
	})
	until(t, window, list+`[0] === `+entry(77))
	if n := evaluate[int](t, window, list+`.length`); n != 3 ||
		!evaluate[bool](t, window, `places()`) {
		t.Errorf("after a start, the list has %d places, or they have moved", n)
	}
	site.change(func() { site.runs = slices.DeleteFunc(site.runs, isRun(11)) })
	until(t, window, list+`.length === 2`) // no place is kept at the end
	if !evaluate[bool](t, window, list+`[1] === before[1]`) {
		t.Error("the second run has lost its place")
	}
}

// TestRunsKeepTheirPlaces updates the list of running runs after the end of one and the start of
// another. The first keeps its row, which says so, and the second waits for the viewer.
func TestRunsKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := changingSite(t, window, actionOptions(contention()))
	visit(t, window, screens()[0], site.url+"/runs?state=running")
	row := func(n int) string {
		return `document.querySelector("tr[data-key=\"run-` + id(n).String() + `\"]")`
	}
	evaluate[bool](t, window, fmt.Sprintf(`(() => {
		window.ended = %s, window.stays = %s;
		ended.querySelector(".pick").checked = true;
		window.height = document.body.scrollHeight, window.place = stays.getBoundingClientRect().top;
		return true;
	})()`, row(11), row(10)))
	site.change(func() {
		site.runs[0].State, site.runs[0].FinishedAt = jobs.Succeeded, pointer(noon)
		site.runs = slices.Insert(site.runs, 0, running(77, "merge-events", "replica-3", 0))
	})
	until(t, window, `document.querySelector(".low").textContent.includes("1 new run.")`)
	for what, is := range map[string]string{
		"the row of the ended run stays":    `ended.isConnected && ended.inert`,
		"its state is crossed out":          `getComputedStyle(ended.querySelector(".badge")).textDecorationLine === "line-through"`,
		"it is not selected":                `!ended.querySelector(".pick").checked`,
		"another row keeps its place":       `stays.isConnected && stays.getBoundingClientRect().top === place`,
		"the new run is not listed":         row(77) + ` === null`,
		"the page has the height of before": `document.body.scrollHeight === height`,
	} {
		if !evaluate[bool](t, window, is) {
			t.Errorf("after an update, not so: %s", what)
		}
	}
	follow(t, window, ".low a")
	if !evaluate[bool](t, window, row(77)+` !== null && `+row(11)+` === null`) {
		t.Error("the link does not show the runs of now")
	}
}

// TestLocksKeepTheirPlaces releases a lock and takes it again. The resource keeps its place.
func TestLocksKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := changingSite(t, window, contention())
	visit(t, window, screens()[2], site.url+"/locks")
	evaluate[bool](t, window, `(() => {
		window.list = document.querySelector("[data-key=kind-table] .taken-list");
		window.before = [...list.children];
		window.tops = before.map((e) => e.getBoundingClientRect().top);
		window.free = () => list.querySelector(":scope > [data-left]");
		window.places = () => before.every((e, i) => e.parentNode === list && e.getBoundingClientRect().top === tops[i]);
		return true;
	})()`)
	var all []storage.LockView
	site.change(func() {
		all = site.locks
		site.locks = slices.DeleteFunc(slices.Clone(all), func(l storage.LockView) bool {
			return l.Resource == table("events")
		})
	})
	until(t, window, `free() && free().innerText.trim().endsWith("Free")`)
	if !evaluate[bool](t, window, `free().textContent.includes("public/events") && places()`) {
		t.Error("after a release, resources are at other places")
	}
	site.change(func() { site.locks = all })
	until(t, window, `!free()`)
	if !evaluate[bool](t, window, `places() && list.children.length === before.length`) {
		t.Error("after the lock is taken again, resources are at other places")
	}
}
