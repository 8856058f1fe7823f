package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// maxCountedFirings bounds the scheduled times of a pause that are counted.
const maxCountedFirings = 100

// pauseView describes the effect of a pause or of its end.
type pauseView struct {
	Target         storage.Target
	Own            *storage.Pause   // the active pause of the target
	Others         []storage.Pause  // other pauses that cover a job
	ScheduledTimes []time.Time      // the next ones, of a job
	Passed         int              // scheduled times of a job since its own pause began
	Active         []storage.Record // waiting or running runs of a job
	Jobs           []string         // the first jobs of a group
	More           int              // further jobs of the group
}

// MorePassed reports whether more scheduled times passed than were counted.
func (v *pauseView) MorePassed() bool { return v.Passed == maxCountedFirings }

func jobTarget(r *http.Request) storage.Target {
	return storage.Target{Kind: storage.TargetJob, Name: r.PathValue("name")}
}

func groupTarget(r *http.Request) storage.Target {
	return storage.Target{Kind: storage.TargetGroup, Name: r.PathValue("name")}
}

func (s pausePages) pauseJobPage(w http.ResponseWriter, r *http.Request) {
	s.pausePage(w, r, jobTarget(r))
}
func (s pausePages) resumeJobPage(w http.ResponseWriter, r *http.Request) {
	s.resumePage(w, r, jobTarget(r))
}
func (s pausePages) pauseGroupPage(w http.ResponseWriter, r *http.Request) {
	s.pausePage(w, r, groupTarget(r))
}

func (s pausePages) resumeGroupPage(w http.ResponseWriter, r *http.Request) {
	s.resumePage(w, r, groupTarget(r))
}

func (s pausePages) pauseAllPage(w http.ResponseWriter, r *http.Request) {
	s.pausePage(w, r, storage.Target{Kind: storage.TargetAll})
}

func (s pausePages) resumeAllPage(w http.ResponseWriter, r *http.Request) {
	s.resumePage(w, r, storage.Target{Kind: storage.TargetAll})
}

// pausePage pauses a job, a group or all jobs.
func (s pausePages) pausePage(w http.ResponseWriter, r *http.Request, target storage.Target) {
	answerAction(s.base, w, r, actionPage[pauseView]{
		template: "pause.html", section: sectionOf(target),
		title: "Pause " + targetName(target),
		load: func(ctx context.Context, p cluster.Snapshot) (pauseView, error) {
			return s.reader.pauseView(ctx, p.Now, target)
		},
		form: func(f *form, known *pauseView) {
			f.Button, f.Bad, f.Back = "Pause "+targetWords(target), true, targetPath(target)
			f.Moot = known != nil && known.Own != nil
		},
		do: func(ctx context.Context, a storage.Action, _ url.Values) (outcome, error) {
			p, err := s.options.Operations.Pause(ctx, a, target)
			return outcome{targetPath(target),
				fmt.Sprintf("%s paused since %s by %s.", targetIs(target), words.UTC(p.At),
					words.Cut(p.By, 100))}, err
		},
	})
}

// resumePage ends a pause.
func (s pausePages) resumePage(w http.ResponseWriter, r *http.Request, target storage.Target) {
	answerAction(s.base, w, r, actionPage[pauseView]{
		template: "resume.html", section: sectionOf(target),
		title: "Resume " + targetName(target),
		load: func(ctx context.Context, p cluster.Snapshot) (pauseView, error) {
			return s.reader.pauseView(ctx, p.Now, target)
		},
		form: func(f *form, known *pauseView) {
			f.Button, f.Back = "Resume "+targetWords(target), targetPath(target)
			f.Moot = known != nil && known.Own == nil
		},
		do: func(ctx context.Context, a storage.Action, _ url.Values) (outcome, error) {
			p, err := s.options.Operations.Resume(ctx, a, target)
			done := targetIs(target) + " resumed."
			if err == nil && p.ResumedAt != nil {
				done = fmt.Sprintf("%s resumed, after %s.", targetIs(target),
					words.Span(p.ResumedAt.Sub(p.At)))
			}
			return outcome{targetPath(target), done}, err
		},
	})
}

func (r *reader) pauseView(ctx context.Context, now time.Time,
	target storage.Target) (v pauseView, err error) {
	v.Target = target
	if !storable(target.Name) {
		return v, fmt.Errorf("%s: %w", words.Cut(target.String(), 200), storage.ErrNotFound)
	}
	active, err := r.ActivePauses(ctx)
	if err != nil {
		return v, err
	}
	ofTarget := func(p storage.Pause) bool { return p.Target == target }
	if at := slices.IndexFunc(active, ofTarget); at >= 0 {
		v.Own = &active[at]
	}
	switch target.Kind {
	case storage.TargetJob:
		err = r.jobPause(ctx, now, &v)
	case storage.TargetGroup:
		err = r.groupPause(ctx, &v)
	}
	return v, err
}

func (r *reader) jobPause(ctx context.Context, now time.Time, v *pauseView) error {
	name := v.Target.Name
	view, err := r.Store.Job(ctx, name)
	if err != nil {
		return fmt.Errorf("job %q: %w", words.Cut(name, 200), err)
	}
	v.Others = slices.DeleteFunc(view.Pauses, func(p storage.Pause) bool {
		return p.Target == v.Target
	})
	v.ScheduledTimes = r.scheduledTimesOf(name, now, 3)
	if v.Own != nil {
		for _, scheduledAt := range r.scheduledTimesOf(name, v.Own.At, maxCountedFirings) {
			if !scheduledAt.After(now) {
				v.Passed++
			}
		}
	}
	v.Active, err = r.Active(ctx, name)
	return err
}

func (r *reader) groupPause(ctx context.Context, v *pauseView) error {
	const named = 5
	list, err := r.Store.ListJobs(ctx, storage.JobFilter{Group: v.Target.Name, Limit: named})
	if err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	groups, err := r.Store.Groups(ctx)
	if err != nil {
		return fmt.Errorf("groups: %w", err)
	}
	for _, job := range list {
		v.Jobs = append(v.Jobs, job.Name)
	}
	for _, g := range groups {
		if g.Name == v.Target.Name {
			v.More = max(0, g.Jobs-len(list))
		}
	}
	return nil
}

// targetPath returns the page that shows a pause.
func targetPath(t storage.Target) string {
	switch t.Kind {
	case storage.TargetJob:
		return param.JobPath(t.Name)
	case storage.TargetGroup:
		return "/jobs?group=" + url.QueryEscape(t.Name)
	}
	return "/"
}

func sectionOf(t storage.Target) string {
	if t.Kind == storage.TargetAll {
		return "/"
	}
	return "/jobs"
}

// targetWords is what a button pauses or resumes.
func targetWords(t storage.Target) string {
	if t.Kind == storage.TargetAll {
		return "all jobs"
	}
	return string(t.Kind)
}

// targetName names what is paused or resumed: "job rollup", "all jobs".
func targetName(t storage.Target) string {
	if t.Kind == storage.TargetAll {
		return "all jobs"
	}
	return words.Cut(t.String(), 100)
}

// targetIs begins a sentence about a pause: "Job rollup is", "All jobs are".
func targetIs(t storage.Target) string {
	if t.Kind == storage.TargetAll {
		return "All jobs are"
	}
	return words.Title(targetName(t)) + " is"
}
