package admin

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// stop is where the focus is after a press of Tab.
type stop struct {
	Name    string // of the element, in short
	Place   int    // in the document
	Inside  bool   // of the window, whole or nearly
	Covered string // by what, where something stands before it
	Outline float64
}

const whereFocusIs = `(() => {
	const e = document.activeElement;
	if (!e || e === document.body) return {name: "", place: -1, inside: true, covered: "", outline: 0};
	const r = e.getClientRects()[0], style = getComputedStyle(e);
	const at = document.elementFromPoint(r.left + Math.min(r.width, innerWidth - r.left) / 2, r.top + r.height / 2);
	return {
		name: e.tagName + " " + (e.getAttribute("href") ?? e.name ?? e.id ?? ""), place: [...document.querySelectorAll("*")].indexOf(e),
		inside: r.top >= -1 && r.top < innerHeight && r.left >= -1 && r.left < innerWidth,
		covered: at && (at === e || e.contains(at) || at.contains(e)) ? "" : at ? at.tagName + "." + at.className : "nothing",
		outline: style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth),
	};
})()`

// TestEveryControlIsReachableByKeyboard presses Tab through whole pages: in the order of the
// document, each stop in sight, with an outline, and nothing before it. The first
// leads past the navigation. A chart that is hidden from assistive technology has a table with the
// same links, so its bars need no stops. Pages are by turns narrow and wide, in a soak both.
func TestEveryControlIsReachableByKeyboard(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := siteIn(t, window, newServer(t, acted(contention())).Handler())
	for n, path := range []string{"/?refresh=off", "/locks?refresh=off", "/jobs?refresh=off",
		"/runs?refresh=off", "/jobs/rollup-sales/trigger"} {
		looked := []screen{screens()[0], screens()[3]}
		for _, s := range soak.Pick(looked[n%2:n%2+1], looked) {
			visit(t, window, s, site+path)
			walk(t, window, path+", "+s.Name)
		}
	}
	visit(t, window, screens()[2], site+"/jobs?refresh=off")
	press(t, window, "\t")
	if text := evaluate[string](t, window, `document.activeElement.textContent`); text != "Skip to content" {
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
			continue // within a field of an instant
		}
		if at.Place < last { // it has left the page, or begins anew
			if focusable := evaluate[int](t, window,
				`[...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")].filter((e) => e.checkVisibility() && !e.closest("svg[aria-hidden=true]")).length`); stops < focusable {
				t.Errorf("%s: %d stops, and %d elements can have the focus", where, stops,
					focusable)
			}
			return
		}
		last = at.Place
		stops++
		if !at.Inside || at.Covered != "" || at.Outline < 2 {
			t.Errorf("%s: %+v", where, at)
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

// spaced is the spacing of text that readers may set, by WCAG 1.4.12.
const spaced = `* { line-height: 1.5 !important; letter-spacing: .12em !important; word-spacing: .16em !important } p { margin-bottom: 2em !important }`

// TestTextSpacing: nothing is cut off, nothing is wider than the window. It
// looks at an overview, a table, a page of a thing and a form, in a soak at all.
func TestTextSpacing(t *testing.T) {
	t.Parallel()
	window := tab(t)
	short := []string{"/", "/locks", "/runs/" + id(10).String(), "/jobs/rollup-sales/trigger"}
	long := append([]string{"/jobs", "/jobs/rollup-sales", "/runs", "/replicas", "/audit"},
		short...)
	site := siteIn(t, window, newServer(t, acted(contention())).Handler())
	for _, path := range soak.Pick(short, long) {
		visit(t, window, screens()[0], site+path)
		evaluate[bool](t, window,
			`(() => { const s = new CSSStyleSheet(); s.replaceSync(`+"`"+spaced+"`"+`); document.adoptedStyleSheets = [s]; return true })()`)
		if width := evaluate[int64](t, window, `document.documentElement.scrollWidth`); width > screens()[0].Width {
			t.Errorf("%s is %d px wide", path, width)
		}
		if cut := evaluate[[]string](t, window,
			`[...document.querySelectorAll("main *, header *")].filter((e) => {
			const style = getComputedStyle(e);
			return (style.overflow === "hidden" || e.matches("button, .button")) && style.clipPath === "none" && e.clientHeight > 0 && (e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1);
		}).map((e) => e.outerHTML.slice(0, 200))`); len(cut) > 0 {
			t.Errorf("%s cuts off %s", path, strings.Join(cut, "\n"))
		}
	}
}

// TestStylesheetHasNoAnimations, so that nobody need ask for less of it.
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
