package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// maxMatching bounds the jobs or runs of a bulk action on all that match a filter. The store
	// returns so many in one page.
	maxMatching = storage.MaxBatch
	// maxItemsField bounds the field with the names of these items, as the form sends it, in bytes.
	// The rest of the body has the key and the reason.
	maxItemsField = maxBody - 8<<10
)

// bulkSelection is what a bulk action is about: selected items, or all items that match the filter
// of a list.
type bulkSelection struct {
	items  []bulkItem
	filter *param.Set // of the list; nil: only the selected items
}

// selection returns what the address of a bulk action is about. A filter shows which items exist,
// so it needs the same permission as its list.
func (s bulkPages) selection(r *http.Request, b bulkAction) (*bulkSelection, error) {
	query := r.URL.Query()
	if !query.Has("matching") {
		items, err := b.items(query[b.itemParam()], maxBulk)
		return &bulkSelection{items: items}, err
	}
	if query.Has(b.itemParam()) {
		return nil, param.Errorf("%s and matching are both given, expected one of them",
			b.itemParam())
	}
	list := r.Clone(r.Context())
	list.URL = &url.URL{Path: b.list(), RawQuery: query.Get("matching")}
	allowed, filtered := bulkJobParams(), filteredJobs
	if b.runs {
		allowed, filtered = bulkRunParams(), filteredRuns
	}
	filter, err := param.Read(list, allowed...)
	if err != nil {
		return nil, param.Errorf("matching: %s", err)
	}
	err = permission.RequireOn(r.Context(), permission.View,
		func(context.Context) (t permission.Target, err error) {
			err = s.Queries.Run(r.Context(), func(ctx context.Context) (err error) {
				t, err = filtered(s.base, ctx, list)
				return err
			})
			return t, err
		})
	return &bulkSelection{filter: &filter}, err
}

// bulkRunParams are the parameters of a list of runs without those of its pages.
func bulkRunParams() []string { return withoutPages(runParams()) }

// bulkJobParams are the parameters of a list of jobs without those of its pages.
func bulkJobParams() []string { return withoutPages(jobParams()) }

// pageParams are the parameters that choose the order and the page of a list.
func pageParams() []string { return []string{"sort", "order", "limit", "skip", "before", "after"} }

func withoutPages(params []string) []string {
	return slices.DeleteFunc(params, func(name string) bool {
		return slices.Contains(pageParams(), name)
	})
}

// matchingQuery returns the query of a list without its page, for the parameter matching.
func matchingQuery(p param.Set) string {
	var pairs []string
	for _, name := range pageParams() {
		pairs = append(pairs, name, "")
	}
	_, query, _ := strings.Cut(p.With("", pairs...), "?")
	return query
}

// title is the number of items in words.
func (c *bulkSelection) title(b bulkAction) string {
	if c.filter != nil && c.items == nil {
		return "all " + b.itemParam() + "s that match"
	}
	return b.count(len(c.items))
}

// fields are the fields of the form: the items that its page has shown, if there is a filter.
func (c *bulkSelection) fields() []string {
	if c.filter == nil {
		return nil
	}
	return []string{"items"}
}

// submitted returns the items of a form: those that its page has shown, not those that match the
// filter now.
func (c *bulkSelection) submitted(b bulkAction, sent url.Values) ([]bulkItem, error) {
	if c.filter == nil {
		return c.items, nil
	}
	query, err := url.ParseQuery(sent.Get("items"))
	if err != nil {
		return nil, param.Errorf("items can't be read: %s", words.OneLine(err.Error(), 100))
	}
	return b.items(query[b.itemParam()], maxMatching)
}

// itemsField returns items as the field of a form has them.
func (b bulkAction) itemsField(items []bulkItem) string {
	query := make(url.Values)
	for _, i := range items {
		query.Add(b.itemParam(), i.name())
	}
	return query.Encode()
}

// matching returns all jobs or runs that match the filter, the runs with the newest first.
func (s bulkPages) matching(ctx context.Context, b bulkAction,
	filter param.Set) (items []bulkItem, err error) {
	more := false
	if b.runs {
		items, more, err = s.matchingRuns(ctx, filter)
	} else {
		items, more, err = s.matchingJobs(ctx, filter)
	}
	if err != nil {
		return nil, err
	}
	if more {
		return nil, param.Errorf("More than %s match, expected at most %s. Go back and "+
			"narrow the filter.", b.count(maxMatching), words.Count(maxMatching))
	}
	if n := len(url.QueryEscape(b.itemsField(items))); n > maxItemsField {
		return nil, param.Errorf("The names of the %s that match need %s bytes, expected at most "+
			"%s. Go back and narrow the filter.", b.count(len(items)), words.Count(n),
			words.Count(maxItemsField))
	}
	return items, nil
}

func (s bulkPages) matchingRuns(ctx context.Context, p param.Set) (items []bulkItem, more bool,
	err error) {
	filter, err := s.reader.runFilter(ctx, p, maxMatching)
	if err != nil {
		return nil, false, err
	}
	runs, err := s.reader.Runs(ctx, filter)
	if err != nil {
		return nil, false, err
	}
	for _, run := range runs {
		items = append(items, itemOfRun(run))
	}
	if len(runs) < maxMatching {
		return items, false, nil
	}
	last := runs[len(runs)-1]
	filter.Before = &storage.RunCursor{CreatedAt: last.CreatedAt, ID: last.ID}
	filter.Limit = 1
	beyond, err := s.reader.Runs(ctx, filter)
	return items, len(beyond) > 0, err
}

func (s bulkPages) matchingJobs(ctx context.Context, p param.Set) (items []bulkItem, more bool,
	err error) {
	q, err := readJobQuery(p, maxMatching)
	if err != nil {
		return nil, false, err
	}
	filter := q.JobFilter
	if q.inMemory() {
		now, err := s.reader.Now(ctx)
		if err != nil {
			return nil, false, err
		}
		if filter.Names, err = s.reader.lists.selection(ctx, now, q); err != nil {
			return nil, false, err
		}
		filter.Names = append([]string{}, filter.Names...) // nil would be all jobs
	}
	views, err := s.reader.Store.ListJobs(ctx, filter)
	if err != nil {
		return nil, false, fmt.Errorf("jobs: %w", err)
	}
	for _, v := range views {
		items = append(items, bulkItem{Job: v, Known: true})
	}
	if len(views) < maxMatching {
		return items, false, nil
	}
	filter.After, filter.Limit = views[len(views)-1].Name, 1
	beyond, err := s.reader.Store.ListJobs(ctx, filter)
	if err != nil {
		return nil, false, fmt.Errorf("jobs: %w", err)
	}
	return items, len(beyond) > 0, nil
}

// itemOfRun returns a run as an item. It has no params, so that the page does not show them.
func itemOfRun(run storage.Record) bulkItem {
	i := bulkItem{ID: run.ID, OwnParams: run.Params != nil}
	run.Params = nil
	i.Run, i.Job.Name = &run, run.Job
	return i
}
