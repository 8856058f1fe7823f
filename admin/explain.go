package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// explainJSON explains a job's firing at a time, by default now.
func (s jobPages) explainJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) (explain.Explanation, error) {
		if err := param.Only(r, "at"); err != nil {
			return explain.Explanation{}, err
		}
		return s.reader.explanation(ctx, r.PathValue("name"), r.URL.Query().Get("at"))
	})
}

// explainView is the page that explains a firing.
type explainView struct {
	explain.Explanation
	Asked string // as typed; "" is now
	// Root is the run that caused the wait or the skip of the last run, or nil.
	Root *locks.RootRun
}

// Mood returns the style of the summary.
func (v *explainView) Mood() string {
	switch v.Verdict {
	case explain.VerdictRan, explain.VerdictRunning, explain.VerdictFuture,
		explain.VerdictNotScheduled:
		return ""
	}
	return "warn"
}

// Said returns the summary in the words of the page, without a beginning that repeats the verdict.
func (v *explainView) Said() string {
	said := v.shown(v.Summary)
	if rest, repeats := strings.CutPrefix(said, fmt.Sprintf("It was %s (", v.Verdict)); repeats {
		if _, why, found := strings.Cut(rest, "): "); found {
			return why
		}
	}
	return said
}

// Explained returns the time that the form shows, or the zero time if the page explains now.
func (v *explainView) Explained() time.Time {
	if v.Asked == "" {
		return time.Time{}
	}
	return v.At
}

// shown returns a text of the explanation in the words of the page. The explanation has times in
// the zone of the job, and the page shows those of its viewer.
func (v *explainView) shown(text string) string {
	return words.ZonedToUTC(words.Readable(text), zoneOf(v.Timezone))
}

// ShownNotes returns the notes in the words of the page.
func (v *explainView) ShownNotes() []string {
	shown := make([]string, len(v.Notes))
	for i, note := range v.Notes {
		shown[i] = words.Sentence(words.Title(v.shown(note)))
	}
	return shown
}

// ShownAfter returns the dependencies in the words of the page.
func (v *explainView) ShownAfter() []explain.Dependency {
	shown := slices.Clone(v.After)
	for i := range shown {
		shown[i].Summary = v.shown(shown[i].Summary)
	}
	return shown
}

// explainPage explains a job's firing at a time.
func (s jobPages) explainPage(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, "at", "zone", "refresh")
	var at, instant string
	if err == nil {
		at, err = p.Text("at")
	}
	if err == nil {
		instant, err = timeIn(p, at)
	}
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	name := r.PathValue("name")
	query := url.Values{}
	if instant != "" {
		query.Set("at", instant)
	}
	pages.Show(s.Site, w, r, pages.Page[explainView]{
		Template: "explain.html", Section: "/jobs", Title: "Why " + words.Cut(name, 60),
		JSONPath: param.Address("/api/v1"+param.JobPath(name)+"/explain", query),
		Load: func(ctx context.Context, snap cluster.Snapshot) (explainView, error) {
			e, err := s.reader.explanation(ctx, name, instant)
			v := explainView{Explanation: e, Asked: at}
			if n := len(e.Runs); err == nil && n > 0 {
				v.Root, err = locks.FindRootRun(ctx, s.reader.lock, snap.Now, e.Runs[n-1])
			}
			return v, err
		},
	})
}

// timeIn interprets input in the zone of the parameter zone, in which the page shows its times.
// Without the parameter, or if the input is no time of the zone, it returns the input unchanged,
// and the job's zone applies.
func timeIn(p param.Set, at string) (string, error) {
	name, err := p.Text("zone")
	if err != nil || name == "" || at == "" {
		return at, err
	}
	zone, err := time.LoadLocation(name)
	if err != nil || zone == time.Local {
		return "", fmt.Errorf("zone is %q, expected a zone by its IANA name, such as Europe/Berlin",
			words.Cut(name, 100))
	}
	parsed, err := schedule.ParseTime(at, zone, time.Now())
	if err != nil {
		return at, nil //nolint:nilerr // the explanation says what is expected
	}
	return parsed.Times[0].Format(time.RFC3339), nil
}

// explanation explains a job's firing at a time as typed. "" is now. Its runs have no params.
// An error about an unknown job suggests other names only to senders who may see them.
func (r *reader) explanation(ctx context.Context, job, at string) (explain.Explanation, error) {
	if !storable(job) {
		return explain.Explanation{}, &explain.UnknownJobError{Job: job}
	}
	if at == "" {
		now, err := r.Now(ctx)
		if err != nil {
			return explain.Explanation{}, err
		}
		at = now.Truncate(time.Second).Format(time.RFC3339)
	}
	e, err := r.explain(ctx, job, at)
	switch {
	case errors.Is(err, schedule.ErrTime):
		return e, param.Errorf("at is %q, %s", words.Cut(at, 100), schedule.ErrTime)
	case errors.Is(err, storage.ErrNotFound) && !maySuggest(ctx):
		return e, &explain.UnknownJobError{Job: job}
	case errors.Is(err, storage.ErrNotFound):
		return e, err
	case err != nil:
		return e, fmt.Errorf("explanation: %w", err)
	}
	e.Runs, e.ManualRuns = records.PlainAll(e.Runs), records.PlainAll(e.ManualRuns)
	return e, nil
}
