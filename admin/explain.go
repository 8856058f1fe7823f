package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// explainJSON says what became of a job at an instant, now unless at says
// otherwise.
func (s *Server) explainJSON(w http.ResponseWriter, r *http.Request) {
	answer(s, w, r, func(ctx context.Context) (jobs.Explanation, error) {
		if err := onlyParams(r, "at"); err != nil {
			return jobs.Explanation{}, err
		}
		return s.reader.explanation(ctx, r.PathValue("name"), r.URL.Query().Get("at"))
	})
}

// explainView is the page that explains an instant.
type explainView struct {
	jobs.Explanation
	Asked string // as it was typed; "" is now
}

// Mood is how the page shows the summary.
func (v *explainView) Mood() string {
	switch v.Verdict {
	case jobs.VerdictRan, jobs.VerdictRunning, jobs.VerdictFuture, jobs.VerdictNotScheduled:
		return ""
	}
	return "warn"
}

// explainPage shows what became of a job at an instant.
func (s *Server) explainPage(w http.ResponseWriter, r *http.Request) {
	p, err := readParams(r, "at", "zone", "refresh")
	var at, instant string
	if err == nil {
		at, err = p.text("at")
	}
	if err == nil {
		instant, err = instantIn(p, at)
	}
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	name := r.PathValue("name")
	show(s, w, r, page[explainView]{
		template: "explain.html", section: "/jobs", title: "Why " + cut(name, 60),
		load: func(ctx context.Context, _ snapshot) (explainView, error) {
			if !storable(name) {
				return explainView{}, fmt.Errorf("job %q: %w", cut(name, 200), jobs.ErrNotFound)
			}
			e, err := s.reader.explanation(ctx, name, instant)
			e.Runs, e.ManualRuns = plainRecords(e.Runs), plainRecords(e.ManualRuns)
			return explainView{e, at}, err
		},
	})
}

// instantIn reads what somebody typed by the clock that the page's times are of, which the
// parameter zone names. Without it, and where that is no instant of the zone, it stays as it is:
// then the job's zone counts.
func instantIn(p params, at string) (string, error) {
	name, err := p.text("zone")
	if err != nil || name == "" || at == "" {
		return at, err
	}
	zone, err := time.LoadLocation(name)
	if err != nil || zone == time.Local {
		return "", fmt.Errorf("zone is %q, expected a zone by its IANA name, such as Europe/Berlin",
			cut(name, 100))
	}
	parsed, err := schedule.ParseTime(at, zone)
	if err != nil {
		return at, nil //nolint:nilerr // the explanation says what is expected
	}
	return parsed.Times[0].Format(time.RFC3339), nil
}

// explanation explains a job at an instant, as people write it; "" is now.
func (r *reader) explanation(ctx context.Context, job, at string) (jobs.Explanation, error) {
	if at == "" {
		now, err := r.now(ctx)
		if err != nil {
			return jobs.Explanation{}, err
		}
		at = now.Truncate(time.Second).Format(time.RFC3339)
	}
	e, err := r.explain(ctx, job, at)
	switch {
	case errors.Is(err, schedule.ErrTime):
		return e, &badRequest{fmt.Sprintf("at is %q, %s", cut(at, 100), schedule.ErrTime)}
	case errors.Is(err, jobs.ErrNotFound):
		return e, err
	case err != nil:
		return e, fmt.Errorf("explanation: %w", err)
	}
	return e, nil
}
