package admin

import (
	"context"
	"fmt"
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
			if e.Entry.Level == "error" && !strings.Contains(e.Entry.Text, "503") && !strings.Contains(e.Entry.Text, "404") && !strings.Contains(e.Entry.Text, "400") &&
				!strings.Contains(e.Entry.Text, "409") && !strings.Contains(e.Entry.Text, "422") {
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
	return []screen{{"narrow-light", 360, "light"}, {"narrow-dark", 360, "dark"}, {"wide-light", 1366, "light"}, {"wide-dark", 1366, "dark"}}
}

// TestScreenshots writes pictures of every state of every page into the folder
// that HOLDFAST_GALLERY names. Wherever it runs it holds that no page is wider
// than its window, and that none has an error on the console.
func TestScreenshots(t *testing.T) {
	folder := os.Getenv("HOLDFAST_GALLERY")
	wanted := os.Getenv("HOLDFAST_GALLERY_ONLY")
	shown := browser(t)
	window := tab(t, shown)
	for _, state := range galleryStates() {
		if wanted != "" && !strings.Contains(","+wanted+",", ","+state.name+",") {
			continue
		}
		t.Run(state.name, func(t *testing.T) {
			server := newServer(t, state.options)
			if state.before != nil {
				state.before(t, server)
			}
			site := httptest.NewServer(state.handler(server))
			defer site.Close()
			looked := screens()
			if folder == "" {
				looked = []screen{looked[0], looked[3]}
			}
			for _, s := range looked {
				look(t, window, site.URL+state.address(), s, folder, state.name)
			}
		})
	}
}

func look(t *testing.T, window context.Context, address string, s screen, folder, name string) {
	t.Helper()
	visit(t, window, s, address)
	width, err := chromedp.Run(window, chromedp.Evaluate[int64]("document.documentElement.scrollWidth"))
	if err != nil {
		t.Fatal(err)
	}
	if width > s.width {
		t.Errorf("%s: the page is %d px wide", s.name, width)
	}
	if folder == "" {
		return
	}
	picture, err := chromedp.Run(window, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%s-%s.png", name, s.name)), picture, 0o644); err != nil {
		t.Fatal(err)
	}
}

// visit opens an address in a window of that size and scheme.
func visit(t *testing.T, window context.Context, s screen, address string) {
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
	if err := chromedp.Do(window, chromedp.Navigate(address)); err != nil {
		t.Fatal(err)
	}
}
