package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestSearchMarksTheText(t *testing.T) {
	const output = "start\n\x1b[31mERROR\x1b[0m: disk full\nno error here\nend\n"
	log := newRunLog(output, chosenAttempt{find: "error: d"})
	if len(log.Lines) != 4 || log.Matches != 1 || log.Match != 1 || !log.Lines[1].Here {
		t.Fatalf("%d lines, match %d of %d, line 2 %+v; want 4, 1 of 1 in line 2", len(log.Lines),
			log.Match, log.Matches, log.Lines[1])
	}
	want := []logSpan{{"a-31", "ERROR", 1, true, true}, {"", ": d", 1, false, true},
		{"", "isk full", 0, false, false}}
	if got := log.Lines[1].Spans; !slices.Equal(got, want) {
		t.Errorf("spans %+v, want %+v", got, want)
	}
	log = newRunLog(output, chosenAttempt{find: "e", match: 3})
	want = []logSpan{{"", "no ", 0, false, false}, {"", "e", 2, true, false},
		{"", "rror h", 0, false, false}, {"", "e", 3, true, true}, {"", "r", 0, false, false},
		{"", "e", 4, true, false}}
	if got := log.Lines[2].Spans; log.Matches != 5 || !slices.Equal(got, want) {
		t.Errorf("%d matches, line 3 %+v; want 5, %+v", log.Matches, got, want)
	}
	if log.Lines[1].Here || !log.Lines[2].Here || log.Lines[3].Here {
		t.Errorf("lines %+v, want the current match in line 3 alone", log.Lines)
	}
	if log = newRunLog(output, chosenAttempt{find: ".*"}); log.Matches != 0 || log.Match != 0 {
		t.Errorf("a pattern has match %d of %d, want none", log.Match, log.Matches)
	}
}

// TestSearchShowsHiddenLines checks that a search covers the lines that the page hides otherwise.
func TestSearchShowsHiddenLines(t *testing.T) {
	output := strings.Repeat("line\n", 1000) + "last\n"
	if log := newRunLog("first\n"+output, chosenAttempt{find: "FIRST"}); log.Hidden != 0 ||
		log.Matches != 1 || log.More || !log.Lines[0].Here {
		t.Errorf("%d hidden, %d found; want none hidden, found in line 1", log.Hidden, log.Matches)
	}
}

// TestLogHidesItsMiddle checks which lines of a long log are shown. A few lines are not hidden.
func TestLogHidesItsMiddle(t *testing.T) {
	for total, want := range map[int]string{
		200: "0 200 0 false", 207: "0 207 0 false", 208: "7 200 1 true", 5207: "7 200 5000 true",
	} {
		log := newRunLog(strings.Repeat("line\n", total), chosenAttempt{})
		got := fmt.Sprint(len(log.First), len(log.Lines), log.Hidden, log.More)
		if log.Lines[len(log.Lines)-1].N != total || got != want ||
			log.Hidden > 0 && log.HiddenTo()+1 != log.Lines[0].N {
			t.Errorf("%d lines: got %s, hidden to %d, and %d at the end; want %s", total, got,
				log.HiddenTo(), log.Lines[len(log.Lines)-1].N, want)
		}
	}
	log := newRunLog(strings.Repeat("line\n", 6000), chosenAttempt{all: true})
	if log.Hidden != 1000 || log.More || len(log.First) != 0 || log.Lines[0].N != 1001 {
		t.Errorf("all lines: %d hidden, %d before them, %d is next; want 1000, 0, 1001", log.Hidden,
			len(log.First), log.Lines[0].N)
	}
}

// TestMatchesFollowEachOther checks that the first match follows the last one, and that a match
// after the last one is the last.
func TestMatchesFollowEachOther(t *testing.T) {
	for match, want := range map[int]string{0: "3 1 2", 1: "3 1 2", 2: "1 2 3", 3: "2 3 1",
		9: "2 3 1"} {
		log := newRunLog("a\na\na\n", chosenAttempt{find: "a", match: match})
		if got := fmt.Sprint(log.Previous(), log.Match, log.Next()); got != want {
			t.Errorf("around match %d: got %s, want %s", match, got, want)
		}
	}
	log := newRunLog("a\n", chosenAttempt{find: "a"})
	if got := fmt.Sprint(log.Previous(), log.Match, log.Next()); got != "1 1 1" {
		t.Errorf("around the only match: got %s, want it alone", got)
	}
}

// TestMatchesAreLinks checks that a search works without a script: by links to anchors.
func TestMatchesAreLinks(t *testing.T) {
	handler := newServer(t, story()).Handler()
	path := "/runs/" + id(302).String()
	page := get(t, handler, path+"?attempt=3&find=page+1&match=2").Body.String()
	for _, want := range []string{
		`<b data-match-number="2">2</b> of 11 matches`,
		`href="` + path + `?attempt=3&amp;find=page&#43;1&amp;match=1#M1"`,
		`href="` + path + `?attempt=3&amp;find=page&#43;1&amp;match=3#M3"`,
		`<li id="L10" class="here">`, `<mark id="M2" data-match="2" class=" this">page 1</mark>`,
		`<mark id="M11" data-match="11">page 1</mark>`, `action="` + path + `#M1"`,
		`href="` + path + `?attempt=3#attempts">Clear`,
	} {
		if !strings.Contains(flat(page), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if n := strings.Count(page, ` this"`); n != 1 {
		t.Errorf("%d marks are the current match, want 1", n)
	}
	page = get(t, handler, path+"?attempt=3&find=nowhere").Body.String()
	if !strings.Contains(page, "No line contains the text.") || strings.Contains(page, "<mark") ||
		strings.Contains(page, "Next<") {
		t.Error("the page of a search without a match does not say so, or has one")
	}
	for _, match := range []string{"0", "x", "-1"} {
		if got := get(t, handler, path+"?find=a&match="+match).Code; got != http.StatusBadRequest {
			t.Errorf("match=%s: got %d, want 400", match, got)
		}
	}
}

func TestPlainLog(t *testing.T) {
	handler := newServer(t, story()).Handler()
	path := "/runs/" + id(302).String() + "/log?attempt=1"
	reply := get(t, handler, path)
	if reply.Code != http.StatusOK ||
		reply.Header().Get("Content-Type") != "text/plain; charset=utf-8" ||
		!strings.Contains(reply.Body.String(), "\x1b[32mINF") ||
		reply.Header().Get("Content-Disposition") != "" {
		t.Errorf("got %d, headers %v, %q; want the output as it was written", reply.Code,
			reply.Header(), reply.Body)
	}
	reply = get(t, handler, path+"&download=yes")
	want := fmt.Sprintf(`attachment; filename="run-%s-attempt-1.log"`, id(302))
	if got := reply.Header().Get("Content-Disposition"); got != want {
		t.Errorf("Content-Disposition is %q, want %q", got, want)
	}
	for path, want := range map[string]int{
		"/runs/" + id(302).String() + "/log":              http.StatusOK, // of the last attempt
		"/runs/" + id(302).String() + "/log?attempt=9":    http.StatusNotFound,
		"/runs/" + id(302).String() + "/log?attempt=x":    http.StatusBadRequest,
		"/runs/" + id(302).String() + "/log?download=no":  http.StatusBadRequest,
		"/runs/" + id(303).String() + "/log?find=x":       http.StatusBadRequest,
		"/runs/" + id(9999).String() + "/log":             http.StatusNotFound,
		"/runs/" + url.PathEscape("../../locks") + "/log": http.StatusBadRequest,
	} {
		if got := get(t, handler, path).Code; got != want {
			t.Errorf("%s: got %d, want %d", path, got, want)
		}
	}
	if got := get(t, newServer(t, down()).Handler(), path).Code; got !=
		http.StatusServiceUnavailable {
		t.Errorf("without the store: got %d, want 503", got)
	}
}

// TestLogFollowsItsEndInABrowser checks in a browser that a log with new lines shows its end,
// unless the viewer has scrolled up.
func TestLogFollowsItsEndInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := newReplicaSite(t, window)
	write := func(lines int) {
		site.mu.Lock()
		for i := range site.history.runs {
			if site.history.runs[i].ID == id(1) {
				var b strings.Builder
				for n := range lines {
					fmt.Fprintf(&b, "line %d\n", n+1)
				}
				site.history.runs[i].Output = b.String()
			}
		}
		site.mu.Unlock()
	}
	update := func(lines int) {
		write(lines)
		site.changes.move(storage.TopicRuns)
		site.changes.action()
		until(t, window, fmt.Sprintf(`document.getElementById("L%d") != null`, lines))
	}
	const atEnd = `(() => {
		const log = document.querySelector(".log.output");
		return log.scrollHeight - log.scrollTop - log.clientHeight < 8;
	})()`
	write(100)
	browsertest.Visit(t, window, site.URL+"/runs/"+id(1).String())
	update(120)
	if !evaluate[bool](t, window, atEnd+` && document.querySelector("#follow").checked`) {
		t.Error("the log does not show its end")
	}
	evaluate[bool](t, window, `document.getElementById("L50").scrollIntoView(), true`)
	until(t, window, `!document.querySelector("#follow").checked`)
	const place = `Math.round(document.getElementById("L50").getBoundingClientRect().top - document.querySelector(".log.output").getBoundingClientRect().top)`
	before := evaluate[int](t, window, place)
	update(140)
	if after := evaluate[int](t, window, place); after != before {
		t.Errorf("line 50 is %d px below the edge after an update, want %d", after, before)
	}
	if err := chromedp.Do(window, chromedp.Click("#follow")); err != nil {
		t.Fatal(err)
	}
	until(t, window, atEnd)
	if err := chromedp.Do(window, chromedp.Click("#wrap")); err != nil {
		t.Fatal(err)
	}
	update(160)
	if !evaluate[bool](t, window, atEnd+` && document.querySelector("#wrap").checked &&
		getComputedStyle(document.querySelector("#L9 .tx")).whiteSpace == "pre-wrap"`) {
		t.Error("after an update the log does not show its end with wrapped lines")
	}
}

// TestStepsThroughMatchesInABrowser checks in a browser that keys and links move through the
// matches of a search, that each match comes into view, and that it stays while a running run
// writes more.
func TestStepsThroughMatchesInABrowser(t *testing.T) {
	t.Parallel()
	window := tab(t)
	site := newReplicaSite(t, window)
	write := func(lines int) {
		site.mu.Lock()
		defer site.mu.Unlock()
		for i := range site.history.runs {
			if site.history.runs[i].ID != id(1) {
				continue
			}
			var b strings.Builder
			for n := 1; n <= lines; n++ {
				fmt.Fprintf(&b, "line %d%s\n", n, map[bool]string{true: ": late"}[n%50 == 0])
			}
			site.history.runs[i].Output = b.String()
		}
	}
	write(200)
	browsertest.Visit(t, window, site.URL+"/runs/"+id(1).String())
	until(t, window, `document.querySelector("#follow").checked`)
	if err := chromedp.Do(window, chromedp.SendKeys("#find", "late\r")); err != nil {
		t.Fatal(err)
	}
	shows := func(match, line int, of string) {
		t.Helper()
		until(t, window, fmt.Sprintf(`(() => {
			const log = document.querySelector(".log.output")?.getBoundingClientRect();
			const marks = document.querySelectorAll(".log mark.this");
			const lines = document.querySelectorAll(".log li.here");
			if (marks.length !== 1 || lines.length !== 1 || marks[0].closest("li") !== lines[0])
				return false;
			const said = document.querySelector(".log-tools [role=status]").textContent.trim();
			const at = marks[0].getBoundingClientRect();
			return marks[0].id === "M%d" && lines[0].id === "L%d" && said === "%d of %s" &&
				at.top >= Math.max(0, log.top) && at.bottom <= Math.min(innerHeight, log.bottom) &&
				document.elementFromPoint(at.left + 2, at.top + at.height / 2) === marks[0];
		})()`, match, line, match, of))
	}
	shows(1, 50, "4 matches")
	if evaluate[bool](t, window, `document.querySelector("#follow").checked`) {
		t.Error("the log follows its end and would leave the match")
	}
	press(t, window, "n")
	shows(2, 100, "4 matches")
	for range 3 {
		press(t, window, "p")
	}
	shows(3, 150, "4 matches")
	for _, step := range []string{"1", "1"} {
		if err := chromedp.Do(window, chromedp.Click(`[data-match-step="`+step+`"]`)); err != nil {
			t.Fatal(err)
		}
	}
	shows(1, 50, "4 matches")
	press(t, window, "n")
	if err := chromedp.Do(window, chromedp.Focus("#find")); err != nil {
		t.Fatal(err)
	}
	press(t, window, "\r")
	shows(3, 150, "4 matches")
	if err := chromedp.Do(window, chromedp.KeyEvent("\r",
		chromedp.KeyModifiers(chromedp.ModifierShift))); err != nil {
		t.Fatal(err)
	}
	shows(2, 100, "4 matches")
	if got := evaluate[string](t, window, `location.search + location.hash`); got !=
		"?find=late&attempt=1&match=2#M2" {
		t.Errorf("the address is %s, want that of match 2", got)
	}
	const place = `Math.round(document.querySelector(".log mark.this").getBoundingClientRect().top)`
	before := evaluate[int](t, window, place)
	write(250)
	site.changes.move(storage.TopicRuns)
	site.changes.action()
	shows(2, 100, "5 matches")
	if after := evaluate[int](t, window, place); after != before {
		t.Errorf("an update moves the match from %d to %d px", before, after)
	}
	press(t, window, "p")
	press(t, window, "p") // in the field, where letters are text
	typed := evaluate[string](t, window, `document.querySelector("#find").value`)
	if len(typed) != len("latepp") || strings.Trim(typed, "p") != "late" {
		t.Errorf("the field has %q, want the typed letters", typed)
	}
	shows(2, 100, "5 matches")
	if err := chromedp.Do(window, chromedp.Reload()); err != nil {
		t.Fatal(err)
	}
	shows(2, 100, "5 matches")
}
