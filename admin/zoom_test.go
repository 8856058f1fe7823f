package admin

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
)

// defaultText is the size of text in Chromium, in pixels, unless a user sets another.
const defaultText = 16

// zoom is how a user enlarges a page, and the size of the window.
type zoom struct {
	name  string
	width int64   // CSS px
	scale float64 // device pixels per CSS px
	text  int64   // default size of text in px
}

// zooms are a tablet, a window of 1280 px with a zoom of 200 %, and one with text of twice the size
// alone.
func zooms() []zoom {
	return []zoom{{"tablet", 768, 1, defaultText}, {"zoom of 200 %", 640, 2, defaultText},
		{"text of 200 %", 1280, 1, 2 * defaultText}}
}

// zoomTo changes the window. It does not reload the page.
func zoomTo(t *testing.T, window context.Context, z zoom) {
	t.Helper()
	_, err := chromedp.Call(window, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: z.width, Height: 400,
			DeviceScaleFactor: z.scale})
	if err == nil {
		_, err = chromedp.Call(window, cdppage.SetFontSizes,
			cdppage.SetFontSizesParams{FontSizes: &cdppage.FontSizes{Standard: z.text}})
	}
	if err != nil {
		t.Fatal(err)
	}
	// the page adapts in the next frame
	browsertest.Await[bool](t, window, `new Promise((done) =>
	requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

// checkZooms checks with each zoom that the page is no wider than the window, that no text is cut
// off, and that no texts overlap.
func checkZooms(t *testing.T, window context.Context) {
	t.Helper()
	for _, z := range zooms() {
		zoomTo(t, window, z)
		checkLayout(t, window, z.name)
	}
	zoomTo(t, window, zooms()[0]) // other tests use the window with the default size of text
}

// checkWithoutScripts checks the layout of a page whose scripts do not run, in a narrow and in a
// wide window, and that the page shows nothing that needs a script.
func checkWithoutScripts(t *testing.T, window context.Context, address string) {
	t.Helper()
	allow := func(scripts bool) {
		if _, err := chromedp.Call(window, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: !scripts}); err != nil {
			t.Fatal(err)
		}
	}
	allow(false)
	for _, s := range []screen{screens()[0], screens()[2]} {
		visit(t, window, s, address)
		checkLayout(t, window, s.Name+" without scripts")
		if shown := evaluate[[]string](t, window, `[...document.querySelectorAll("[data-scripted], .find")]
			.filter((e) => e.checkVisibility()).map((e) => e.outerHTML)`); len(shown) > 0 {
			t.Errorf("%s without scripts shows %s", s.Name, strings.Join(shown, "\n"))
		}
	}
	allow(true)
}

// checkLayout checks that the page is no wider than the window, that no text is cut off, and that
// no texts overlap.
func checkLayout(t *testing.T, window context.Context, where string) {
	t.Helper()
	found := evaluate[struct{ Wide, Cut, Overlapping []string }](t, window, layoutProblems)
	for what, problems := range map[string][]string{"wider than the window": found.Wide,
		"cut off": found.Cut, "overlapping": found.Overlapping} {
		if len(problems) > 0 {
			t.Errorf("%s: %s:\n\t%s", where, what, strings.Join(problems, "\n\t"))
		}
	}
}

// layoutProblems lists what extends beyond the window, texts that are cut off without an ellipsis,
// and pairs of texts that overlap. Contents that scroll are compared where they are visible.
const layoutProblems = `(() => {
	const most = 6; // of each kind
	const brief = (e) => e.outerHTML.replace(/\s+/g, " ").slice(0, 160);
	const shown = (e) => e.checkVisibility({visibilityProperty: true, opacityProperty: true});
	const wide = [], cut = [], overlapping = [];
	const styles = new Map();
	const styleOf = (e) => styles.get(e) ?? styles.set(e, getComputedStyle(e)).get(e);
	const clips = (value) => value === "hidden" || value === "clip";
	for (const e of document.querySelectorAll("body *:not(svg, svg *)")) {
		const style = styleOf(e);
		const button = e.matches("button, .button, .badge, .chip");
		if (!button && !clips(style.overflowX) && !clips(style.overflowY)) continue;
		if (style.clipPath !== "none" || !e.clientHeight || !shown(e)) continue;
		const ellipsis = style.textOverflow === "ellipsis" || style.webkitLineClamp !== "none";
		const beyond = (button || clips(style.overflowX)) && e.scrollWidth > e.clientWidth + 1 && !ellipsis;
		const below = (button || clips(style.overflowY)) && e.scrollHeight > e.clientHeight + 2 && style.webkitLineClamp === "none";
		if ((beyond || below) && cut.length < most) cut.push(brief(e) + " " + [e.clientWidth, e.scrollWidth, e.clientHeight, e.scrollHeight]);
	}
	const boxes = new Map(); // of an element: what is visible of its contents, and whether it is stuck
	const whole = {left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity, stuck: null, gone: false};
	const within = (a, b) => ({left: Math.max(a.left, b.left), top: Math.max(a.top, b.top), right: Math.min(a.right, b.right), bottom: Math.min(a.bottom, b.bottom)});
	const boxOf = (e) => {
		if (!e || e === document.documentElement) return whole;
		if (boxes.has(e)) return boxes.get(e);
		const outer = boxOf(e.parentElement), style = styleOf(e);
		let box = {...outer};
		if (style.position === "sticky" || style.position === "absolute" || style.position === "fixed") box.stuck = e;
		if (style.clipPath !== "none") box.gone = true;
		if (e !== document.body && !(e instanceof SVGElement && !e.ownerSVGElement && style.overflowX === "visible") && style.overflowX !== "visible") box = {...box, ...within(outer, e.getBoundingClientRect())};
		boxes.set(e, box);
		return box;
	};
	if (document.documentElement.scrollWidth > innerWidth) {
		wide.push("the page: " + document.documentElement.scrollWidth + " px");
		for (const e of document.querySelectorAll("body *")) {
			const right = within(boxOf(e), e.getBoundingClientRect()).right;
			if (wide.length < most && shown(e) && right > innerWidth + 1) wide.push(Math.round(right) + " px: " + brief(e));
		}
	}
	const texts = [];
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	const range = document.createRange();
	for (let node = walker.nextNode(); node; node = walker.nextNode()) {
		const e = node.parentElement;
		if (!node.data.trim() || e.closest("title, script, style, noscript, option, textarea, select, defs") || !shown(e)) continue;
		const box = boxOf(e);
		if (box.gone) continue;
		range.selectNodeContents(node);
		for (const r of range.getClientRects()) {
			const margin = (r.bottom - r.top) * .2; // a line may be less high than its font
			const seen = within({left: r.left + 1, top: r.top + margin, right: r.right - 1, bottom: r.bottom - margin}, box);
			if (seen.right - seen.left > 2 && seen.bottom - seen.top > 2) texts.push({...seen, e, stuck: box.stuck, text: node.data.trim().slice(0, 40)});
		}
	}
	texts.sort((a, b) => a.top - b.top);
	texts.forEach((a, i) => {
		for (let k = i + 1; k < texts.length && texts[k].top < a.bottom - 1; k++) {
			const b = texts[k];
			if (b.e === a.e || a.stuck !== b.stuck || overlapping.length >= most) continue;
			const both = within(a, b);
			if (both.right - both.left > 2 && both.bottom - both.top > 1) overlapping.push(JSON.stringify(a.text) + " and " + JSON.stringify(b.text) + " at " + Math.round(a.left) + ", " + Math.round(a.top) + " in " + brief(b.e));
		}
	});
	return {wide, cut, overlapping};
})()`
