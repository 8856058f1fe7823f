package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The number of runs of a list without a limit.
const (
	defaultRuns = 100
	pageRuns    = 50
)

// runParams are the parameters of a list of runs.
func runParams() []string {
	return []string{"job", "group", "state", "reason", "replica", "resource", "error", "backfill",
		"from", "until", "limit", "before", "after"}
}

func (s runPages) runsJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) ([]storage.Record, error) {
		p, err := param.Read(r, runParams()...)
		if err != nil {
			return nil, err
		}
		filter, err := s.reader.runFilter(ctx, p, defaultRuns)
		if err != nil {
			return nil, err
		}
		runs, err := s.reader.Runs(ctx, filter)
		if err == nil && len(runs) > 0 {
			full := len(runs) == filter.Limit // there may be more
			back := filter.After != nil && filter.Before == nil
			param.SetLinks(w, p.Pager(r.URL.EscapedPath(), runCursors(), runs[0].ID.String(),
				runs[len(runs)-1].ID.String(), back || full, filter.Before != nil || back && full))
		}
		return runs, err
	})
}

// runCursors page from the newest to the oldest.
func runCursors() param.Cursors { return param.Cursors{Next: "before", Previous: "after"} }

// runsView is the page of runs.
type runsView struct {
	Runs   []storage.Record
	Pager  param.Pager
	Filter runFields
	From   time.Time // zero: not bounded
	Until  time.Time // zero: not bounded
	Spans  []runLink
	Tabs   []runLink
	Chips  []chip
	Sizes  []runLink // numbers of runs on a page
	ByJob  []runLink // jobs of the listed runs, if these did not succeed
	Known  suggestions
	Total  string // number of runs that the filter selects, or "" if it is not known
	Older  bool   // it has only runs before a given one, so it gets no new runs
	News   string // number of newer runs, which wait until the viewer asks for them; "": none

	// Search is the text of the search field, if it has a mistake, and Mistake says which.
	Search, Mistake string

	Histogram *charts.Histogram // nil if the numbers are not known

	Bulk     permission.Allowed // actions on selected runs
	Matching string             // the query of the filter; "": none is set
	TooMany  bool               // more runs match than one action takes
}

// OtherTimes reports whether the list has a range of time without a link.
func (v *runsView) OtherTimes() bool {
	return !slices.ContainsFunc(v.Spans, func(l runLink) bool { return l.Here })
}

// ByJobShown returns the jobs with the most of the listed runs, which the page links.
func (v *runsView) ByJobShown() []runLink { return v.ByJob[:min(len(v.ByJob), maxByJob)] }

// ByJobMore returns the number of jobs of the listed runs that the page does not link.
func (v *runsView) ByJobMore() int { return len(v.ByJob) - len(v.ByJobShown()) }

// runFields are the submitted fields of the filter.
type runFields struct {
	Job, Group, Reason, Replica, Resource, Error, Backfill, From, Until string
	States                                                              []string
}

// Any reports whether a filter is set.
func (f runFields) Any() bool {
	return f.Job+f.Group+f.Reason+f.Replica+f.Resource+f.Error+f.Backfill+f.From+f.Until != "" ||
		len(f.States) > 0
}

// possible returns the actions that a run in one of the states can take: only a run that has ended
// can be repeated, and only another can be cancelled.
func (f runFields) possible(bulk permission.Allowed) permission.Allowed {
	ended := func(state string) bool { return jobs.State(state).Final() }
	if len(f.States) > 0 {
		active := slices.ContainsFunc(f.States, func(state string) bool { return !ended(state) })
		bulk.Trigger = bulk.Trigger && slices.ContainsFunc(f.States, ended)
		bulk.Cancel = bulk.Cancel && active
	}
	return bulk
}

// AllReasons lists the reasons for the form.
func (runFields) AllReasons() []jobs.Reason { return reasons.All() }

func (s runPages) runsPage(w http.ResponseWriter, r *http.Request) {
	p, err := param.Read(r, append(runParams(), "q", "refresh", param.Newest)...)
	var newest time.Time
	var search string
	if err == nil {
		newest, err = p.Time(param.Newest)
	}
	if err == nil {
		search, err = p.Text("q")
	}
	if err != nil {
		s.Refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	p.Del(param.Newest)
	p.Del("q")
	mistake := ""
	if search = strings.TrimSpace(search); search != "" {
		var to string
		to, mistake = s.searchedRuns(r.Context(), p, search)
		if to != "" {
			http.Redirect(w, r, to, http.StatusSeeOther)
			return
		}
	}
	pages.Show(s.Site, w, r, pages.Page[runsView]{
		Template: "runs.html", Section: "/runs", Title: "Runs", Live: true, Fields: true,
		JSONPath: p.With("/api/v1/runs"),
		Topics:   []storage.Topic{storage.TopicRuns},
		Load: func(ctx context.Context, snap cluster.Snapshot) (v runsView, err error) {
			filter, err := s.reader.runFilter(ctx, p, pageRuns)
			if err != nil {
				return v, err
			}
			v.Search, v.Mistake = search, mistake
			v.Filter, v.From, v.Until = newRunFields(p, filter), filter.From, filter.Until
			if v.Known, err = s.reader.suggester.read(ctx, snap, v.Filter); err != nil {
				return v, err
			}
			v.Spans = timeSpans(p, snap.Now, filter.From, filter.Until)
			v.Tabs, v.Sizes = stateTabs(p, v.Filter.States), pageSizes(p, filter.Limit)
			counts, err := s.reader.counter.runCounts(ctx, filter, snap.Now)
			if err != nil {
				return v, err
			}
			counts.count(v.Tabs)
			v.Total, v.Histogram = counts.total(filter.States), counts.histogram
			v.TooMany = counts.tooMany(filter.States)
			if v.Filter.Any() {
				v.Matching = matchingQuery(p)
			}
			v.Chips = filterChips(p, v.Filter, v.Tabs)
			if v.Older = filter.Before != nil; !v.Older && filter.After == nil {
				if v.News, err = s.reader.keepTo(ctx, &filter, newest); err != nil {
					return v, err
				}
			}
			limit := filter.Limit
			// one extra row shows whether there is another page
			filter.Limit = min(limit+1, storage.MaxBatch)
			runs, err := s.reader.Runs(ctx, filter)
			if err != nil {
				return v, err
			}
			runs, on, back := param.Trim(runs, limit, filter.Before != nil, filter.After != nil)
			if filter.Before == nil && filter.After != nil {
				runs, v.News = holdBack(runs, newest)
			}
			v.ByJob = jobCounts(p, v.Filter, runs)
			if v.Runs = runs; len(runs) > 0 {
				v.Pager = p.Pager(r.URL.EscapedPath(), runCursors(), runs[0].ID.String(),
					runs[len(runs)-1].ID.String(), on, back)
			}
			return v, nil
		},
		Complete: func(v *runsView, f *pages.Frame) {
			v.Bulk = v.Filter.possible(s.bulkAllowed(r.Context(), f))
			if !maySuggest(r.Context()) {
				v.Known = suggestions{}
			}
			if !v.Older {
				f.Newest = newestOf(newest, v.Runs)
			}
		},
	})
}

// searchedRuns returns the address to which a search leads, or the mistake in its text. It returns
// neither if the store does not answer.
func (s runPages) searchedRuns(ctx context.Context, p param.Set,
	text string) (path, mistake string) {
	err := s.Queries.Run(ctx, func(ctx context.Context) (err error) {
		path, err = s.reader.findRuns(ctx, p, text)
		return err
	})
	var wrong *param.Error
	if errors.As(err, &wrong) {
		return "", words.Title(wrong.Text)
	}
	return path, ""
}

func newRunFields(p param.Set, f storage.RunFilter) runFields {
	// The fields have whole seconds, and the form must not drop runs of the list.
	until := f.Until.Add(time.Second - 1).Truncate(time.Second)
	fields := runFields{
		Job: p.Get("job"), Group: f.Group, Reason: string(f.Reason), Replica: f.Replica,
		Resource: p.Get("resource"), Error: f.Error,
		From: param.FieldTime(f.From), Until: param.FieldTime(until),
	}
	if f.Backfill != uuid.Nil {
		fields.Backfill = f.Backfill.String()
	}
	for _, state := range f.States {
		fields.States = append(fields.States, string(state))
	}
	return fields
}

func (s runPages) runJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) (v RunDetail, err error) {
		if err := param.Only(r); err != nil {
			return v, err
		}
		id, err := runID(r)
		if err != nil {
			return v, err
		}
		if v.Record, err = s.reader.Run(ctx, id); err != nil {
			return v, err
		}
		if v.Attempts, err = s.reader.Attempts(ctx, v.Record); err != nil {
			return v, err
		}
		v.Record = visible(r.Context(), v.Record)
		s.watch(ctx, v.Record)
		v.TraceID = s.traceOf(v.Record).ID
		return v, nil
	})
}

// outcomeJSON answers with the run, or with the last run that recovers it.
func (s runPages) outcomeJSON(w http.ResponseWriter, r *http.Request) {
	pages.Answer(s.Site, w, r, func(ctx context.Context) (storage.Record, error) {
		if err := param.Only(r); err != nil {
			return storage.Record{}, err
		}
		id, err := runID(r)
		if err != nil {
			return storage.Record{}, err
		}
		run, err := operations.Outcome(ctx, s.options.Store, id)
		if err != nil {
			return storage.Record{}, fmt.Errorf("run %s: %w", id, err)
		}
		return visible(r.Context(), records.Plain(run)), nil
	})
}

// visible returns the run without the parts that the sender of the request may not view.
func visible(ctx context.Context, run storage.Record) storage.Record {
	if !pages.May(ctx, permission.ViewOutput) {
		run.Output, run.Result = "", nil
	}
	if !pages.May(ctx, permission.ViewParams) {
		run.Params = nil
	}
	return run
}

// watch asks a running run to save its output for the next request. A failure does not withhold the
// run.
func (s runPages) watch(ctx context.Context, run storage.Record) {
	if run.State != jobs.Running || s.options.Watch == nil {
		return
	}
	if err := s.options.Watch(ctx, run.ID); err != nil && ctx.Err() == nil {
		s.Log.Debug().Err(err).Stringer("run", run.ID).Msg("what a run writes can't be asked for")
	}
}

func runID(r *http.Request) (uuid.UUID, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return id, param.Errorf("id is %q, expected a run's id, a UUID",
			words.Cut(r.PathValue("id"), 100))
	}
	return id, nil
}

// runFilter parses the parameters of a list of runs.
func (r *reader) runFilter(ctx context.Context, p param.Set,
	limit int) (f storage.RunFilter, err error) {
	names, err := p.Text("job")
	if err != nil {
		return f, err
	}
	f.SetJobs(names)
	if f.Group, err = p.Text("group"); err != nil {
		return f, err
	}
	if f.Replica, err = p.Text("replica"); err != nil {
		return f, err
	}
	if f.States, err = readStates(p.Values["state"]); err != nil {
		return f, err
	}
	if f.Reason, err = param.OneOf(p, "reason", reasons.All()); err != nil {
		return f, err
	}
	if f.Resource, err = p.Resource("resource"); err != nil {
		return f, err
	}
	if f.Error, err = p.Text("error"); err != nil {
		return f, err
	}
	if text := p.Get("backfill"); text != "" {
		if f.Backfill, err = readBackfillID(text); err != nil {
			return f, err
		}
	}
	if f.From, err = p.Time("from"); err != nil {
		return f, err
	}
	if f.Until, err = p.Time("until"); err != nil {
		return f, err
	}
	if f.Limit, err = p.Limit(limit); err != nil {
		return f, err
	}
	if f.Before, err = r.cursor(ctx, p, "before"); err != nil {
		return f, err
	}
	f.After, err = r.cursor(ctx, p, "after")
	return f, err
}

// readBackfillID parses the id of a backfill, which is not the nil UUID.
func readBackfillID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || id == uuid.Nil {
		return id, param.Errorf("backfill is %q, expected a backfill's id, a UUID",
			words.Cut(text, 100))
	}
	return id, nil
}

// readStates parses states, repeated or separated by commas.
func readStates(values []string) ([]jobs.State, error) {
	var states []jobs.State
	for _, value := range values {
		for text := range strings.SplitSeq(value, ",") {
			if value == "" {
				continue
			}
			if !slices.Contains(jobs.States(), jobs.State(text)) {
				return nil, param.Errorf("state is %q, expected some of %s",
					words.Cut(text, 100), words.List(jobs.States()))
			}
			states = append(states, jobs.State(text))
		}
	}
	return states, nil
}

// cursor returns the position of a run in the list, by its id.
func (r *reader) cursor(ctx context.Context, p param.Set, name string) (*storage.RunCursor, error) {
	text := p.Get(name)
	if text == "" {
		return nil, nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return nil, param.Errorf("%s is %q, expected a run's id, a UUID", name,
			words.Cut(text, 100))
	}
	run, err := r.Store.Run(ctx, id)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil, param.Errorf("%s is %s, expected the id of a run in the history",
			name, id)
	case err != nil:
		return nil, fmt.Errorf("run %s: %w", id, err)
	}
	return &storage.RunCursor{CreatedAt: run.CreatedAt, ID: run.ID}, nil
}
