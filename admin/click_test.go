package admin

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
)

// TestActionsByClicking follows links and buttons from the page that offers an action, through its
// confirmation, to its result. It sends the main forms with scripts, three of them without, and two
// with the keyboard alone. A soak sends all forms in each way.
func TestActionsByClicking(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct{ scripts, keyboard bool }{
		"with scripts": {true, false}, "without": {false, false}, "by keyboard": {true, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "holdfast.db"),
				sqlite.Options{Exclusive: true, Log: zerolog.Nop()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(store.Close)
			_, running, waiting := addRuns(t, store)
			site := httptest.NewServer(realServer(t, store, "replica-1"))
			defer site.Close()
			window := tab(t)
			if _, err := chromedp.Call(window, emulation.SetScriptExecutionDisabled,
				emulation.SetScriptExecutionDisabledParams{Value: !way.scripts}); err != nil {
				t.Fatal(err)
			}
			type action struct{ from, link, fill, leads, message string }
			all := []action{
				{"/jobs/rollup-sales", "/jobs/rollup-sales/trigger", "params={\"rows\": 3}",
					"/runs/", "rollup-sales was triggered"},
				{"/jobs/rollup-sales", "/jobs/rollup-sales/pause",
					"reason=its table is being repaired", "/jobs/rollup-sales",
					"Job rollup-sales is paused"},
				{"/jobs/rollup-sales", "/jobs/rollup-sales/resume", "", "/jobs/rollup-sales",
					"Job rollup-sales is resumed"},
				{"/jobs?group=night", "/groups/night/pause", "", "/jobs?group=night",
					"Group night is paused"},
				{"/jobs/rollup-sales", "/groups/night/resume", "", "/jobs?group=night",
					"Group night is resumed"},
				{"/", "/pause", "", "/", "All jobs are paused"},
				{"/", "/resume", "", "/", "All jobs are resumed"},
				{param.RunPath(waiting), param.RunPath(waiting) + "/cancel", "", param.RunPath(waiting),
					"was cancelled"},
				{"/runs", param.RunPath(waiting) + "/again", "", "/runs/", "was triggered"},
				{param.RunPath(running), param.RunPath(running) + "/cancel", "", param.RunPath(running),
					"was cancelled. It has 10 s to return"},
				{"/", "/locks/release", "reason=it hangs", "/locks", "can commit nothing more"},
				{"/replicas", "/drain", "", "/replicas", "The replica is draining"},
				{"/replicas", "/undrain", "", "/replicas", "The replica starts runs again"},
				{"/jobs", "/add", `job={"name": "added", "handler": "work"}`, "/jobs/added",
					"added was added"},
				{"/jobs/added/change", "",
					`job={"name": "added", "handler": "work", "params": {"rows": 3}}`,
					"/jobs/added", "added was changed"},
				{"/jobs/added/remove", "", "", "/jobs", "added was removed"},
			}
			main := []action{all[0], all[1], all[2], all[7], all[10], all[13]}
			followed, filled := follow, fill
			switch {
			case way.keyboard:
				main, followed, filled = []action{all[0], all[10]}, followByKeys, fillByKeys
			case !way.scripts:
				main = []action{all[0], all[10], all[13]}
			}
			for _, action := range soak.Pick(main, all) {
				visit(t, window, screens()[0], site.URL+action.from)
				if action.link != "" {
					followed(t, window, `a[href*="`+action.link+`"]`)
				}
				if name, value, found := strings.Cut(action.fill, "="); found {
					filled(t, window, "#"+name, value)
				}
				followed(t, window, `main form[method=post] button`)
				at := evaluate[string](t, window, `location.pathname + location.search`)
				message := evaluate[string](t, window,
					`(document.querySelector(".notice") || document.querySelector("main")).innerText`)
				if !strings.HasPrefix(at, action.leads) ||
					!strings.Contains(message, action.message) {
					t.Errorf("%s of %s leads to %s: %s", action.link, action.from, at, message)
				}
			}
		})
	}
}

// follow clicks on a link or button that leads to another page, and waits for that page.
func follow(t *testing.T, window context.Context, selector string) {
	t.Helper()
	awaitPage(t, window, selector, chromedp.Click(selector))
}

// followByKeys is follow with the keyboard.
func followByKeys(t *testing.T, window context.Context, selector string) {
	t.Helper()
	tabTo(t, window, selector)
	awaitPage(t, window, selector, chromedp.KeyEvent("\r"))
}

// fill replaces the value of a field.
func fill(t *testing.T, window context.Context, selector, value string) {
	t.Helper()
	if err := chromedp.Do(window, chromedp.SetValue(selector, value)); err != nil {
		t.Fatal(err)
	}
}

// fillByKeys is fill with the keyboard.
func fillByKeys(t *testing.T, window context.Context, selector, value string) {
	t.Helper()
	tabTo(t, window, selector)
	old := evaluate[int](t, window, `document.activeElement.value.length`)
	press(t, window, strings.Repeat(kb.Delete, old)+strings.Repeat(kb.Backspace, old)+value)
}

// tabTo presses Tab until the focus is on an element with the selector.
func tabTo(t *testing.T, window context.Context, selector string) {
	t.Helper()
	const most = 200
	for range most {
		press(t, window, "\t")
		if evaluate[bool](t, window, `document.activeElement.matches('`+selector+`')`) {
			return
		}
	}
	t.Fatalf("%s has not the focus after %d presses of Tab", selector, most)
}

// awaitPage runs an action that opens another page, and waits for that page.
func awaitPage(t *testing.T, window context.Context, what string,
	action chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(window, time.Minute)
	defer cancel()
	loaded := make(chan struct{}, 1)
	err := chromedp.Listen(ctx, func(event any) {
		if _, ok := event.(*cdppage.EventLoadEventFired); ok {
			select {
			case loaded <- struct{}{}:
			default:
			}
		}
	})
	if err == nil {
		err = chromedp.Do(ctx, action)
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	select {
	case <-loaded:
	case <-ctx.Done():
		t.Fatalf("%s: got no other page", what)
	}
}

// TestTabOrderOfAFormInABrowser checks that Tab visits the error messages first, then the fields in
// their order, then the button.
func TestTabOrderOfAFormInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	o, _ := withControl(contention())
	state := galleryState{sent: sent("params", `{"row": 3}`)}
	site := httptest.NewServer(state.handler(newServer(t, o)))
	defer site.Close()
	visit(t, window, screens()[2], site.URL+"/jobs/rollup-sales/trigger")
	focus := func() string {
		return evaluate[string](t, window,
			`document.activeElement.id || document.activeElement.textContent.trim()`)
	}
	// The browser sets the focus with the first frame that it draws, which may be after the load.
	browsertest.Until(t, window, `document.activeElement.id === "error-text"`)
	var order []string
	for range 40 {
		if err := chromedp.Do(window, chromedp.KeyEvent("\t")); err != nil {
			t.Fatal(err)
		}
		if order = append(order, focus()); order[len(order)-1] == "Go back" {
			break
		}
	}
	if got := strings.Join(order[max(0, len(order)-6):],
		", "); got != "params, start, wait, reason, Run now, Go back" {
		t.Errorf("keys go to %s", strings.Join(order, ", "))
	}
	described := evaluate[string](t, window,
		`document.getElementById("params").getAttribute("aria-describedby").split(" ").map(id => document.getElementById(id).textContent.trim()).join(" | ")`)
	if !strings.Contains(described, "As JSON") ||
		!strings.Contains(described, `unknown key "row"`) {
		t.Errorf("the wrong field is described by %q", described)
	}
}
