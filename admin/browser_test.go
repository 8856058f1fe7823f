package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/browsertest"
)

func browser(t *testing.T) context.Context {
	t.Helper()
	return browsertest.Start(t)
}

// tab opens a tab in which answers with an error are no error on the console:
// they are what many of these pages are meant to be.
func tab(t *testing.T, browser context.Context) context.Context {
	t.Helper()
	const refused = "Failed to load resource: the server responded with a status of "
	return browsertest.Tab(t, browser, refused+"503", refused+"404", refused+"400", refused+"409", refused+"422")
}

type screen = browsertest.Screen

func screens() []screen { return browsertest.Screens() }

// TestScreenshots looks at every state of every page: that it is no wider than
// its window, that it has no error on the console, and that axe-core finds
// nothing serious. With HOLDFAST_GALLERY it writes pictures into the folder that
// it names; HOLDFAST_GALLERY_ONLY names the states.
func TestScreenshots(t *testing.T) {
	folder, wanted := os.Getenv("HOLDFAST_GALLERY"), os.Getenv("HOLDFAST_GALLERY_ONLY")
	window, auditor := tab(t, browser(t)), newAuditor(t)
	for n, state := range galleryStates() {
		if wanted != "" && !strings.Contains(","+wanted+",", ","+state.name+",") {
			continue
		}
		t.Run(state.name, func(t *testing.T) {
			server := newServer(t, state.options)
			if state.before != nil {
				state.before(t, server)
			}
			address := siteIn(t, window, state.handler(server)) + state.address()
			looked := screens()
			if folder == "" {
				looked = []screen{looked[0], looked[3]}
			}
			for i, s := range append(looked, screen{Name: "reflow", Width: 320, Scheme: "light"}) {
				if browsertest.Resize(t, window, s); i == 0 {
					browsertest.Visit(t, window, address)
				}
				if width := evaluate[int64](t, window, "document.documentElement.scrollWidth"); width > s.Width {
					t.Errorf("%s: the page is %d px wide", s.Name, width)
				}
				if i == len(looked) { // as narrow as WCAG has it, and as wide as it must be
					continue
				}
				if folder != "" || n%2 == i { // which is slow: by turns each kind of page is seen in both
					auditor.look(t, window, s.Name)
				}
				if folder != "" {
					photograph(t, window, filepath.Join(folder, fmt.Sprintf("%s-%s.png", state.name, s.Name)))
				}
			}
		})
	}
}

// siteIn serves a handler to a window that leaves its page before the end: a page
// that still asks again, or for its icon, would find nobody there, and the
// window's next page would be blamed.
func siteIn(t *testing.T, window context.Context, handler http.Handler) (address string) {
	t.Helper()
	site := httptest.NewServer(handler)
	t.Cleanup(func() {
		browsertest.Visit(t, window, "about:blank")
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

// visit opens an address in a window of that size and scheme.
func visit(t *testing.T, window context.Context, s screen, address string) {
	t.Helper()
	browsertest.Resize(t, window, s)
	browsertest.Visit(t, window, address)
}
