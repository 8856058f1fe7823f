package admin

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// forceColors makes the browser show pages with the colours of the system, as users with a contrast
// theme see them. With an empty scheme it shows the colours of the page again.
func forceColors(t *testing.T, window context.Context, scheme string) {
	t.Helper()
	forced := "active"
	if scheme == "" {
		forced, scheme = "none", "light"
	}
	_, err := chromedp.Call(window, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "forced-colors", Value: forced},
			{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkForcedColors checks that everything that has its shape or its state by a background has an
// edge too, because backgrounds are not shown with forced colours, and that charts can be seen.
func checkForcedColors(t *testing.T, window context.Context) {
	t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		forceColors(t, window, scheme)
		// the theme that the viewer has chosen does not count
		evaluate[string](t, window, `document.documentElement.dataset.theme = "dark"`)
		if missing := evaluate[[]string](t, window, withoutEdge); len(missing) > 0 {
			t.Errorf("forced colours, %s: not to be seen:\n\t%s", scheme,
				strings.Join(missing, "\n\t"))
		}
	}
	forceColors(t, window, "")
	evaluate[bool](t, window, `delete document.documentElement.dataset.theme`)
}

// withoutEdge lists what has no edge, and shapes of charts whose colour has a contrast of less than
// 3 with the page.
const withoutEdge = `(() => {
	if (!matchMedia("(forced-colors: active)").matches) return ["the page: colours are not forced"];
	const found = new Map(); // by kind
	const note = (e, why) => {
		const kind = e.tagName + "." + (e.getAttribute("class") ?? "");
		if (!found.has(kind)) found.set(kind, why + ": " + e.outerHTML.replace(/\s+/g, " ").slice(0, 140));
	};
	const shown = (e) => e.checkVisibility({visibilityProperty: true, opacityProperty: true}) && e.getBoundingClientRect().width > 1;
	const channels = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
	const luminance = (color) => {
		const [r, g, b] = channels(color).slice(0, 3).map((c) => (c /= 255) <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
		return .2126 * r + .7152 * g + .0722 * b;
	};
	const contrast = (a, b) => {
		const [x, y] = [luminance(a), luminance(b)];
		return (Math.max(x, y) + .05) / (Math.min(x, y) + .05);
	};
	const canvas = getComputedStyle(document.body).backgroundColor;
	const seen = (color) => channels(color)[3] !== 0 && contrast(color, canvas) >= 3;
	const edge = (style, sides = ["Top", "Right", "Bottom", "Left"]) => sides.some((s) => style["border" + s + "Style"] !== "none" && parseFloat(style["border" + s + "Width"]) >= 1 && seen(style["border" + s + "Color"])) ||
		style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1 && seen(style.outlineColor);
	for (const e of document.querySelectorAll(".badge, .cell, .tile, .note, .overall, button, .button, input:not([type=hidden]), select, textarea, .chip, .panel, .meter, .progress, .because li")) {
		const style = e.matches(".because li") ? getComputedStyle(e, "::before") : getComputedStyle(e);
		if (shown(e) && !edge(style) && !e.matches(".seg *, [type=checkbox], [type=radio]")) note(e, "no edge");
	}
	for (const e of document.querySelectorAll(":is(.nav, .tabs, .attempts) [aria-current], :is(.seg, .chips) :is([aria-current], [aria-pressed=true])")) {
		if (!shown(e)) continue;
		const other = [...e.closest("ul, .seg, .chips").querySelectorAll("a, button")].find((o) => !o.hasAttribute("aria-current") && o.getAttribute("aria-pressed") !== "true" && shown(o));
		if (!edge(getComputedStyle(e)) || other && edge(getComputedStyle(other), ["Bottom"]) && edge(getComputedStyle(e), ["Bottom"]) && getComputedStyle(e).outlineStyle === "none") note(e, "not marked");
	}
	for (const e of document.querySelectorAll("main svg :is(rect, circle, path)")) {
		if (!shown(e) || e.closest("pattern, defs, .reach, .soft, [hidden]") || e.matches(".reach, .soft, .soft2, .plate, .zone, .expect95, .area, .todo, .usual")) continue;
		const style = getComputedStyle(e);
		if (style.fill.startsWith("url")) continue;
		if (!(style.fill !== "none" && seen(style.fill)) && !(style.stroke !== "none" && seen(style.stroke))) note(e, "too faint, " + style.fill + " on " + canvas);
	}
	return [...found.values()];
})()`
