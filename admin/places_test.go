package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
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

// TestPagesAfterARunKeepTheirPlacesInABrowser starts a run while such a page is open. It must wait
// for the viewer, and the rows must stay.
func TestPagesAfterARunKeepTheirPlacesInABrowser(t *testing.T) {
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

// TestRunsKeepTheirPlacesInABrowser updates the list of running runs after the end of one and the
// start of another. The first keeps its row, which says so, and the second waits for the viewer.
func TestRunsKeepTheirPlacesInABrowser(t *testing.T) {
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

// TestLocksKeepTheirPlacesInABrowser releases a lock and takes it again. The resource keeps its
// place.
func TestLocksKeepTheirPlacesInABrowser(t *testing.T) {
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

// TestFullListsKeepTheirHeightInABrowser takes many locks while one is shown as free. The list of
// locks must keep its height, and a new entry must take the place of the free one.
func TestFullListsKeepTheirHeightInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := changingSite(t, window, contention())
	visit(t, window, screens()[0], site.url+"/locks")
	evaluate[bool](t, window, `(() => {
		window.panel = document.querySelector("[data-key=kind-table]");
		window.list = panel.querySelector(".taken-list");
		window.height = panel.getBoundingClientRect().height;
		window.free = () => list.querySelector(":scope > [data-left]");
		return true;
	})()`)
	site.change(func() {
		site.locks = slices.DeleteFunc(slices.Clone(site.locks), func(l storage.LockView) bool {
			return l.Resource == table("events")
		})
	})
	until(t, window, `free() !== null`)
	before := evaluate[int](t, window, `list.children.length`)
	const more = 20
	site.change(func() {
		for i := range more {
			site.locks = append(site.locks, lock(fmt.Sprintf("facts_%02d", i),
				running(700+i, "merge-events", "replica-2", time.Minute), time.Minute))
		}
	})
	until(t, window, fmt.Sprintf(`list.children.length >= %d`, before+more-1))
	for what, is := range map[string]string{
		"the panel has the height of before":        `panel.getBoundingClientRect().height === height`,
		"a new entry has the place of the free one": `free() === null`,
		"the rest is scrolled":                      `list.parentNode.scrollHeight > list.parentNode.clientHeight`,
	} {
		if !evaluate[bool](t, window, is) {
			t.Errorf("after %d more locks, not so: %s", more, what)
		}
	}
}

// TestRowsOfPositionsHaveOneHeightInABrowser looks at the last runs of the overview. Their rows
// must have one height, whatever the names and reasons of their runs are.
func TestRowsOfPositionsHaveOneHeightInABrowser(t *testing.T) {
	t.Parallel()
	o := contention()
	h := o.Store.(*history)
	for i := range h.runs {
		if r := &h.runs[i]; i%3 == 0 && r.State.Final() {
			r.Job, r.Replica = strings.Repeat("a-long-name-", 12), strings.Repeat("replica-", 12)
			r.Error = strings.Repeat("an error of many words ", 20)
		}
	}
	window := tab(t)
	site := siteIn(t, window, newServer(t, o).Handler())
	for _, screen := range screens() {
		visit(t, window, screen, site+"/")
		heights := evaluate[[]float64](t, window, `[...new Set([...document.querySelectorAll(
			".fixed tbody tr")].map((e) => e.getBoundingClientRect().height))]`)
		if len(heights) != 1 {
			t.Errorf("%s: the rows have the heights %v, want one", screen.Name, heights)
		}
	}
}

// timelineNames returns the resources of a page of the timeline with the heights of their lanes,
// and the lanes that its updates keep.
func timelineNames(t *testing.T, handler http.Handler, path string) (names []string,
	lanes string) {
	t.Helper()
	reply := get(t, handler, path)
	body := flat(reply.Body.String())
	if reply.Code != http.StatusOK {
		t.Fatalf("%s: got %d, want 200", path, reply.Code)
	}
	for _, found := range regexp.MustCompile(
		`<li class="rows(\d)" data-key="name-[0-9a-f]+">\s*<a [^>]*><bdi>([^<]*)</bdi>`).
		FindAllStringSubmatch(body, -1) {
		names = append(names, found[2]+" "+found[1])
	}
	if found := regexp.MustCompile(`hx-vals='{"lanes": "([^"]*)"}'`).
		FindStringSubmatch(body); found != nil {
		lanes = found[1]
	}
	return names, lanes
}

// TestTimelineKeepsItsLanes updates the timeline after locks were released and taken. The page must
// keep the order and the heights of its lanes, and count resources that are waited for elsewhere.
func TestTimelineKeepsItsLanes(t *testing.T) {
	o := contention()
	h := o.Store.(*history)
	for i := range 20 {
		h.jobs = append(h.jobs, job(fmt.Sprintf("load-%02d", i), "@daily",
			fmt.Sprintf("mart.facts_%02d", i)))
	}
	handler := newServer(t, o).Handler()
	before, lanes := timelineNames(t, handler, "/locks/timeline")
	if len(before) != 16 || before[0] != "public/orders 5" {
		t.Fatalf("the lanes are %q", before)
	}
	h.locks = slices.DeleteFunc(h.locks, func(l storage.LockView) bool {
		return l.Resource == table("orders")
	})
	h.runs = slices.DeleteFunc(h.runs, func(r storage.Record) bool {
		return r.State == jobs.Waiting
	})
	hog := running(900, "load-19", "replica-1", time.Minute)
	last, err := locking.Table("mart.facts_19", "public")
	if err != nil {
		t.Fatal(err)
	}
	view := lock("x", hog, time.Minute)
	view.Resource = last
	h.locks = append(h.locks, view)
	h.runs = append(h.runs, hog, waiting(901, "check", time.Minute, last.Key(), hog))
	if after, _ := timelineNames(t, handler, "/locks/timeline"); slices.Equal(after, before) ||
		after[0] != last.String()+" 2" {
		t.Errorf("a new page has the lanes %q, want the waited-for resource first", after)
	}
	update := "/locks/timeline?lanes=" + url.QueryEscape(lanes)
	after, kept := timelineNames(t, handler, update)
	if !slices.Equal(after, before) || kept != lanes {
		t.Errorf("an update has the lanes %q, want those of before %q", after, before)
	}
	body := flat(get(t, handler, update).Body.String())
	if want := `1 other is waited for. <a href="/locks/timeline">Show</a>`; !strings.Contains(body,
		want) {
		t.Errorf("the update lacks %q", want)
	}
	if strings.Contains(body, "lanes=") {
		t.Error("a link of the update keeps to the lanes of before")
	}
	for _, wrong := range []string{"x", "0123456789abcdef:", "0123456789abcdef:2,",
		strings.Repeat("0123456789abcdef:2,", 16) + "0123456789abcdef:2"} {
		if reply := get(t, handler, "/locks/timeline?lanes="+wrong); reply.Code !=
			http.StatusBadRequest {
			t.Errorf("lanes=%s: got %d, want 400", wrong, reply.Code)
		}
	}
}

// TestNewAuditEntriesWait updates the first page of the audit log after new actions. The page must
// keep its entries and count the new ones.
func TestNewAuditEntriesWait(t *testing.T) {
	o := busy()
	h := o.Store.(*history)
	handler := newServer(t, o).Handler()
	body := get(t, handler, "/audit").Body.String()
	newest := h.audit[0].At.UTC().Format(time.RFC3339Nano)
	if !strings.Contains(body, `hx-vals='{"newest": "`+newest+`"}'`) {
		t.Error("the page does not name its newest entry to its updates")
	}
	for n, want := range []string{"", "1 new entry.", "2 new entries."} {
		if n > 0 {
			h.audit = slices.Insert(h.audit, 0, storage.Audited{ID: id(8200 + n),
				At: h.audit[0].At.Add(time.Second), Actor: "anna", Via: "page", Action: "trigger",
				Target: "job new"})
		}
		body := flat(get(t, handler, "/audit?newest="+newest).Body.String())
		if strings.Contains(body, "job new") || !strings.Contains(body, want) ||
			want == "" && strings.Contains(body, "Show</a>") {
			t.Errorf("%d new entries: want %q, and the entries of before", n, want)
		}
	}
	if body := get(t, handler, "/audit").Body.String(); !strings.Contains(body, "job new") {
		t.Error("a new page lacks the new entries")
	}
	if reply := get(t, handler, "/audit?newest=soon"); reply.Code != http.StatusBadRequest {
		t.Errorf("newest=soon: got %d, want 400", reply.Code)
	}
}

// TestBackfillsKeepTheirPlacesInABrowser ends an active backfill while the page is open. Its row
// must stay and say so, and it must not move the ended ones.
func TestBackfillsKeepTheirPlacesInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := changingSite(t, window, actionOptions(contention()))
	visit(t, window, screens()[2], site.url+"/backfills")
	evaluate[bool](t, window, `(() => {
		window.rows = [...document.querySelectorAll("tbody tr")];
		window.tops = rows.map((e) => e.getBoundingClientRect().top);
		return true;
	})()`)
	site.change(func() {
		for i := range site.backfill {
			if b := &site.backfill[i]; b.State == storage.BackfillActive {
				b.State, b.EndedAt = storage.BackfillCompleted, pointer(noon)
			}
		}
	})
	until(t, window, `document.querySelector("[aria-labelledby=active] [data-left]") != null`)
	for what, is := range map[string]string{
		"the rows stay": `rows.every((e) => e.isConnected)`,
		"they stay at their places": `rows.every((e, i) => e.getBoundingClientRect().top === ` +
			`tops[i])`,
		"the ended one is in sight": `rows[0].inert && rows[0].checkVisibility()`,
	} {
		if !evaluate[bool](t, window, is) {
			t.Errorf("after the end of a backfill, not so: %s", what)
		}
	}
}
