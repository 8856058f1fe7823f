package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// chosenSuggestion is the name of the suggestion that the field says is chosen, or "".
const chosenSuggestion = `(document.getElementById(
	document.getElementById("search").getAttribute("aria-activedescendant"))
	?.querySelector("bdi").textContent ?? "")`

// suggests types a text into the empty search field and waits for n suggestions.
func suggests(t *testing.T, window context.Context, text string, n int) {
	t.Helper()
	evaluate[any](t, window, `document.getElementById("search").value = "";
document.getElementById("search").focus()`)
	inserted(t, window, text)
	until(t, window, fmt.Sprintf(`!document.getElementById("suggestions").hidden &&
	document.querySelectorAll("#suggestions [role=option]").length === %d`, n))
}

// TestSearchSuggestsWhileTypingInABrowser drives the search field with the keyboard: it suggests
// jobs, tables and replicas, and runs by their ids. The list must not move the page, and must be
// accessible.
func TestSearchSuggestsWhileTypingInABrowser(t *testing.T) {
	t.Parallel()
	window, auditor := tab(t), newAuditor(t)
	site := siteIn(t, window, newServer(t, contention()).Handler())
	const field, list = `document.getElementById("search")`, `document.getElementById("suggestions")`
	attribute := func(name string) string {
		t.Helper()
		return evaluate[string](t, window, field+`.getAttribute("`+name+`") ?? ""`)
	}
	shown := func() string {
		t.Helper()
		return evaluate[string](t, window, `[...`+list+`.children].map(
	(e) => e.querySelector("bdi").textContent + " " + e.querySelector(".sub").textContent).join()`)
	}
	const places = `[...document.querySelectorAll("header, .bar > *, main, main > *")].map(
	(e) => { const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height].join() }).join(";")`
	for _, s := range []screen{screens()[0], screens()[3]} {
		visit(t, window, s, site+"/jobs?refresh=off")
		if got := attribute("role") + " " + attribute("aria-controls") + " " +
			attribute("aria-expanded") + " " + attribute("aria-autocomplete"); got !=
			"combobox suggestions false list" {
			t.Errorf("%s: the field is %s", s.Name, got)
		}
		press(t, window, "/")
		until(t, window, `document.activeElement === `+field)
		evaluate[any](t, window, field+`.value = ""`)
		before := evaluate[string](t, window, places)
		suggests(t, window, "rollup", 3)
		if got, want := shown(), "rollup-hourly job,rollup-sales job,"+
			"public/sales_rollup table"; got != want {
			t.Errorf("%s: suggestions are %q, want %q", s.Name, got, want)
		}
		if after := evaluate[string](t, window, places); after != before {
			t.Errorf("%s: the list moves the page from %s to %s", s.Name, before, after)
		}
		if !evaluate[bool](t, window, `(() => { const r = `+list+`.getBoundingClientRect();
	return r.left >= 0 && r.right <= innerWidth && r.width > 150; })()`) {
			t.Errorf("%s: the list is not in the window", s.Name)
		}
		if attribute("aria-expanded") != "true" || attribute("aria-activedescendant") != "" {
			t.Errorf("%s: an open list: expanded %s, chosen %q", s.Name,
				attribute("aria-expanded"), attribute("aria-activedescendant"))
		}
		for _, step := range []struct{ key, chosen string }{
			{kb.ArrowDown, "rollup-hourly"}, {kb.ArrowDown, "rollup-sales"},
			{kb.ArrowUp, "rollup-hourly"}, {kb.ArrowUp, "public/sales_rollup"},
			{kb.ArrowDown, "rollup-hourly"},
		} {
			press(t, window, step.key)
			until(t, window, fmt.Sprintf("%s === %q", chosenSuggestion, step.chosen))
		}
		if n := evaluate[int](t, window, `document.querySelectorAll(
	"#suggestions [aria-selected=true]").length`); n != 1 {
			t.Errorf("%s: %d suggestions are selected, want 1", s.Name, n)
		}
		auditor.look(t, window, s.Name)
		press(t, window, kb.Escape)
		until(t, window, list+`.hidden`)
		if got := evaluate[string](t, window, field+`.value`); got != "rollup" ||
			attribute("aria-expanded") != "false" || attribute("aria-activedescendant") != "" {
			t.Errorf("%s: after Escape the field has %q, expanded %s", s.Name, got,
				attribute("aria-expanded"))
		}
		press(t, window, kb.ArrowDown)
		until(t, window, "!"+list+`.hidden`)
		press(t, window, "\t")
		until(t, window, list+`.hidden`)
	}
	for text, want := range map[string]struct{ name, path string }{
		"sales_roll":  {"public/sales_rollup", "/locks/timeline?resource=public%2Fsales_rollup"},
		"replica-4":   {"replica-4", "/runs?replica=replica-4"},
		"report/week": {"report/weekly", "/jobs/report%2Fweekly"},
		id(10).String(): {"…" + strings.ReplaceAll(id(10).String(), "-", "")[24:],
			"/runs/" + id(10).String()},
	} {
		visit(t, window, screens()[2], site+"/jobs?refresh=off")
		suggests(t, window, text, 1)
		press(t, window, kb.ArrowDown)
		until(t, window, fmt.Sprintf("%s === %q", chosenSuggestion, want.name))
		press(t, window, "\r")
		until(t, window, fmt.Sprintf(`location.pathname + location.search === %q &&
	document.readyState === "complete"`, want.path))
	}
	// without a choice Enter sends the form, and a click opens a suggestion
	visit(t, window, screens()[2], site+"/jobs?refresh=off")
	suggests(t, window, "rollup", 3)
	press(t, window, "\r")
	until(t, window, `location.pathname + location.search === "/search?q=rollup" &&
	document.readyState === "complete"`)
	suggests(t, window, "rollup", 3)
	if err := chromedp.Do(window, chromedp.Click(`#suggestion-1`)); err != nil {
		t.Fatal(err)
	}
	until(t, window, `location.pathname === "/jobs/rollup-sales"`)
}

// TestSearchAbortsAnOlderRequestInABrowser checks that the script ends a request for suggestions
// when the text changes, and shows those of the new text only.
func TestSearchAbortsAnOlderRequestInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	asked, ended := make(chan string, 10), make(chan string, 10)
	handler := newServer(t, contention()).Handler()
	site := siteIn(t, window, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := r.URL.Query().Get("q")
		if r.URL.Path == "/api/v1/search" {
			asked <- text
			if text == "prune" { // is not answered
				<-r.Context().Done()
				ended <- text
				return
			}
		}
		handler.ServeHTTP(w, r)
	}))
	visit(t, window, screens()[2], site+"/jobs?refresh=off")
	evaluate[any](t, window, `document.getElementById("search").focus()`)
	inserted(t, window, "prune")
	if text := received(window, asked); text != "prune" {
		t.Fatalf("the script asks for %q, want the text of the field", text)
	}
	inserted(t, window, "-logs")
	if text := received(window, ended); text != "prune" {
		t.Errorf("the request for %q has ended", text)
	}
	until(t, window, `document.querySelectorAll("#suggestions [role=option]").length === 1 &&
	document.querySelector("#suggestions bdi").textContent === "prune-logs"`)
}

// TestSuggestionsKeepTheChoiceInABrowser checks that a choice stays when the suggestions of a
// longer text have it too.
func TestSuggestionsKeepTheChoiceInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := siteIn(t, window, newServer(t, contention()).Handler())
	visit(t, window, screens()[2], site+"/jobs?refresh=off")
	suggests(t, window, "rollup", 3)
	press(t, window, kb.ArrowDown)
	press(t, window, kb.ArrowDown)
	until(t, window, chosenSuggestion+` === "rollup-sales"`)
	inserted(t, window, "-sales")
	until(t, window, `document.querySelectorAll("#suggestions [role=option]").length === 1`)
	until(t, window, chosenSuggestion+` === "rollup-sales"`)
	inserted(t, window, "x")
	until(t, window, `document.getElementById("suggestions").hidden`)
	if got := evaluate[string](t, window, chosenSuggestion); got != "" {
		t.Errorf("without suggestions %q is chosen", got)
	}
}

// received returns the next text, or "" if none comes before the window is closed.
func received(window context.Context, texts <-chan string) string {
	select {
	case text := <-texts:
		return text
	case <-window.Done():
		return ""
	}
}

// inserted adds the text to the focused field at once, as a paste does.
func inserted(t *testing.T, window context.Context, text string) {
	t.Helper()
	if _, err := chromedp.Call(window, input.InsertText,
		input.InsertTextParams{Text: text}); err != nil {
		t.Fatal(err)
	}
}
