package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// cancelBackfillView describes the effect of the cancellation of a backfill.
type cancelBackfillView struct {
	storage.Backfill
	Running, Waiting []storage.Record // its runs, the newest first
}

// cancelPage cancels a backfill.
func (s backfillPages) cancelPage(w http.ResponseWriter, r *http.Request) {
	id, err := pathID(r, "id", "a backfill's id")
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	answerAction(s.base, w, r, actionPage[cancelBackfillView]{
		template: "cancelbackfill.html", section: "/runs", title: "Cancel a backfill",
		load: func(ctx context.Context, _ cluster.Snapshot) (cancelBackfillView, error) {
			return s.reader.cancelBackfillView(ctx, id)
		},
		form: func(f *form, known *cancelBackfillView) {
			f.Button, f.Bad, f.Back, f.Keep = "Cancel backfill", true, param.BackfillPath(id),
				"Keep backfill"
			f.Moot = known != nil && known.State != storage.BackfillActive
		},
		do: func(ctx context.Context, a storage.Action, _ url.Values) (outcome, error) {
			b, err := s.options.Operations.CancelBackfill(ctx, a, id)
			return outcome{param.BackfillPath(id),
				fmt.Sprintf("The backfill of %s was cancelled. It adds no more runs.",
					words.Cut(b.Job, 100))}, err
		},
	})
}

func (r *reader) cancelBackfillView(ctx context.Context,
	id uuid.UUID) (v cancelBackfillView, err error) {
	if v.Backfill, err = r.Store.Backfill(ctx, id); err != nil {
		return v, err
	}
	if v.State != storage.BackfillActive {
		return v, nil
	}
	active, err := r.Runs(ctx, storage.RunFilter{Backfill: id,
		States: []jobs.State{jobs.Running, jobs.Waiting}, Limit: storage.MaxBatch})
	for _, run := range active {
		if run.State == jobs.Running {
			v.Running = append(v.Running, run)
		} else {
			v.Waiting = append(v.Waiting, run)
		}
	}
	return v, err
}
