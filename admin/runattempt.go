package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// shownAttempts is the most attempts with a tab: the last ones.
const shownAttempts = 6

// chosenAttempt is the attempt that a page shows.
type chosenAttempt struct {
	number int    // 0: the last one that has started
	all    bool   // its whole log
	find   string // text to mark in it; "": none
	match  int    // the current match of it; 0: the first
}

// chooseAttempt parses the parameters of the page of a run.
func chooseAttempt(p param.Set) (c chosenAttempt, err error) {
	if text := p.Get("attempt"); text != "" {
		if c.number, err = attemptNumber("attempt", text); err != nil {
			return c, err
		}
	}
	if text := p.Get("match"); text != "" {
		if c.match, err = strconv.Atoi(text); err != nil || c.match < 1 {
			return c, param.Errorf("match is %q, expected the number of a match, 1 or more",
				words.Cut(text, 100))
		}
	}
	switch text := p.Get("log"); text {
	case "", "end":
	case "all":
		c.all = true
	default:
		return c, param.Errorf("log is %q, expected end or all", words.Cut(text, 100))
	}
	c.find, err = p.Text("find")
	return c, err
}

func attemptNumber(name, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, param.Errorf("%s is %q, expected the number of an attempt, 1 or more", name,
			words.Cut(text, 100))
	}
	return n, nil
}

// of returns the number of the chosen attempt, of a run with these attempts.
func (c chosenAttempt) of(attempts []storage.RunAttempt) int {
	if c.number > 0 || len(attempts) == 0 {
		return c.number
	}
	last := attempts[len(attempts)-1]
	if last.StartedAt == nil && len(attempts) > 1 {
		last = attempts[len(attempts)-2]
	}
	return last.Attempt
}

// attemptJSON answers with one attempt and its output.
func (s runPages) attemptJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) (a storage.RunAttempt, err error) {
		if err := param.Only(r); err != nil {
			return a, err
		}
		id, err := runID(r)
		if err != nil {
			return a, err
		}
		n, err := attemptNumber("attempt", r.PathValue("attempt"))
		if err != nil {
			return a, err
		}
		run, err := s.reader.Run(ctx, id)
		if err != nil {
			return a, err
		}
		s.watch(ctx, run)
		a, err = s.reader.Attempt(ctx, run, n)
		return visibleAttempt(r.Context(), a), err
	})
}

// visibleAttempt returns the attempt without its output if the sender of the request may not view
// it.
func visibleAttempt(ctx context.Context, a storage.RunAttempt) storage.RunAttempt {
	if !pages.May(ctx, permission.ViewOutput) {
		a.Output = ""
	}
	return a
}

// attemptTabs are the attempts of a run as the page shows them.
type attemptTabs struct {
	Last    []storage.RunAttempt // at most shownAttempts
	Earlier []storage.RunAttempt
	Shown   storage.RunAttempt // the one whose log is shown, with output
	Final   bool               // no further attempt follows
	path    string
}

// All returns the number of attempts that are known.
func (t attemptTabs) All() int { return len(t.Last) + len(t.Earlier) }

// Open reports whether an earlier attempt is shown.
func (t attemptTabs) Open() bool {
	return len(t.Earlier) > 0 && t.Shown.Attempt <= t.Earlier[len(t.Earlier)-1].Attempt
}

// Path returns the address of an attempt's log.
func (t attemptTabs) Path(attempt int) string {
	return fmt.Sprintf("%s?attempt=%d#attempts", t.path, attempt)
}

// WholeLog returns the address of the whole log of the attempt that is shown.
func (t attemptTabs) WholeLog() string {
	q := url.Values{"attempt": {strconv.Itoa(t.Shown.Attempt)}, "log": {"all"}}
	return t.path + "?" + q.Encode() + "#attempts"
}

// LogPath returns the address of the log of the attempt that is shown, as plain text.
func (t attemptTabs) LogPath() string {
	return fmt.Sprintf("%s/log?attempt=%d", t.path, t.Shown.Attempt)
}

// MatchPath returns the address of a match of a searched text.
func (t attemptTabs) MatchPath(find string, match int) string {
	q := url.Values{"attempt": {strconv.Itoa(t.Shown.Attempt)}, "find": {find},
		"match": {strconv.Itoa(match)}}
	return fmt.Sprintf("%s?%s#M%d", t.path, q.Encode(), match)
}

// RunPath returns the address of the page.
func (t attemptTabs) RunPath() string { return t.path }

// HasStarted reports whether the attempt that is shown has started.
func (t attemptTabs) HasStarted() bool { return t.Shown.StartedAt != nil }

// IsRunning reports whether the attempt that is shown is running.
func (t attemptTabs) IsRunning() bool { return t.Shown.State == jobs.Running }

func newAttemptTabs(run storage.Record, attempts []storage.RunAttempt,
	shown storage.RunAttempt) attemptTabs {
	split := max(0, len(attempts)-shownAttempts)
	return attemptTabs{Last: attempts[split:], Earlier: attempts[:split], Shown: shown,
		Final: run.State.Final(), path: param.RunPath(run.ID)}
}
