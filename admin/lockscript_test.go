package admin

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestTimelineByKeyboardInABrowser moves from bar to bar with the arrow keys. The whole chart is
// one stop of the Tab key, and the selected bar is described below the chart in the time zone of
// the viewer.
func TestTimelineByKeyboardInABrowser(t *testing.T) {
	t.Parallel()
	window := tabInTokyo(t)
	site := siteIn(t, window, newServer(t, night()).Handler())
	visit(t, window, screens()[2], site+"/locks/timeline?refresh=off")
	if n := evaluate[int](t, window,
		`document.querySelectorAll('.chart [tabindex="0"]').length`); n != 1 {
		t.Errorf("the chart has %d stops of the tab key", n)
	}
	if got := evaluate[string](t, window,
		`document.querySelector(".chart text").textContent`); got != "11:20" {
		t.Errorf("the axis begins with %q, want Tokyo's time", got)
	}
	press := func(key string) string {
		t.Helper()
		return evaluate[string](t, window, `(() => {
			document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "`+key+`", bubbles: true, cancelable: true}));
			return document.activeElement.querySelector("title").textContent;
		})()`)
	}
	begin := evaluate[string](t, window,
		`(() => { document.querySelector(".chart a.bar").focus(); return document.activeElement.querySelector("title").textContent; })()`)
	right := press("ArrowRight")
	if right == begin {
		t.Errorf("to the right of %q is nothing", begin)
	}
	if selected := evaluate[string](t, window,
		`document.querySelector("[data-picked]").textContent`); selected != right {
		t.Errorf("got %q below the chart, want the selected %q", selected, right)
	}
	if left := press("ArrowLeft"); left != begin {
		t.Errorf("back to the left is %q, not %q", left, begin)
	}
	if down := press("ArrowDown"); down == begin {
		t.Error("details below the first bar: got none, want the run")
	}
	if evaluate[string](t, window,
		`(() => { window.gone = ""; addEventListener("click", (e) => { window.gone = e.target.dataset.zoom; e.preventDefault(); }); return ""; })()`) != "" {
		t.Error("clicks: got no listener, want one")
	}
	evaluate[string](t, window,
		`(() => { document.querySelector(".timeline").dispatchEvent(new KeyboardEvent("keydown", {key: "-", bubbles: true})); return ""; })()`)
	if got := evaluate[string](t, window, `window.gone`); got != "out" {
		t.Errorf("the key - follows %q", got)
	}
}

// TestReloadKeepsBranchesClosedInABrowser checks that a reload of the tree keeps a closed branch
// closed.
func TestReloadKeepsBranchesClosedInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := siteIn(t, window, hasty(t, contention()).Handler())
	visit(t, window, screens()[2], site+"/locks")
	evaluate[string](t, window,
		`(() => { const e = document.querySelector("details[data-key=public]"); e.open = false; e.dataset.old = ""; return ""; })()`)
	until(t, window, `!("old" in document.querySelector("details[data-key=public]").dataset)`)
	until(t, window, `!document.querySelector("details[data-key=public]").open`)
}

// TestTimelinePrintsInABrowser checks that the print version shows the whole chart without
// controls.
func TestTimelinePrintsInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := siteIn(t, window, newServer(t, night()).Handler())
	visit(t, window, screens()[2], site+"/locks/timeline?refresh=off")
	if _, err := chromedp.Call(window, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Media: "print"}); err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]string{
		`getComputedStyle(document.querySelector(".tools")).display`:                      "none",
		`getComputedStyle(document.querySelector(".timeline")).overflow`:                  "visible",
		`String(document.querySelector(".chart .bar").getBoundingClientRect().width > 0)`: "true",
	} {
		if got := evaluate[string](t, window, what); got != want {
			t.Errorf("%s is %s, want %s", what, got, want)
		}
	}
}
