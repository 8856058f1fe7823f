package admin

import (
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/sqlite"
)

// barShown is whether the bar of actions on selected rows is visible.
const barShown = `document.querySelector(".bulk").checkVisibility()`

// TestBulkActionsByClicking ticks two jobs and pauses them, and resumes them with the keyboard
// alone. Without scripts the bar of actions is always shown.
func TestBulkActionsByClicking(t *testing.T) {
	t.Parallel()
	for name, scripts := range map[string]bool{"with scripts": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "holdfast.db"),
				sqlite.Options{Exclusive: true, Log: zerolog.Nop()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(store.Close)
			addRuns(t, store)
			site := httptest.NewServer(realServer(t, store, "replica-1"))
			defer site.Close()
			window := tab(t)
			if _, err := chromedp.Call(window, emulation.SetScriptExecutionDisabled,
				emulation.SetScriptExecutionDisabledParams{Value: !scripts}); err != nil {
				t.Fatal(err)
			}
			const list = "/jobs?group=night"
			visit(t, window, screens()[0], site.URL+list)
			if shown := evaluate[bool](t, window, barShown); shown == scripts {
				t.Errorf("before a row is selected the bar is shown: %v", shown)
			}
			for _, job := range []string{"rollup-sales", "rollup-stock"} {
				if err := chromedp.Do(window, chromedp.Click(
					`label:has(.pick[value="`+job+`"])`)); err != nil {
					t.Fatal(err)
				}
			}
			follow(t, window, `button[formaction="/bulk/pause"]`)
			if title := evaluate[string](t, window,
				`document.querySelector("h1").textContent`); title != "Pause 2 jobs?" {
				t.Errorf("the title is %q", title)
			}
			follow(t, window, `main form[method=post] button`)
			notice := func() string {
				return evaluate[string](t, window,
					`location.pathname + location.search + " " + document.querySelector(".notice bdi").textContent`)
			}
			if got := notice(); got != list+" Paused 2 jobs." {
				t.Errorf("the notice is %q", got)
			}
			focused := func() string {
				return evaluate[string](t, window,
					`document.activeElement.value || document.activeElement.textContent`)
			}
			to := func(want string) {
				t.Helper()
				for range 60 {
					if strings.HasPrefix(focused(), want) {
						return
					}
					press(t, window, "\t")
				}
				t.Fatalf("Tab does not lead to %q", want)
			}
			to("rollup-sales")
			to("rollup-stock")
			press(t, window, " ")
			to("Resume")
			press(t, window, "\r")
			until(t, window, `document.readyState == "complete" && `+
				`document.querySelector("h1").textContent == "Resume 1 job?"`)
			to("Resume 1 job")
			press(t, window, "\r")
			until(t, window, `document.querySelector(".notice bdi") != null`)
			if got := notice(); got != list+" Resumed 1 job." {
				t.Errorf("the notice is %q", got)
			}
		})
	}
}

// TestSelectionSurvivesARefreshInABrowser selects all rows but one on a live page. The numbers must
// be right, and the selection the same after a refresh.
func TestSelectionSurvivesARefreshInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := siteIn(t, window, hasty(t, actionOptions(contention())).Handler())
	visit(t, window, screens()[3], site+"/jobs")
	// without the event input, after which a page does not refresh for 20 s
	toggling := func(selector string) string {
		return `(() => {
	const e = document.querySelector('` + selector + `');
	e.checked = !e.checked;
	return e.dispatchEvent(new Event("change", { bubbles: true }));
})()`
	}
	toggle := func(selector string) {
		t.Helper()
		evaluate[bool](t, window, toggling(selector))
	}
	const stating = `[document.querySelector(".said").textContent,
	document.querySelectorAll(".pick:checked").length, document.getElementById("pick-all").checked,
	document.getElementById("pick-all").indeterminate, ` + barShown + `].join(" ")`
	state := func() string { return evaluate[string](t, window, stating) }
	toggle("#pick-all")
	if got := state(); got != "Selected jobs: 9 9 true false true" {
		t.Errorf("all rows are selected: %s", got)
	}
	toggle(`.pick[value="report/weekly"]`)
	const want = "Selected jobs: 8 8 false true true"
	if got := state(); got != want {
		t.Errorf("one row is not selected: %s, want %s", got, want)
	}
	evaluate[bool](t, window, `document.getElementById("live").dataset.before = true`)
	until(t, window, `!("before" in document.getElementById("live").dataset)`)
	if got := state(); got != want || evaluate[bool](t, window,
		`document.querySelector('.pick[value="report/weekly"]').checked`) {
		t.Errorf("after a refresh: %s, want %s", got, want)
	}
	// in one call, because a refresh restores the limit
	limited := func(selector string) (state string, disabled int) {
		t.Helper()
		got := evaluate[struct {
			State    string
			Disabled int
		}](t, window, `(() => {
	document.querySelector("[data-count]").dataset.most = 8;
	`+toggling(selector)+`;
	return {State: `+stating+`,
		Disabled: document.querySelectorAll(".bulk button:disabled").length};
})()`)
		return got.State, got.Disabled
	}
	if got, disabled := limited("#pick-all"); got !=
		"Selected jobs: 9, at most 8 at once 9 true false true" || disabled == 0 {
		t.Errorf("more rows are selected than one action takes: %s, %d buttons are disabled", got,
			disabled)
	}
	if _, disabled := limited(`.pick[value="report/weekly"]`); disabled != 0 {
		t.Errorf("%d buttons are disabled for 8 rows", disabled)
	}
	toggle("#pick-all")
	toggle("#pick-all")
	if got := state(); got != "Selected jobs 0 false false false" {
		t.Errorf("no row is selected: %s", got)
	}
}
