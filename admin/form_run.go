package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// cancelView describes the effect of a cancellation.
type cancelView struct {
	storage.Record
	Locks   []Lock           // that the run holds
	Waiting []storage.Record // runs that wait for the run or behind it, oldest first
	// NextUsual is the usual duration of the oldest of them, or ""
	NextUsual  string
	Dependents []string // jobs that run for the scheduled time only if the run succeeds
}

// cancelPage cancels a run.
func (s runPages) cancelPage(w http.ResponseWriter, r *http.Request) {
	id, err := runID(r)
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	answerAction(s.base, w, r, actionPage[cancelView]{
		template: "cancel.html", section: "/runs", title: "Cancel a run",
		load: func(ctx context.Context, p cluster.Snapshot) (cancelView, error) {
			return s.reader.cancelView(ctx, p.Now, id)
		},
		form: func(f *form, known *cancelView) {
			f.Button, f.Bad, f.Back, f.Keep = "Cancel run", true, param.RunPath(id), "Keep run"
			f.Moot = known != nil && known.State.Final()
		},
		do: func(ctx context.Context, a storage.Action, _ url.Values) (outcome, error) {
			run, err := s.options.Operations.Cancel(ctx, a, id)
			if run.State == jobs.Running {
				return outcome{param.RunPath(id),
					fmt.Sprintf("The handler of %s was cancelled. It has 10 s to return.",
						words.Cut(run.Job, 100))}, err
			}
			before := "its start"
			if last, started := run.LastAttempt(); started {
				before = fmt.Sprintf("attempt %d", last.Attempt)
			}
			return outcome{param.RunPath(id), fmt.Sprintf("The run of %s was cancelled before %s.",
				words.Cut(run.Job, 100), before)}, err
		},
	})
}

func (r *reader) cancelView(ctx context.Context, now time.Time,
	id uuid.UUID) (v cancelView, err error) {
	if v.Record, err = r.Run(ctx, id); err != nil || v.State.Final() {
		return v, err
	}
	set, err := r.lock.Grants(ctx)
	if err != nil {
		return v, err
	}
	v.Locks = slices.DeleteFunc(set.Locks, func(l Lock) bool { return l.Holder.Run != id.String() })
	v.Waiting, err = r.WaitingFor(ctx, func(b jobs.Blocker) bool {
		return b.Holder.Run == id.String() || b.Root.Holder.Run == id.String()
	})
	if err != nil {
		return v, err
	}
	v.NextUsual, err = locks.UsualOfNext(ctx, r.lock, now, v.Waiting)
	if err != nil || v.Key != "" {
		return v, err
	}
	edges, err := r.dependencies.Get(ctx, now)
	v.Dependents = edges.Dependents(v.Job)
	return v, err
}
