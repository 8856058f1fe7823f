package admin

import (
	"encoding/json"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/holdfast-dev/holdfast/admin/internal/grid"
	"github.com/holdfast-dev/holdfast/internal/test/speedtest"
	"github.com/holdfast-dev/holdfast/jobs"
)

// readGridPage returns the rows of a page of the grid, its headings of groups in brackets, and the
// addresses of its links by their texts.
func readGridPage(t *testing.T, handler http.Handler, path string) (rows []string,
	links map[string]string) {
	t.Helper()
	reply := get(t, handler, path)
	if reply.Code != http.StatusOK {
		t.Fatalf("%s: got %d, want 200", path, reply.Code)
	}
	body := flat(reply.Body.String())
	plain := func(text string) string {
		text = regexp.MustCompile(`<[^>]*>`).ReplaceAllString(text, " ")
		return html.UnescapeString(strings.Join(strings.Fields(text), " "))
	}
	for _, m := range regexp.MustCompile(`<th scope="(rowgroup|row)">(.*?)</th>`).
		FindAllStringSubmatch(body, -1) {
		if text := plain(m[2]); m[1] == "row" {
			rows = append(rows, text)
		} else {
			rows = append(rows, "["+text+"]")
		}
	}
	links = make(map[string]string)
	for _, m := range regexp.MustCompile(`<a href="([^"]*)"( aria-current="true")?>(.*?)</a>`).
		FindAllStringSubmatch(body, -1) {
		links[plain(m[3])] = html.UnescapeString(m[1]) + m[2]
	}
	return rows, links
}

func TestGridHasBandsOfGroups(t *testing.T) {
	handler := newServer(t, grouped()).Handler()
	rows, links := readGridPage(t, handler, "/grid?span=6h&after=")
	if want := strings.Fields("[billing] charges refunds [night] backup rebuild [solo] solo-1 " +
		"[sync] vendors [Without_a_group] export solo zones"); strings.Join(rows, " ") !=
		strings.ReplaceAll(strings.Join(want, " "), "_", " ") {
		t.Errorf("got rows %q, want %q", rows, want)
	}
	if got := links["night"]; got != "/grid?group=night&span=6h" {
		t.Errorf("the heading of night leads to %s", got)
	}
	rows, _ = readGridPage(t, handler, "/grid?text=z")
	if want := []string{"zones"}; !slices.Equal(rows, want) {
		t.Errorf("without groups: got rows %q, want %q", rows, want)
	}
}

func TestGridShowsOnlyJobsWithFailures(t *testing.T) {
	handler := newServer(t, grouped()).Handler()
	for only, want := range map[string][]string{
		"failures":          {"[night]", "rebuild"},
		"failures-or-skips": {"[night]", "rebuild", "[Without a group]", "zones"},
	} {
		path := "/grid?only=" + only + "&span=6h"
		rows, links := readGridPage(t, handler, path)
		if !slices.Equal(rows, want) {
			t.Errorf("%s: got rows %q, want %q", only, rows, want)
		}
		current := map[string]string{"failures": "Failed",
			"failures-or-skips": "Failed or skipped"}[only]
		if got := links[current]; got != path+` aria-current="true"` ||
			links["All jobs"] != "/grid?span=6h" || links["7 days"] != "/grid?only="+only+
			"&span=7d" {
			t.Errorf("%s: got links %v", only, links)
		}
	}
	rows, _ := readGridPage(t, handler, "/grid?only=failures&until="+
		noon.Add(-2*time.Hour).Format(time.RFC3339))
	if len(rows) > 0 {
		t.Errorf("no run had failed two hours ago, got rows %q", rows)
	}
	var g grid.Grid
	if err := json.Unmarshal(get(t, handler, "/api/v1/grid?only=failures").Body.Bytes(),
		&g); err != nil || len(g.Rows) != 1 || g.Rows[0].Job != "rebuild" || g.Cut {
		t.Errorf("got %+v, %v, want only rebuild", g.Rows, err)
	}
}

// TestGridFoldsFamilies follows the link that unfolds a family.
func TestGridFoldsFamilies(t *testing.T) {
	handler := newServer(t, families()).Handler()
	rows, _ := readGridPage(t, handler, "/grid?span=6h")
	if want := []string{"nightly", "shard-compact.* 5 jobs", "tenant-rollup-* 4 jobs"}; !slices.
		Equal(rows, want) {
		t.Errorf("got rows %q, want %q", rows, want)
	}
	const family = `<a class="unfolds" href="([^"]*)"`
	toggles := func(path string) (all []string) {
		body := get(t, handler, path).Body.String()
		for _, m := range regexp.MustCompile(family).FindAllStringSubmatch(body, -1) {
			all = append(all, html.UnescapeString(m[1]))
		}
		return all
	}
	unfold, anchor, _ := strings.Cut(toggles("/grid?span=6h")[1], "#")
	if unfold != "/grid?open=tenant-rollup-acme&span=6h" || !strings.Contains(
		get(t, handler, unfold).Body.String(), `<tr id="`+anchor+`"`) {
		t.Errorf("the row of the family leads to %s, row %s", unfold, anchor)
	}
	rows, links := readGridPage(t, handler, unfold)
	if want := []string{"nightly", "shard-compact.* 5 jobs", "tenant-rollup-* 4 jobs",
		"tenant-rollup-acme", "tenant-rollup-globex", "tenant-rollup-hooli",
		"tenant-rollup-umbrella"}; !slices.Equal(rows, want) {
		t.Errorf("unfolded: got rows %q, want %q", rows, want)
	}
	if got := links["7 days"]; got != "/grid?open=tenant-rollup-acme&span=7d" {
		t.Errorf("another range of time leads to %s, want the family unfolded", got)
	}
	if fold, _, _ := strings.Cut(toggles(unfold)[1], "#"); fold != "/grid?span=6h" {
		t.Errorf("the row of the unfolded family leads to %s", fold)
	}
	rows, _ = readGridPage(t, handler, "/grid?span=6h&only=failures")
	if want := []string{"tenant-rollup-hooli"}; !slices.Equal(rows, want) {
		t.Errorf("with failures: got rows %q, want %q", rows, want)
	}
	var g grid.Grid
	if err := json.Unmarshal(get(t, handler, "/api/v1/grid?span=6h").Body.Bytes(), &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Rows) != 10 || len(g.Families) != 2 || g.Rows[9].Family != "tenant-rollup-*" ||
		g.Families[1].Total != 4 || g.Families[1].Cells[0].State != jobs.Failed {
		t.Errorf("JSON: %d jobs, families %+v", len(g.Rows), g.Families)
	}
}

// TestGridOfTenThousandJobsIsFast measures the page without the queries of a database.
func TestGridOfTenThousandJobsIsFast(t *testing.T) {
	handler := newServer(t, tenThousand()).Handler()
	for _, path := range []string{"/grid", "/grid?text=load&group=region-03&span=30d",
		"/grid?only=failures-or-skips"} {
		get(t, handler, path) // reads the states of the jobs
		speedtest.Within(t, path, 50*time.Millisecond, func() { get(t, handler, path) })
	}
}

// TestGridByKeyboardAndWithoutScriptsInABrowser moves over the headings of groups with the arrow
// keys, and follows the links of the filter in a browser without scripts.
func TestGridByKeyboardAndWithoutScriptsInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := siteIn(t, window, newServer(t, grouped()).Handler())
	visit(t, window, screens()[2], site+"/grid?span=6h&refresh=off")
	evaluate[any](t, window, `document.querySelector(".cell[tabindex='0']").focus()`)
	at := func() string {
		t.Helper()
		return evaluate[string](t, window,
			`document.activeElement.closest("tr").querySelector("th").innerText.trim()`)
	}
	var passed []string
	for range 8 {
		passed = append(passed, at())
		press(t, window, kb.ArrowDown)
	}
	if want := strings.Fields("charges refunds backup rebuild vendors export zones zones"); !slices.
		Equal(passed, want) {
		t.Errorf("the key moved to %q, want %q", passed, want)
	}
	if _, err := chromedp.Call(window, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	visit(t, window, screens()[0], site+"/grid?span=6h")
	for _, c := range []struct{ link, query, rows string }{
		{"Failed", "?only=failures&span=6h", "night,rebuild"},
		{"Failed or skipped", "?only=failures-or-skips&span=6h",
			"night,rebuild,Without a group,zones"},
		{"All jobs", "?span=6h", "billing,charges,refunds,night,backup,rebuild,solo,solo-1,sync," +
			"vendors,Without a group,export,solo,zones"},
	} {
		evaluate[any](t, window, `[...document.querySelectorAll(".seg a")].find(
			(a) => a.textContent === "`+c.link+`").click()`)
		until(t, window, `location.search === "`+c.query+`" && document.readyState === "complete"`)
		if rows := evaluate[string](t, window, `[...document.querySelectorAll(".grid tbody th")].map(
			(e) => e.innerText.trim()).join()`); rows != c.rows {
			t.Errorf("%s shows %s, want %s", c.link, rows, c.rows)
		}
	}
}
