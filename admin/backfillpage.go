package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The number of backfills on a page without a limit, and of runs on the page of a backfill.
const (
	pageBackfills  = 50
	runsOfBackfill = 50
)

// backfillsView is the page of backfills.
type backfillsView struct {
	Active, Ended []storage.Backfill
	AllActive     string // address of the list of active backfills, if Active has not all of them
	// ListsActive and ListsEnded say that the page has the list, even if it is empty.
	ListsActive, ListsEnded bool

	Pager  param.Pager
	Filter backfillFields
}

// backfillFields are the submitted fields of the filter.
type backfillFields struct {
	Job   string
	State storage.BackfillState
}

// Any reports whether a filter is set.
func (f backfillFields) Any() bool { return f != backfillFields{} }

// AllStates lists the states for the form.
func (backfillFields) AllStates() []storage.BackfillState { return storage.BackfillStates() }

func (s backfillPages) backfillsPage(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, append(backfillParams(), "refresh")...)
	var filter storage.BackfillFilter
	if err == nil {
		filter, err = readBackfillFilter(p, pageBackfills)
	}
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	pages.Show(s.Site, w, r, pages.Page[backfillsView]{
		Template: "backfills.html", Section: "/runs", Title: "Backfills", Live: true,
		Fields: true,
		Topics: []storage.Topic{storage.TopicRuns},
		Load: func(ctx context.Context, _ cluster.Snapshot) (backfillsView, error) {
			return s.reader.backfillsView(ctx, p, r.URL.EscapedPath(), filter)
		},
	})
}

// backfillsView returns a page of backfills. Without a state in the filter, the pages have the
// ended backfills, and the first page has the active ones too.
func (r *reader) backfillsView(ctx context.Context, p param.Set, path string,
	filter storage.BackfillFilter) (v backfillsView, err error) {
	v.Filter = backfillFields{filter.Job, filter.State}
	first := filter.State == "" && filter.Before == nil && filter.After == nil
	v.ListsActive, v.ListsEnded = first || filter.State == storage.BackfillActive,
		filter.State != storage.BackfillActive
	if first {
		active := storage.BackfillFilter{Job: filter.Job, State: storage.BackfillActive}
		var more bool
		v.Active, more, _, err = r.pageOfBackfills(ctx, active, filter.Limit)
		if err != nil {
			return v, err
		}
		if more {
			v.AllActive = p.With(path, "state", string(storage.BackfillActive))
		}
	}
	filter.Ended = filter.State == ""
	list, on, back, err := r.pageOfBackfills(ctx, filter, filter.Limit)
	if err != nil {
		return v, err
	}
	if len(list) > 0 {
		v.Pager = p.Pager(path, backfillCursors(), backfillCursor(list[0]),
			backfillCursor(list[len(list)-1]), on, back)
	}
	if filter.State == storage.BackfillActive {
		v.Active = list
	} else {
		v.Ended = list
	}
	return v, nil
}

// pageOfBackfills returns a page, and whether there are a next and a previous one.
func (r *reader) pageOfBackfills(ctx context.Context, f storage.BackfillFilter,
	limit int) (list []storage.Backfill, next, previous bool, err error) {
	// one extra row shows whether there is another page
	f.Limit = min(limit+1, storage.MaxBatch)
	if list, err = r.Store.Backfills(ctx, f); err != nil {
		return nil, false, false, fmt.Errorf("backfills: %w", err)
	}
	list, next, previous = param.Trim(list, limit, f.Before != nil, f.After != nil)
	return list, next, previous, nil
}

// backfillView is the page of a backfill.
type backfillView struct {
	storage.Backfill
	Runs   []storage.Record // the newest first
	More   bool             // there are more runs
	Pauses []storage.Pause  // the active pauses that hold it back
}

// UnsuccessfulPath returns the list of its runs that did not succeed.
func (v *backfillView) UnsuccessfulPath() string {
	return param.RunsOfBackfillPath(v.ID, records.UnsuccessfulStates()...)
}

func (s backfillPages) backfillPage(w http.ResponseWriter, r *http.Request) {
	err := param.Only(r, "refresh")
	var id uuid.UUID
	if err == nil {
		id, err = pathID(r, "id", "a backfill's id")
	}
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	pages.Show(s.Site, w, r, pages.Page[backfillView]{
		Template: "backfill.html", Section: "/runs", Title: "Backfill " + pages.Short(id.String()),
		JSONPath: "/api/v1" + param.BackfillPath(id), Live: true,
		Topics: []storage.Topic{storage.TopicRuns, storage.TopicJobs},
		Load: func(ctx context.Context, _ cluster.Snapshot) (backfillView, error) {
			return s.reader.backfillView(ctx, id)
		},
		Complete: func(v *backfillView, f *pages.Frame) {
			f.Title = fmt.Sprintf("Backfill of %s %s", words.Cut(v.Job, 60), v.State)
			if v.State != storage.BackfillActive && v.Unfinished() == 0 { // it no longer changes
				f.Every, f.Refresh, f.Events = 0, 0, ""
			}
		},
	})
}

func (r *reader) backfillView(ctx context.Context, id uuid.UUID) (v backfillView, err error) {
	if v.Backfill, err = r.Store.Backfill(ctx, id); err != nil {
		return v, err
	}
	v.Runs, err = r.Runs(ctx, storage.RunFilter{Backfill: id, Limit: runsOfBackfill + 1})
	if err != nil {
		return v, err
	}
	if v.More = len(v.Runs) > runsOfBackfill; v.More {
		v.Runs = v.Runs[:runsOfBackfill]
	}
	if v.State != storage.BackfillActive {
		return v, nil
	}
	job, err := r.Store.Job(ctx, v.Job)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return v, fmt.Errorf("job %q: %w", words.Cut(v.Job, 200), err)
	}
	v.Pauses = job.Pauses
	return v, nil
}
