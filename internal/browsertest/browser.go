// Package browsertest looks at pages with Debian's chromium, for tests: headless,
// one process a test, and each tab fails its test on what a page writes to its
// console as an error, which is also where a broken content policy is told.
package browsertest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/servertest"
)

// untilLimit bounds how long a page may take to become what is awaited.
const untilLimit = time.Minute

// Start starts a browser that ends with the test, and returns the context in
// which chromedp opens tabs. With -short the test is skipped.
func Start(t testing.TB, options ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a browser")
	}
	path, err := servertest.FindBinary("chromium", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	all := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)
	// Not only until the test's context ends: its cleanups still use the browser.
	allocated, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), append(all, options...)...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// Tab opens a tab. What it says as an error fails the test, unless it has one of
// the expected texts.
func Tab(t testing.TB, browser context.Context, expected ...string) context.Context {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	complain := func(text, where string) {
		for _, e := range expected {
			if strings.Contains(text, e) {
				return
			}
		}
		t.Errorf("error in the page: %s (%s)", text, where)
	}
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("exception in the page: %s: %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
		case *log.EventEntryAdded:
			if e.Entry.Level == "error" {
				complain(e.Entry.Text, e.Entry.URL)
			}
		case *runtime.EventConsoleAPICalled:
			if e.Type == "error" {
				var texts []string
				for _, arg := range e.Args {
					texts = append(texts, string(arg.Value)+arg.Description)
				}
				complain(strings.Join(texts, " "), "console")
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

// Screen is a window to look at pages through.
type Screen struct {
	Name   string
	Width  int64  // CSS px
	Scheme string // of colours: light or dark
}

// Screens are those that pages are made for.
func Screens() []Screen {
	return []Screen{{"narrow-light", 360, "light"}, {"narrow-dark", 360, "dark"}, {"wide-light", 1440, "light"}, {"wide-dark", 1440, "dark"}}
}

// Resize makes the tab's window one of that size and scheme.
func Resize(t testing.TB, tab context.Context, s Screen) {
	t.Helper()
	_, err := chromedp.Call(tab, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: s.Width, Height: 800, DeviceScaleFactor: 1, Mobile: s.Width < 500,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = chromedp.Call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: s.Scheme}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Visit opens an address and waits until it is loaded.
func Visit(t testing.TB, tab context.Context, address string) {
	t.Helper()
	if err := chromedp.Do(tab, chromedp.Navigate(address)); err != nil {
		t.Fatalf("%s: %v", address, err)
	}
}

// Evaluate returns what an expression is in the page.
func Evaluate[T any](t testing.TB, tab context.Context, expression string) T {
	t.Helper()
	value, err := chromedp.Run(tab, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// Await returns what the promise that an expression is brings.
func Await[T any](t testing.TB, tab context.Context, expression string) T {
	t.Helper()
	value, err := chromedp.Run(tab, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// Until waits for an expression to become true in the page. The page may go away
// under the question, and another come.
func Until(t testing.TB, tab context.Context, expression string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(tab, untilLimit)
	defer cancel()
	for {
		_, err := chromedp.Run(ctx, chromedp.Poll[bool](expression))
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s does not come true: %v", expression, err)
		}
	}
}
