package admin

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// stop is the focused element after Tab is pressed.
type stop struct {
	Name    string // short text of the element
	Place   int    // index in the document
	Inside  bool   // the window shows all or nearly all of it
	Covered string // the element in front of it, or ""
	Outline float64
	Where   string // top and bottom of the element, and height and scroll offset of the window
}

const whereFocusIs = `(() => {
	const e = document.activeElement;
	if (!e || e === document.body) {
		return {name: "", place: -1, inside: true, covered: "", outline: 0, where: ""};
	}
	const r = e.getClientRects()[0], style = getComputedStyle(e);
	const at = document.elementFromPoint(r.left + Math.min(r.width, innerWidth - r.left) / 2, r.top + r.height / 2);
	return {
		name: e.tagName + " " + (e.getAttribute("href") ?? e.name ?? e.id ?? ""), place: [...document.querySelectorAll("*")].indexOf(e),
		inside: r.top >= -1 && r.top < innerHeight && r.left >= -1 && r.left < innerWidth,
		covered: at && (at === e || e.contains(at) || at.contains(e)) ? "" : at ? at.tagName + "." + at.className : "nothing",
		outline: style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth),
		where: r.top + " to " + r.bottom + " of " + innerHeight + ", scrolled by " + scrollY,
	};
})()`

// TestEveryControlIsReachableByKeyboardInABrowser presses Tab through whole pages. Each stop must
// be visible with an outline, in the order of the document and not covered. The first stop must
// skip the navigation. Charts that are hidden from assistive technology have tables with the same
// links, so their bars are no stops. Other charts are one stop, with arrow keys inside. Pages
// alternate between narrow and wide windows. A soak checks more pages, and both windows.
func TestEveryControlIsReachableByKeyboardInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := siteIn(t, window, newServer(t, actionOptions(contention())).Handler())
	short := []string{"/?refresh=off", "/jobs?refresh=off", "/locks?refresh=off",
		"/jobs/rollup-sales/trigger"}
	long := append(slices.Clip(short), "/runs?refresh=off",
		bulk("pause", "job", "rollup-sales", "nobody"), "/locks/timeline?refresh=off",
		"/jobs/rollup-sales?refresh=off",
		"/runs/"+id(10).String()+"?refresh=off", "/grid", "/agenda", "/locks/contention",
		"/replicas?refresh=off", "/audit?refresh=off", "/webhooks",
		"/backfills?refresh=off", "/search?q=sales", "/jobs/rollup-sales/explain",
		"/locks/upcoming", "/locks/timeline?span=24h&refresh=off")
	for n, path := range soak.Pick(short, long) {
		sizes := []screen{screens()[0], screens()[3]}
		for _, s := range soak.Pick(sizes[n%2:n%2+1], sizes) {
			visit(t, window, s, site+path)
			walk(t, window, path+", "+s.Name)
		}
	}
	// Its timeline has waits, skips and restarts of memcached.
	busy := siteIn(t, window, newServer(t, night()).Handler())
	visit(t, window, screens()[0], busy+"/locks/timeline?refresh=off")
	walk(t, window, "the timeline of the night, "+screens()[0].Name)
	visit(t, window, screens()[2], site+"/jobs?refresh=off")
	press(t, window, "\t")
	if text := evaluate[string](t, window,
		`document.activeElement.textContent`); text != "Skip to content" {
		t.Fatalf("the first stop is %q", text)
	}
	press(t, window, "\r")
	until(t, window, `document.activeElement.id == "main" && location.hash == "#main"`)
	press(t, window, "\t")
	if !evaluate[bool](t, window, `document.activeElement.closest("main") != null`) {
		t.Error("after it the next stop is not in the content")
	}
}

func walk(t *testing.T, window context.Context, where string) {
	t.Helper()
	last, stops := -1, 0
	const most = 400
	for range most {
		press(t, window, "\t")
		at := evaluate[stop](t, window, whereFocusIs)
		if at.Place == last {
			continue // within a field for a date and time
		}
		if at.Place < last { // the focus has left the page or is at its start again
			if focusable := evaluate[int](t, window,
				`[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")].filter((e) => e.checkVisibility() && !e.closest("svg[aria-hidden=true]") && e.getAttribute("tabindex") !== "-1").length`); stops < focusable {
				t.Errorf("%s: %d stops, and %d elements can have the focus", where, stops,
					focusable)
			}
			return
		}
		last = at.Place
		stops++
		if !at.Inside || at.Covered != "" || at.Outline < 2 {
			t.Errorf("%s: got stop %+v, want it in sight with an outline", where, at)
		}
	}
	t.Errorf("%s: more than %d stops", where, most)
}

func press(t *testing.T, window context.Context, keys string) {
	t.Helper()
	if err := chromedp.Do(window, chromedp.KeyEvent(keys)); err != nil {
		t.Fatal(err)
	}
}

// spaced has the text spacing that WCAG 1.4.12 allows readers to set.
const spaced = `* { line-height: 1.5 !important; letter-spacing: .12em !important; word-spacing: .16em !important } p { margin-bottom: 2em !important }`

// TestTextSpacingInABrowser checks with wide text spacing that no text is cut off and that no page
// is wider than the window. Only rows with a constant height may cut a text, with an ellipsis: they
// link to the run that has all of it, or they belong to a chart above a table that has it. The test
// checks an overview, a table, a detail page and a form, and in a soak all pages.
func TestTextSpacingInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	short := []string{"/", "/locks", "/runs/" + id(10).String(), "/jobs/rollup-sales/trigger"}
	long := append([]string{"/jobs", "/jobs/rollup-sales", "/runs", "/replicas", "/audit"},
		short...)
	site := siteIn(t, window, newServer(t, actionOptions(contention())).Handler())
	for _, path := range soak.Pick(short, long) {
		visit(t, window, screens()[0], site+path)
		evaluate[bool](t, window,
			`(() => { const s = new CSSStyleSheet(); s.replaceSync(`+"`"+spaced+"`"+`); document.adoptedStyleSheets = [s]; return true })()`)
		if width := evaluate[int64](t, window,
			`document.documentElement.scrollWidth`); width > screens()[0].Width {
			t.Errorf("%s is %d px wide", path, width)
		}
		if cut := evaluate[[]string](t, window,
			`[...document.querySelectorAll("main *, header *")].filter((e) => {
			const style = getComputedStyle(e);
			const panel = e.closest(".lanes .names") && e.closest(".panel");
			if ((e.closest(".fixed") || panel && panel.nextElementSibling?.matches("details:has(table)")) && (style.webkitLineClamp !== "none" || style.textOverflow === "ellipsis")) return false;
			return (style.overflow === "hidden" || e.matches("button, .button")) && style.clipPath === "none" && e.clientHeight > 0 && (e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1);
		}).map((e) => e.outerHTML.slice(0, 200))`); len(cut) > 0 {
			t.Errorf("%s cuts off %s", path, strings.Join(cut, "\n"))
		}
	}
}

// TestStylesheetHasNoAnimations checks that the stylesheet needs no rule for
// prefers-reduced-motion.
func TestStylesheetHasNoAnimations(t *testing.T) {
	text, err := os.ReadFile("internal/pages/static/holdfast.css")
	if err != nil {
		t.Fatal(err)
	}
	for _, moving := range []string{"transition", "animation", "@keyframes",
		"scroll-behavior: smooth"} {
		if strings.Contains(string(text), moving) {
			t.Errorf(
				"the stylesheet has %s: let it be within prefers-reduced-motion: no-preference",
				moving)
		}
	}
}
