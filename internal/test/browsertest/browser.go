// Package browsertest opens pages in Debian's chromium-headless-shell, for tests. It is Chromium
// without a window and without the code for one. A tab fails its test when the page writes an error
// to its console; the browser also reports a broken content policy there.
//
// A browser takes about a second of CPU time to start, so the tests of a package
// share one:
//
//	var shared browsertest.Browser
//
//	func TestMain(m *testing.M) {
//		code := m.Run()
//		if err := shared.Stop(); err != nil {
//			fmt.Fprintln(os.Stderr, err)
//			code = max(code, 1)
//		}
//		os.Exit(code)
//	}
//
//	func TestPage(t *testing.T) {
//		t.Parallel()
//		tab := shared.Tab(t)
//		…
//	}
//
// On Linux the kernel ends the browser when the test binary dies first. The browser
// keeps its profile in the folder for temporary files.
package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

const (
	untilLimit = 2 * time.Minute       // for Until
	untilAsks  = 50 * time.Millisecond // between two evaluations of Until
	stopLimit  = 10 * time.Second      // for a clean exit of the browser
)

// Browser is a browser that tests share. The zero value is ready for use. The first tab starts the
// process. The methods may be called concurrently.
type Browser struct {
	mu      sync.Mutex
	started bool
	ctx     context.Context // in which chromedp opens tabs
	close   func() error
	err     error // of the start
}

// Tab opens a tab with cookies and a window of its own. It closes the tab at the end of the test.
// Tabs of parallel tests do not affect each other, because each has the focus of its own window. An
// error in the page fails the test, unless its text contains one of the expected texts. With -short
// the test is skipped.
func (b *Browser) Tab(t testing.TB, expected ...string) context.Context {
	t.Helper()
	skipShort(t)
	ctx, err := b.start()
	if err != nil {
		t.Fatal(err)
	}
	return open(t, ctx, expected, chromedp.WithNewBrowserContext())
}

func (b *Browser) start() (context.Context, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.started {
		b.started = true
		b.ctx, b.close, b.err = launch(context.Background())
	}
	return b.ctx, b.err
}

// Stop ends the browser and its children and removes its profile. It may be called more than once,
// and without an open tab.
func (b *Browser) Stop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.close == nil {
		return nil
	}
	err := b.close()
	b.close = nil
	return err
}

// Start starts a browser for one test, which ends it, and returns the context in
// which [Tab] opens tabs. With -short the test is skipped.
func Start(t testing.TB, options ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	skipShort(t)
	// The browser lives longer than the test's context, because the test's cleanups use it.
	ctx, stop, err := launch(context.WithoutCancel(t.Context()), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return ctx
}

func skipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a browser")
	}
}

// browserPath returns the path of the browser. It prefers the program to the script in /usr/bin
// that starts it, because the death of the test binary would end only the script.
func browserPath() (string, error) {
	const program = "/usr/lib/chromium/chromium-headless-shell"
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	return servertest.FindBinary("chromium-headless-shell", "chromium-headless-shell")
}

// launch starts a browser. The returned function ends it, waits for the end of its processes and
// removes its profile.
func launch(parent context.Context,
	options ...chromedp.ExecAllocatorOption) (context.Context, func() error, error) {
	path, err := browserPath()
	if err != nil {
		return nil, nil, err
	}
	home, err := os.MkdirTemp("", "chromium-home-")
	if err != nil {
		return nil, nil, fmt.Errorf("create home of chromium: %w", err)
	}
	// Chromium keeps crash reports, certificates and settings beside its profile.
	all := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Env("HOME="+home, "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "XDG_DATA_HOME="))
	allocated, freed := chromedp.NewExecAllocator(parent, append(all, options...)...)
	ctx, end := chromedp.NewContext(allocated)
	free := func() error {
		end()
		freed()
		return os.RemoveAll(home)
	}
	if err := chromedp.Do(ctx); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start of chromium: %w", err), free())
	}
	stop := func() error {
		limited, cancel := context.WithTimeout(ctx, stopLimit) // afterwards the browser is killed
		defer cancel()
		if err := chromedp.Cancel(limited); err != nil {
			return errors.Join(fmt.Errorf("end of chromium: %w", err), free())
		}
		return free()
	}
	return ctx, stop, nil
}

// Tab opens a tab that shares its cookies with the other tabs of the browser. It closes the tab at
// the end of the test. An error in the page fails the test, unless its text contains one of the
// expected texts.
func Tab(t testing.TB, browser context.Context, expected ...string) context.Context {
	t.Helper()
	return open(t, browser, expected)
}

func open(t testing.TB, browser context.Context, expected []string,
	options ...chromedp.ContextOption) context.Context {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, options...)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	// Only one window of a browser has the focus. The emulation lets the pages of parallel tests
	// behave as if each had it.
	_, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled,
		emulation.SetFocusEmulationEnabledParams{Enabled: true})
	if err != nil {
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
	err = chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("exception in the page: %s: %+v", e.ExceptionDetails.Text,
				e.ExceptionDetails.Exception)
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

// Screen is the size and colour scheme of a window.
type Screen struct {
	Name   string
	Width  int64  // CSS px
	Scheme string // of colours: light or dark
}

// Screens are the screens for which the pages are designed.
func Screens() []Screen {
	return []Screen{{"narrow-light", 360, "light"}, {"narrow-dark", 360, "dark"},
		{"wide-light", 1440, "light"}, {"wide-dark", 1440, "dark"}}
}

// Resize gives the tab's window the size and scheme of the screen.
func Resize(t testing.TB, tab context.Context, s Screen) {
	t.Helper()
	_, err := chromedp.Call(tab, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{
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

// Evaluate returns the value of an expression in the page.
func Evaluate[T any](t testing.TB, tab context.Context, expression string) T {
	t.Helper()
	value, err := chromedp.Run(tab, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// Await returns the value of the promise that an expression returns.
func Await[T any](t testing.TB, tab context.Context, expression string) T {
	t.Helper()
	value, err := chromedp.Run(tab, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// Until waits for an expression to become true in the page. The page may be replaced by another
// meanwhile. The test asks, because timers of a page do not run while its scripts are disabled.
func Until(t testing.TB, tab context.Context, expression string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(tab, untilLimit)
	defer cancel()
	next := time.NewTicker(untilAsks)
	defer next.Stop()
	for {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		if err == nil && is {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s does not come true: %v, last error %v", expression, ctx.Err(), err)
		case <-next.C:
		}
	}
}
