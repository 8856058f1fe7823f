package admin

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
)

// TestListedKeysInABrowser opens the list of keys with the keyboard. It checks that the list closes
// and returns the focus, and that each listed key does what the list says.
func TestListedKeysInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := siteIn(t, window, newServer(t, contention()).Handler())
	log := siteIn(t, window, newServer(t, story()).Handler())
	locks := siteIn(t, window, newServer(t, night()).Handler())
	grid := siteIn(t, window, newServer(t, grouped()).Handler())
	agenda := siteIn(t, window, newServer(t, hourly()).Handler())
	open := func(address string) {
		t.Helper()
		visit(t, window, screens()[2], address)
	}
	const helps = `document.getElementById("keyboard").open`
	checks := map[string]func(){
		"/: search": func() {
			open(site + "/jobs?refresh=off")
			press(t, window, "/")
			until(t, window, `document.activeElement.id === "search"`)
		},
		"?: show this help": func() {
			open(site + "/jobs?refresh=off")
			press(t, window, "?")
			until(t, window, helps)
		},
		"Esc: close the suggestions of the search or this help": func() {
			open(site + "/jobs?refresh=off")
			press(t, window, "?")
			until(t, window, helps)
			press(t, window, kb.Escape)
			until(t, window, "!"+helps)
			suggests(t, window, "rollup", 3)
			press(t, window, kb.Escape)
			until(t, window, `document.getElementById("suggestions").hidden`)
		},
		"↓ ↑: next and previous suggestion of the search": func() {
			open(site + "/jobs?refresh=off")
			suggests(t, window, "rollup", 3)
			press(t, window, kb.ArrowDown)
			press(t, window, kb.ArrowDown)
			until(t, window, chosenSuggestion+` === "rollup-sales"`)
			press(t, window, kb.ArrowUp)
			until(t, window, chosenSuggestion+` === "rollup-hourly"`)
		},
		"n p: next and previous match in a log": func() {
			open(log + "/runs/" + id(302).String() + "?attempt=3&find=prices&match=17&refresh=off")
			const match = `document.querySelector("[data-match-number]").textContent`
			press(t, window, "n")
			until(t, window, match+` === "18"`)
			press(t, window, "p")
			until(t, window, match+` === "17"`)
		},
		"← → ↑ ↓: next bar of a timeline or an agenda, next cell of a grid": func() {
			for _, address := range []string{locks + "/locks/timeline?refresh=off",
				agenda + "/agenda?span=1h&refresh=off", grid + "/grid?span=6h&refresh=off"} {
				open(address)
				for _, key := range []string{kb.ArrowLeft, kb.ArrowRight, kb.ArrowUp,
					kb.ArrowDown} {
					if !moves(t, window, key) {
						t.Errorf("%s: the key %q moves the focus from no bar", address, key)
					}
				}
			}
		},
		"+ -: zoom a timeline in and out": func() {
			open(locks + "/locks/timeline?refresh=off")
			for _, key := range []string{"+", "-"} {
				focusBar(t, window, 0)
				before := evaluate[string](t, window, `location.search`)
				press(t, window, key)
				until(t, window, fmt.Sprintf(
					`location.search !== %q && document.readyState === "complete"`, before))
			}
		},
		"Enter: open the suggestion, the bar or the cell": func() {
			for address, to := range map[string]string{
				locks + "/locks/timeline?refresh=off":  "/runs/",
				agenda + "/agenda?span=1h&refresh=off": "/",
				grid + "/grid?span=6h&refresh=off":     "/runs"} {
				open(address)
				focusBar(t, window, 0)
				before := evaluate[string](t, window, `location.pathname`)
				press(t, window, "\r")
				until(t, window, fmt.Sprintf(`location.pathname.startsWith(%q) && `+
					`location.pathname !== %q && document.readyState === "complete"`, to, before))
			}
			open(site + "/jobs?refresh=off")
			suggests(t, window, "rollup", 3)
			press(t, window, kb.ArrowDown)
			press(t, window, "\r")
			until(t, window, `location.pathname === "/jobs/rollup-hourly"`)
		},
	}
	open(site + "/jobs?refresh=off")
	const link, focused = `document.querySelector('.nav a[href="/runs"]')`, `document.activeElement`
	for _, closing := range []string{kb.Escape, "\r"} { // the only button has the focus
		evaluate[any](t, window, link+`.focus()`)
		press(t, window, "?")
		until(t, window, helps+` && `+focused+`.closest("#keyboard") !== null`)
		press(t, window, closing)
		until(t, window, `!`+helps+` && `+focused+` === `+link)
	}
	listed := evaluate[[]string](t, window, `[...document.querySelectorAll("#keyboard dt")].map(
		(dt) => [...dt.querySelectorAll("kbd")].map((k) => k.textContent).join(" ") +
			": " + dt.nextElementSibling.textContent)`)
	for _, key := range listed {
		check, ok := checks[key]
		if !ok {
			t.Errorf("the list has %q, of which there is no check", key)
			continue
		}
		check()
	}
	for key := range checks {
		if !slices.Contains(listed, key) {
			t.Errorf("the list lacks %q", key)
		}
	}
}

// TestShortcutsCanBeTurnedOffInABrowser turns the shortcuts off in the list of keys, and on again
// on the page of the search. The choice must apply at once, to another open page of the browser,
// and to pages that are opened later.
func TestShortcutsCanBeTurnedOffInABrowser(t *testing.T) {
	t.Parallel()
	const (
		helps   = `document.getElementById("keyboard").open`
		inHelp  = `document.querySelector("#keyboard [data-shortcuts]")`
		onPage  = `document.querySelector("main [data-shortcuts]")`
		hint    = `document.querySelector(".find kbd").checkVisibility()`
		match   = `document.querySelector("[data-match-number]").textContent`
		aMatch  = "?attempt=3&find=prices&match=17&refresh=off"
		blurred = `document.activeElement.blur()`
	)
	window := tab(t)
	site := siteIn(t, window, newServer(t, story()).Handler())
	log := site + "/runs/" + id(302).String() + aMatch
	open := func(window context.Context, address string) {
		t.Helper()
		visit(t, window, screens()[2], address)
	}
	is := func(window context.Context, what string, want bool) {
		t.Helper()
		if got := evaluate[bool](t, window, what); got != want {
			t.Errorf("%s is %t, want %t", what, got, want)
		}
	}
	// handled reports whether the script handles a key.
	handled := func(window context.Context, key string) bool {
		t.Helper()
		return evaluate[bool](t, window, fmt.Sprintf(`!document.body.dispatchEvent(
			new KeyboardEvent("keydown", {key: %q, bubbles: true, cancelable: true}))`, key))
	}
	check := func(window context.Context, on bool) {
		t.Helper()
		is(window, hint, on)
		for _, key := range []string{"/", "n", "p", "?"} {
			if got := handled(window, key); got != on {
				t.Errorf("the key %s is handled: %t, want %t", key, got, on)
			}
			evaluate[any](t, window, blurred)
		}
		is(window, helps, on)
		evaluate[any](t, window, `document.getElementById("keyboard").close()`)
	}
	other := browsertest.Tab(t, window) // of the same browser
	open(other, log)
	open(window, log)
	press(t, window, "?")
	until(t, window, helps)
	if err := chromedp.Do(window, chromedp.KeyEvent(kb.Tab,
		chromedp.KeyModifiers(chromedp.ModifierShift))); err != nil {
		t.Fatal(err)
	}
	until(t, window, `document.activeElement === `+inHelp)
	is(window, inHelp+`.checked`, true)
	press(t, window, " ")
	until(t, window, `!`+inHelp+`.checked`)
	press(t, window, kb.Escape)
	until(t, window, `!`+helps)
	check(window, false)
	until(t, other, `!`+inHelp+`.checked`)
	check(other, false)
	open(window, log)
	check(window, false)
	if got := evaluate[string](t, window, match); got != "17" {
		t.Errorf("match %s is shown, want 17", got)
	}

	evaluate[any](t, window, `document.querySelector('.foot a[href$="#keys"]').click()`)
	until(t, window, `location.pathname === "/search" && document.readyState === "complete"`)
	is(window, onPage+`.checked`, false)
	evaluate[any](t, window, onPage+`.click()`)
	is(window, inHelp+`.checked`, true)
	open(window, log)
	check(window, true)
	until(t, other, inHelp+`.checked`)
	check(other, true)
}

// theBars are the bars and cells of the first chart of a page.
const theBars = `[...document.querySelectorAll(".timeline a.bar, .lanes a.bar, .grid a.cell")]`

// focusBar focuses a bar or cell, and reports whether there is one.
func focusBar(t *testing.T, window context.Context, n int) bool {
	t.Helper()
	return evaluate[bool](t, window, fmt.Sprintf(`(() => {
	const bar = %s[%d];
	bar?.focus();
	return bar !== undefined && document.activeElement === bar;
})()`, theBars, n))
}

// moves reports whether a key moves the focus from some bar to another one.
func moves(t *testing.T, window context.Context, key string) bool {
	t.Helper()
	for n := 0; n < 30 && focusBar(t, window, n); n++ {
		press(t, window, key)
		if evaluate[bool](t, window, fmt.Sprintf(
			`%[1]s.includes(document.activeElement) && document.activeElement !== %[1]s[%[2]d]`,
			theBars, n)) {
			return true
		}
	}
	return false
}
