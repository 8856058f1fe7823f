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

// The most lines of a log that the page shows: the first and the last ones, or with log=all nearly
// all.
const (
	firstLines = 7
	shownLines = 200
	allLines   = 5000
)

// runLog is the log of an attempt.
type runLog struct {
	First   []logLine // before the hidden lines
	Lines   []logLine
	Total   int // lines
	Bytes   int
	Hidden  int    // lines that are not shown
	More    bool   // log=all shows more lines
	Find    string // searched text, or ""
	Matches int    // how often the shown lines have the text
	Match   int    // the current one of them, from 1; 0 if there are none
}

// logLine is one line of a log.
type logLine struct {
	N     int  // its number, from 1
	Here  bool // it has the current match
	Spans []logSpan
}

// logSpan is text of one style.
type logSpan struct {
	Class string
	Text  string
	Match int  // number of the match of which it is a part, from 1; 0: of none
	First bool // it begins the match
	Here  bool // the match is the current one
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
	if !all && l.Hidden <= firstLines {
		l.Hidden = 0
	}
	l.More = l.Hidden > 0 && !all
	if l.More {
		for _, line := range lines[:firstLines] {
			first, _ := newLogLine(line, nil, 0)
			l.First = append(l.First, first)
		}
		lines, l.Hidden = lines[firstLines:], l.Hidden-firstLines
	}
	var search *regexp.Regexp
	if chosen.find != "" {
		search = regexp.MustCompile("(?i)" + regexp.QuoteMeta(chosen.find))
	}
	for _, line := range lines[l.Hidden:] {
		shown, found := newLogLine(line, search, l.Matches)
		l.Lines, l.Matches = append(l.Lines, shown), l.Matches+found
	}
	l.choose(min(max(chosen.match, 1), l.Matches))
	return l
}

// HiddenFrom returns the number of the first hidden line.
func (l runLog) HiddenFrom() int { return len(l.First) + 1 }

// HiddenTo returns the number of the last hidden line.
func (l runLog) HiddenTo() int { return len(l.First) + l.Hidden }

// choose makes a match the current one. It changes nothing if the match is 0.
func (l *runLog) choose(match int) {
	l.Match = match
	for i := range l.Lines {
		line := &l.Lines[i]
		for j := range line.Spans {
			if span := &line.Spans[j]; match > 0 && span.Match == match {
				span.Here, line.Here = true, true
			}
		}
	}
}

// Next returns the number of the match after the current one. The first follows the last.
func (l runLog) Next() int { return l.Match%l.Matches + 1 }

// Previous returns the number of the match before the current one.
func (l runLog) Previous() int { return (l.Match+l.Matches-2)%l.Matches + 1 }

// newLogLine splits the spans of a line where the searched text begins and ends, and returns how
// often the line has the text. The text may extend over several spans. before is the number of
// matches in the lines above. A nil search finds nothing.
func newLogLine(line ansi.Line, search *regexp.Regexp, before int) (shown logLine, matches int) {
	shown.N = line.N
	var found [][]int
	if search != nil {
		found = search.FindAllStringIndex(line.Text(), -1)
	}
	matches = len(found)
	at := 0 // of the span, in the text of the line
	for _, span := range line.Spans {
		for rest := span.Text; rest != ""; {
			for len(found) > 0 && found[0][1] <= at {
				found = found[1:]
			}
			part := logSpan{Class: span.Class}
			length := len(rest)
			switch {
			case len(found) == 0:
			case found[0][0] > at:
				length = min(length, found[0][0]-at)
			default:
				length = min(length, found[0][1]-at)
				part.Match, part.First = before+matches-len(found)+1, found[0][0] == at
			}
			part.Text = rest[:length]
			shown.Spans = append(shown.Spans, part)
			rest, at = rest[length:], at+length
		}
	}
	return shown, matches
}

// Size returns the size of the log in words.
func (l runLog) Size() string {
	if l.Bytes < 1024 {
		return words.Figure(l.Bytes, "byte", "bytes")
	}
	return words.Count((l.Bytes+512)/1024) + " KiB"
}

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
