package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"

	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/internal/ansi"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The most lines of a log that the page shows: the last ones, or with log=all nearly all.
const (
	shownLines = 200
	allLines   = 5000
)

// shownMatches is the number of lines with the searched text that the page links to.
const shownMatches = 20

// runLog is the log of an attempt.
type runLog struct {
	Lines   []logLine
	Total   int // lines
	Bytes   int
	Hidden  int    // lines before the first that is shown
	More    bool   // log=all shows more lines
	Find    string // searched text, or ""
	Matches []int  // numbers of the shown lines with the text
}

// logLine is one line of a log.
type logLine struct {
	N     int  // its number, from 1
	Found bool // it has the searched text
	Spans []logSpan
}

// logSpan is text of one style.
type logSpan struct {
	Class string
	Text  string
	Found bool // it is the searched text, or a part of it
}

// newRunLog returns the log of an attempt. A search covers all lines that the page can show.
func newRunLog(output string, chosen chosenAttempt) runLog {
	lines := ansi.Parse(output)
	l := runLog{Total: len(lines), Bytes: len(output), Find: chosen.find}
	most := shownLines
	all := chosen.all || chosen.find != ""
	if all {
		most = allLines
	}
	l.Hidden = max(0, len(lines)-most)
	l.More = l.Hidden > 0 && !all
	var search *regexp.Regexp
	if chosen.find != "" {
		search = regexp.MustCompile("(?i)" + regexp.QuoteMeta(chosen.find))
	}
	for _, line := range lines[l.Hidden:] {
		shown := newLogLine(line, search)
		if shown.Found {
			l.Matches = append(l.Matches, shown.N)
		}
		l.Lines = append(l.Lines, shown)
	}
	return l
}

// newLogLine splits the spans of a line where the searched text begins and ends. It may extend
// over several spans. A nil search finds nothing.
func newLogLine(line ansi.Line, search *regexp.Regexp) logLine {
	shown := logLine{N: line.N}
	var found [][]int
	if search != nil {
		found = search.FindAllStringIndex(line.Text(), -1)
	}
	shown.Found = len(found) > 0
	at := 0 // of the span, in the text of the line
	for _, span := range line.Spans {
		for rest := span.Text; rest != ""; {
			for len(found) > 0 && found[0][1] <= at {
				found = found[1:]
			}
			length, inside := len(rest), false
			switch {
			case len(found) == 0:
			case found[0][0] > at:
				length = min(length, found[0][0]-at)
			default:
				length, inside = min(length, found[0][1]-at), true
			}
			shown.Spans = append(shown.Spans, logSpan{span.Class, rest[:length], inside})
			rest, at = rest[length:], at+length
		}
	}
	return shown
}

// Size returns the size of the log in words.
func (l runLog) Size() string {
	if l.Bytes < 1024 {
		return words.Figure(l.Bytes, "byte", "bytes")
	}
	return fmt.Sprintf("%d KiB", (l.Bytes+512)/1024)
}

// MatchesShown returns the first lines with the searched text.
func (l runLog) MatchesShown() []int { return l.Matches[:min(len(l.Matches), shownMatches)] }

// MatchesMore returns the number of further lines with the text.
func (l runLog) MatchesMore() int { return len(l.Matches) - len(l.MatchesShown()) }

// logText answers with the output of an attempt as the job has written it. With download=yes
// browsers save it.
func (s runPages) logText(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, "attempt", "download")
	var chosen chosenAttempt
	var download string
	if err == nil {
		chosen, err = chooseAttempt(p)
	}
	if err == nil {
		download, err = param.OneOf(p, "download", []string{"yes"})
	}
	var a storage.RunAttempt
	if err == nil {
		a, err = s.attemptOf(r, chosen)
	}
	var bad *param.Error
	switch {
	case errors.As(err, &bad):
		s.Refuse(w, r, http.StatusBadRequest, bad.Text)
		return
	case errors.Is(err, storage.ErrNotFound):
		s.Refuse(w, r, http.StatusNotFound, err.Error())
		return
	case err != nil:
		s.StoreFailed(r.Context(), err)
		s.Refuse(w, r, http.StatusServiceUnavailable, pages.StoreError(err))
		return
	}
	s.StoreAnswered()
	if download != "" {
		w.Header().Set("Content-Disposition", fmt.Sprintf(
			`attachment; filename="run-%s-attempt-%d.log"`, r.PathValue("id"), a.Attempt))
	}
	pages.WriteBody(w, http.StatusOK, "text/plain; charset=utf-8", []byte(a.Output))
}

// attemptOf queries the chosen attempt of the run of the request, with its output.
func (s runPages) attemptOf(r *http.Request,
	chosen chosenAttempt) (a storage.RunAttempt, err error) {
	id, err := runID(r)
	if err != nil {
		return a, err
	}
	err = s.Queries.Run(r.Context(), func(ctx context.Context) error {
		run, err := s.reader.Run(ctx, id)
		if err != nil {
			return err
		}
		s.watch(ctx, run)
		attempts, err := s.reader.Attempts(ctx, run)
		if err != nil {
			return err
		}
		n := chosen.of(attempts)
		if n == 0 {
			return nil // it has not started, so it has no output
		}
		a, err = s.reader.Attempt(ctx, run, n)
		return err
	})
	return a, err
}
