package admin

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
)

// lastNight lists the failed runs of the night of the shop.
const lastNight = "/runs?state=failed,timed_out,lost&from=2026-03-13T20:00:00Z" +
	"&until=2026-03-14T06:00:00Z"

// TestPhoneInABrowser checks that the first screen of a phone answers the questions of an operator
// at night, and that a wide window shows what a phone folds away.
func TestPhoneInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := siteIn(t, window, newServer(t, pictureOptions()).Handler())
	visited := ""
	for _, c := range []struct{ path, selector, text string }{
		{"/", ".brief div:nth-of-type(1) dd:nth-of-type(1)", "archive-orders"},
		{"/", ".brief div:nth-of-type(1) dd:nth-of-type(2)", "sync-stock"},
		{"/", ".brief div:nth-of-type(1) dd:nth-of-type(3)", "load-events"},
		{"/", ".brief div:nth-of-type(2) dd:nth-of-type(1)", "load-events"},
		{"/", ".problems li", "import-prices"},
		{lastNight, ".runs tbody tr:nth-child(1)", "import-prices"},
		{lastNight, ".tabs [aria-current]", "Failed or lost"},
		{lastNight, ".chips:has(.n) li:nth-child(1)", "import-prices"},
		{lastNight, ".chips:has(.n) li:nth-child(4)", "send-invoices"},
		{lastNight, ".chips a:last-child", "Clear filters"},
		{"/locks", ".wide-chain .root-of .who", "archive-orders"},
		{"/locks", ".wide-chain .root-of + ul > li > .hop .for", "12 min"},
		{"/locks", ".wide-chain .root-of + ul > li > .hop .until", "gives up about 05:00:00"},
		{"/locks", ".wide-chain ul ul .for", "7 min"},
		{"/agenda", "[aria-labelledby=soonest] li:nth-child(1)", "load-events"},
		{"/agenda", "[aria-labelledby=soonest] li:nth-child(2)", "sync-stock"},
	} {
		if c.path != visited {
			resize(t, window, 360, 800)
			browsertest.Visit(t, window, site+c.path)
			visited = c.path
		}
		got := evaluate[struct {
			Text                       string
			Above, Left, Right, Bottom float64
		}](t, window, `(() => {
			const e = document.querySelector("`+c.selector+`");
			const box = e ? e.getBoundingClientRect() : {};
			return {text: e && e.checkVisibility() ? e.innerText : "", above: box.top,
				left: box.left, right: box.right, bottom: box.bottom};
		})()`)
		if !strings.Contains(got.Text, c.text) || got.Bottom > 800 || got.Right > 360 ||
			got.Left < 0 {
			t.Errorf("%s: %s is %+v, want %q on the first screen", c.path, c.selector, got, c.text)
		}
	}
	resize(t, window, 1280, 800)
	for path, want := range map[string][2]string{
		"/": {".tile", ".brief"}, "/agenda": {".lanes", "[aria-labelledby=soonest]"},
		"/locks": {"#text", ".fold > summary"},
		"/runs":  {"#q", ".fold > summary"}, lastNight: {"#day", ".fold > summary"},
	} {
		browsertest.Visit(t, window, site+path)
		for i, selector := range want {
			visible := evaluate[bool](t, window, `document.querySelector("`+selector+
				`").checkVisibility({contentVisibilityAuto: true})`)
			if visible != (i == 0) {
				t.Errorf("%s at 1280 px: %s is visible: %t", path, selector, visible)
			}
		}
	}
}

func resize(t *testing.T, window context.Context, width, height int64) {
	t.Helper()
	_, err := chromedp.Call(window, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height,
			DeviceScaleFactor: 1})
	if err != nil {
		t.Fatal(err)
	}
}
