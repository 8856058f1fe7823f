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

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/servertest"
)

// browser starts Debian's chromium for a test, and returns a context in which
// chromedp opens tabs.
func browser(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a browser")
	}
	path, err := servertest.FindBinary("chromium", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)
	allocated, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// tab opens a tab that fails the test on whatever a page writes to its console
// as an error: exceptions, and what the content policy refuses.
func tab(t *testing.T, browser context.Context) context.Context {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("exception in the page: %s: %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
		case *log.EventEntryAdded:
			// A 503 is what these pages are meant to answer while the store is down.
			if e.Entry.Level == "error" && !strings.Contains(e.Entry.Text, "503") && !strings.Contains(e.Entry.Text, "404") && !strings.Contains(e.Entry.Text, "400") {
				t.Errorf("error in the page: %s", e.Entry.Text)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

// screen is a window to look at pages through.
type screen struct {
	name   string
	width  int64
	scheme string // of colours
}

func screens() []screen {
	return []screen{{"narrow-light", 360, "light"}, {"narrow-dark", 360, "dark"}, {"wide-light", 1440, "light"}, {"wide-dark", 1440, "dark"}}
}

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
			address := siteIn(t, window, server.Handler()) + state.address()
			looked := screens()
			if folder == "" {
				looked = []screen{looked[0], looked[3]}
			}
			for i, s := range looked {
				if resize(t, window, s); i == 0 {
					navigate(t, window, address)
				}
				if width := evaluate[int64](t, window, "document.documentElement.scrollWidth"); width > s.width {
					t.Errorf("%s: the page is %d px wide", s.name, width)
				}
				if folder != "" || n%2 == i { // which is slow: by turns each kind of page is seen in both
					auditor.look(t, window, s.name)
				}
				if folder != "" {
					photograph(t, window, filepath.Join(folder, fmt.Sprintf("%s-%s.png", state.name, s.name)))
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
		if err := chromedp.Do(window, chromedp.Navigate("about:blank")); err != nil {
			t.Error(err)
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

// visit opens an address in a window of that size and scheme.
func visit(t *testing.T, window context.Context, s screen, address string) {
	t.Helper()
	resize(t, window, s)
	navigate(t, window, address)
}

func navigate(t *testing.T, window context.Context, address string) {
	t.Helper()
	if err := chromedp.Do(window, chromedp.Navigate(address)); err != nil {
		t.Fatal(err)
	}
}

// resize makes the window one of that size and scheme.
func resize(t *testing.T, window context.Context, s screen) {
	t.Helper()
	_, err := chromedp.Call(window, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: s.width, Height: 800, DeviceScaleFactor: 1, Mobile: s.width < 500,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = chromedp.Call(window, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: s.scheme}},
	})
	if err != nil {
		t.Fatal(err)
	}
}
