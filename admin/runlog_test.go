package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-dev/holdfast/internal/test/browsertest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func TestSearchMarksTheText(t *testing.T) {
	const output = "start\n\x1b[31mERROR\x1b[0m: disk full\nno error here\nend\n"
	log := newRunLog(output, chosenAttempt{find: "error: d"})
	if len(log.Lines) != 4 || fmt.Sprint(log.Matches) != "[2]" {
		t.Fatalf("%d lines, found in %v; want 4, in line 2", len(log.Lines), log.Matches)
	}
	want := []logSpan{{"a-31", "ERROR", true}, {"", ": d", true}, {"", "isk full", false}}
	if got := fmt.Sprint(log.Lines[1].Spans); got != fmt.Sprint(want) || !log.Lines[1].Found {
		t.Errorf("spans %s, want %v", got, want)
	}
	if log = newRunLog(output, chosenAttempt{find: "e"}); fmt.Sprint(log.Matches) != "[2 3 4]" ||
		len(log.Lines[2].Spans) != 6 {
		t.Errorf("found in %v, line 3 %+v; want lines 2, 3, 4", log.Matches, log.Lines[2])
	}
	if log = newRunLog(output, chosenAttempt{find: ".*"}); log.Matches != nil {
		t.Errorf("a pattern is found in %v, want no line", log.Matches)
	}
}

// TestSearchShowsHiddenLines checks that a search covers the lines that the page hides otherwise.
func TestSearchShowsHiddenLines(t *testing.T) {
	output := strings.Repeat("line\n", 1000) + "last\n"
	if log := newRunLog("first\n"+output, chosenAttempt{find: "FIRST"}); log.Hidden != 0 ||
		len(log.Matches) != 1 || log.More {
		t.Errorf("%d hidden, found in %v; want none hidden, found in line 1", log.Hidden,
			log.Matches)
	}
	log := newRunLog(output, chosenAttempt{find: "line"})
	if len(log.MatchesShown()) != 20 || log.MatchesMore() != 980 {
		t.Errorf("%d links and %d more, want 20 and 980", len(log.MatchesShown()),
			log.MatchesMore())
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

// TestLogFollowsItsEnd checks in a browser that a log with new lines shows its end, unless the
// viewer has scrolled up.
func TestLogFollowsItsEnd(t *testing.T) {
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
