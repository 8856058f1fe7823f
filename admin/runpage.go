package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
)

// shownOutput is how much of a run's output its page shows, the end of it; the
// JSON twin has all.
const shownOutput = 16 << 10 // bytes

// runView is the page of a run.
type runView struct {
	jobs.Record
	Steps []step
	Chain []jobs.Record // the runs of the same firing, this one too, if there are several
	Locks []Lock        // that it holds now
	Trace Trace
}

// step is one thing that befell a run.
type step struct {
	At    time.Time
	What  string
	After string // how long after the step before
	Why   string
	State string // for the stylesheet
}

func (s *Server) runPage(w http.ResponseWriter, r *http.Request) {
	if err := onlyParams(r, "refresh"); err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	id, err := runID(r)
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	show(s, w, r, page[runView]{
		template: "run.html", section: "/runs", title: "Run " + short(id.String()), live: true,
		question: func(ctx context.Context, p pulse) (runView, error) { return s.reader.runView(ctx, id) },
		complete: func(v *runView, f *Frame) *Overview {
			v.Trace = s.traceOf(v.Record)
			f.Title = cut(v.Job, 60) + " " + stateWords(v.State)
			if v.State.Final() { // nothing of it changes any more
				f.Every, f.Refresh = 0, 0
			}
			return nil
		},
	})
}

func (r *reader) runView(ctx context.Context, id uuid.UUID) (v runView, err error) {
	if v.Record, err = r.run(ctx, id); err != nil {
		return v, err
	}
	chain, err := r.store.FiringRuns(ctx, jobs.Firing{Job: v.Job, Due: v.Due, Key: v.Key})
	if err != nil {
		return v, fmt.Errorf("runs of the firing: %w", err)
	}
	if len(chain) > 1 {
		v.Chain = plainRecords(chain)
	}
	if v.State == jobs.Running {
		set, err := r.grants(ctx)
		if err != nil {
			return v, err
		}
		v.Locks = slices.DeleteFunc(set.locks, func(l Lock) bool { return l.Holder.Run != id.String() })
	}
	v.Steps = steps(v.Record)
	return v, nil
}

// steps tells a run's life in order, as far as the history has it.
func steps(r jobs.Record) []step {
	began := step{At: r.Due, What: "Due"}
	if r.Key != "" {
		began.What = "Triggered"
	}
	list := []step{began}
	add := func(at time.Time, what, why, state string) {
		last := list[len(list)-1]
		s := step{At: at, What: what, Why: why, State: state}
		if gap := at.Sub(last.At); gap > 0 {
			s.After = took(gap) + " later"
		}
		list = append(list, s)
	}
	written := "Written down"
	if r.Replica != "" {
		written = "Taken up by " + cut(r.Replica, 100)
	}
	if r.Recovery > 0 {
		written = fmt.Sprintf("Recovery %d of the firing", r.Recovery)
	}
	if r.StartedAt == nil && r.State.Final() {
		if at := ended(r); at.After(r.CreatedAt) {
			add(r.CreatedAt, written, "", "")
		}
		add(ended(r), title(stateWords(r.State)), why(r), string(r.State))
		return list
	}
	add(r.CreatedAt, written, "", "")
	if r.StartedAt != nil {
		what := "Started"
		if r.Attempt > 1 {
			what = fmt.Sprintf("Started, attempt %d", r.Attempt)
		}
		add(*r.StartedAt, what, "", "running")
	}
	switch {
	case r.State == jobs.Waiting:
		add(since(r), "Waits", why(r), "waiting")
	case r.FinishedAt != nil:
		add(*r.FinishedAt, title(stateWords(r.State)), why(r), string(r.State))
	}
	return list
}

// Tail returns the end of the output, from the beginning of a line.
func (v *runView) Tail() string {
	if len(v.Output) <= shownOutput {
		return v.Output
	}
	tail := v.Output[len(v.Output)-shownOutput:]
	if _, rest, found := strings.Cut(tail, "\n"); found {
		return rest
	}
	return strings.ToValidUTF8(tail, "")
}

// Cut reports whether there is more output than Tail returns.
func (v *runView) Cut() bool { return len(v.Output) > shownOutput }

// Lasted returns how long it has run.
func (v *runView) Lasted() string { return lasted(v.Record) }

// WaitedFor returns what blocked it, if anything did.
func (v *runView) WaitedFor() string {
	if v.BlockedBy == nil {
		return ""
	}
	return v.BlockedBy.Resource
}
