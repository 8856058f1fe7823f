package admin

import (
	"context"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
)

// setWindow minimizes or restores the window of a tab. The page of a minimized window is hidden.
func setWindow(t *testing.T, window context.Context, state browser.WindowState) {
	t.Helper()
	of, err := chromedp.Call(window, browser.GetWindowForTarget,
		browser.GetWindowForTargetParams{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = chromedp.Call(window, browser.SetWindowBounds, browser.SetWindowBoundsParams{
		WindowID: of.WindowID, Bounds: &browser.Bounds{WindowState: state}})
	if err != nil {
		t.Fatal(err)
	}
}

// TestHiddenPageDoesNotReload minimizes the window of a page. The page must close its event stream
// and must not reload, neither for an event nor by its timer. When the window is restored, the page
// shows what has changed.
func TestHiddenPageDoesNotReload(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := newReplicaSite(t, window)
	_, err := chromedp.Call(window, emulation.SetFocusEmulationEnabled,
		emulation.SetFocusEmulationEnabledParams{}) // it would keep the page visible
	if err != nil {
		t.Fatal(err)
	}
	browsertest.Visit(t, window, site.URL+"/replicas")
	site.addReplica("replica-before")
	until(t, window, `document.body.textContent.includes("replica-before")`)

	setWindow(t, window, browser.WindowStateMinimized)
	until(t, window, `document.hidden && !document.querySelector(".htmx-request")`)
	for start := time.Now(); site.streams.Load() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("the hidden page keeps its event stream open")
		}
	}
	asked := site.pages.Load()
	site.addReplica("replica-while-hidden")
	site.changes.action()
	// Both an event and the timer cause a reload by a DOM event of this element.
	if refused := evaluate[bool](t, window, `(() => {
		let refused = false;
		document.addEventListener("htmx:beforeRequest", (e) => refused = e.defaultPrevented);
		document.getElementById("live").dispatchEvent(new Event("changes"));
		return refused;
	})()`); !refused || site.pages.Load() != asked {
		t.Errorf("the hidden page reloads: refused %t, %d requests", refused,
			site.pages.Load()-asked)
	}

	setWindow(t, window, browser.WindowStateNormal)
	until(t, window, `document.body.textContent.includes("replica-while-hidden")`)
}
