package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// tab opens a tab that does not fail the test when a page has an error status. Many of these pages
// have one on purpose.
func tab(t *testing.T) context.Context {
	t.Helper()
	const refused = "Failed to load resource: the server responded with a status of "
	// 401: a page that connects to its stream of events while its user signs out
	return chromium.Tab(t, refused+"503", refused+"404", refused+"400", refused+"409",
		refused+"422", refused+"401")
}

type screen = browsertest.Screen

func screens() []screen { return browsertest.Screens() }

// mainPages are the states of the gallery that TestScreenshotsInABrowser checks without a soak:
// each kind of page once.
func mainPages() []string {
	return []string{
		"contention", "stale", "locks", "timeline", "contention-matrix", "upcoming",
		"jobs", "job", "explain", "runs", "backfills", "backfill", "grid", "agenda", "search", "run-failed", "replicas", "audit", "webhooks",
		"trigger-wrong-params", "release",
	}
}

// pictured returns the states of the gallery that TestScreenshotsInABrowser checks, in the
// gallery's order.
func pictured(t *testing.T) []galleryState {
	t.Helper()
	all := galleryStates()
	wanted := soak.Pick(mainPages(), nil)
	if only := os.Getenv("HOLDFAST_GALLERY_ONLY"); only != "" {
		wanted = strings.Split(only, ",")
	}
	if wanted == nil {
		return all
	}
	picked := slices.DeleteFunc(all, func(s galleryState) bool {
		return !slices.Contains(wanted, s.name)
	})
	if len(picked) != len(wanted) {
		t.Fatalf("the gallery has %d of the states %q", len(picked), wanted)
	}
	return picked
}

// TestScreenshotsInABrowser checks that a page is no wider than its window, writes no error to the
// console and has no serious finding of axe-core. It also checks the page with zooms, with forced
// colours and without scripts. It checks the main pages, each in one of these ways, and in a soak
// every state of every page in all of them. With HOLDFAST_GALLERY set to a folder it writes
// screenshots there. HOLDFAST_GALLERY_ONLY names the states.
func TestScreenshotsInABrowser(t *testing.T) {
	t.Parallel()
	folder, auditor, windows := os.Getenv("HOLDFAST_GALLERY"), newAuditor(t),
		make(chan context.Context, 2)
	for range cap(windows) {
		windows <- tab(t)
	}
	sizes := screens()
	if folder == "" && !soak.Running() {
		sizes = []screen{sizes[0], sizes[3]}
	}
	for n, state := range pictured(t) {
		t.Run(state.name, func(t *testing.T) {
			t.Parallel()
			window := <-windows
			t.Cleanup(func() { windows <- window })
			server := newServer(t, state.options)
			if state.before != nil {
				state.before(t, server)
			}
			address := siteIn(t, window, state.handler(server)) + state.address()
			for i, s := range append(slices.Clip(sizes),
				screen{Name: "tablet", Width: 768, Scheme: "light"},
				screen{Name: "reflow", Width: 320, Scheme: "light"}) {
				if browsertest.Resize(t, window, s); i == 0 {
					browsertest.Visit(t, window, address)
				}
				if width := evaluate[int64](t, window,
					"document.documentElement.scrollWidth"); width > s.Width {
					t.Errorf("%s: the page is %d px wide", s.Name, width)
				}
				if i >= len(sizes) { // a tablet, and the smallest width that WCAG requires
					continue
				}
				if len(sizes) > 2 || n%10 == 9*i {
					// axe-core is slow. Without a soak it checks every fifth page, in a narrow and
					// in a wide window in turn.
					auditor.look(t, window, s.Name)
				}
				if folder != "" {
					photograph(t, window, filepath.Join(folder,
						fmt.Sprintf("%s-%s.png", state.name, s.Name)))
				}
			}
			if soak.Running() || n%4 == 1 {
				checkZooms(t, window)
			}
			if soak.Running() || n%4 == 0 {
				checkForcedColors(t, window)
			}
			if soak.Running() || n%4 == 2 {
				checkWithoutScripts(t, window, address)
			}
		})
	}
}

// siteIn serves a handler for a window. At the end of the test the window leaves the page before
// the server closes. Otherwise a reload of the page would fail, and the window would report that
// error for its next page.
func siteIn(t *testing.T, window context.Context, handler http.Handler) (address string) {
	t.Helper()
	site := httptest.NewServer(handler)
	t.Cleanup(func() {
		for { // a reload of the page may interrupt the navigation
			err := chromedp.Do(window, chromedp.Navigate("about:blank"))
			if err == nil {
				break
			}
			if !strings.Contains(err.Error(), "net::ERR_ABORTED") {
				t.Errorf("about:blank: %v", err)
				break
			}
		}
		site.Close()
	})
	return site.URL
}

func photograph(t *testing.T, window context.Context, file string) {
	t.Helper()
	picture, err := chromedp.Run(window, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, picture, 0o644); err != nil {
		t.Fatal(err)
	}
}

// visit opens an address in a window with the size and color scheme of the screen.
func visit(t *testing.T, window context.Context, s screen, address string) {
	t.Helper()
	browsertest.Resize(t, window, s)
	browsertest.Visit(t, window, address)
}
