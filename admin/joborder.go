package admin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The values of the parameter state of a list of jobs that are no states of runs.
const (
	// jobFailing selects jobs whose last runs all failed, by the rule of the status.
	jobFailing = "failing"
	// jobLastFailed selects jobs whose last run failed, timed out or was lost, as the overview
	// does.
	jobLastFailed = "last_failed"
	// jobNeverRun selects jobs without any run.
	jobNeverRun = "never_run"
)

// jobStateNames are the values of the parameter state of a list of jobs.
func jobStateNames() []string {
	var names []string
	for _, state := range jobs.States() {
		names = append(names, string(state))
	}
	return append(names, jobConditions()...)
}

// jobConditions are the values that are no states of runs.
func jobConditions() []string { return []string{jobFailing, jobLastFailed, jobNeverRun} }

// jobOrder is the order of a list of jobs.
type jobOrder string

// The orders. The empty one is by name with cursors, and the others count the jobs to skip.
const (
	byName     jobOrder = "name"
	byState    jobOrder = "state"    // those that need attention first
	byDuration jobOrder = "duration" // usual duration
	byNext     jobOrder = "next"     // next scheduled time
)

func jobOrders() []jobOrder { return []jobOrder{byName, byState, byDuration, byNext} }

// jobQuery selects, orders and pages jobs.
type jobQuery struct {
	storage.JobFilter
	Condition  string // one of jobConditions, or ""
	Order      jobOrder
	Descending bool
	Skip       int
}

// inMemory reports whether the jobs are selected from the cached states of all jobs.
func (q jobQuery) inMemory() bool { return q.Order != "" || q.Condition != "" }

// readJobQuery parses the parameters of a list of jobs.
func readJobQuery(p param.Set, limit int) (q jobQuery, err error) {
	state, err := param.OneOf(p, "state", jobStateNames())
	if err != nil {
		return q, err
	}
	if slices.Contains(jobConditions(), state) {
		if len(p.Values["state"]) > 1 {
			return q, param.Errorf("state is given %d times, expected once", len(p.Values["state"]))
		}
		q.Condition = state
		p = param.Set{Values: maps.Clone(p.Values)}
		p.Del("state")
	}
	if q.JobFilter, err = readJobFilter(p, limit); err != nil {
		return q, err
	}
	if q.Order, err = param.OneOf(p, "sort", jobOrders()); err != nil {
		return q, err
	}
	order, err := param.OneOf(p, "order", []string{"asc", "desc"})
	if err != nil {
		return q, err
	}
	q.Descending = order == "desc"
	if q.Skip, err = p.Skip(); err != nil {
		return q, err
	}
	switch {
	case q.Order == "" && (order != "" || q.Skip > 0):
		return q, param.Errorf("order or skip is given without sort, expected sort as one of %s",
			words.List(jobOrders()))
	case q.Order != "" && q.After+q.Before != "":
		return q, param.Errorf("after or before is given with sort, expected skip")
	}
	return q, nil
}

// selecting returns a function that reports whether the list has a job. The store does the same for
// the parts of a JobFilter. failing are the jobs of the condition, if it depends on failures.
func (q jobQuery) selecting(failing map[string]bool) func(*storage.JobState) bool {
	narrows := narrowing(q.JobFilter)
	return func(s *storage.JobState) bool {
		return narrows(s) && (q.State == "" || slices.Contains(statesOf(*s), q.State)) &&
			(q.Paused == nil || s.Paused == *q.Paused) &&
			(q.Condition != jobNeverRun || neverRun(s)) &&
			(q.Condition == "" || q.Condition == jobNeverRun || failing[s.Job])
	}
}

func neverRun(s *storage.JobState) bool { return !s.Running && !s.Waiting && s.Last == "" }

// failing returns the jobs of the condition jobFailing or jobLastFailed.
func (r *jobLister) failing(ctx context.Context, now time.Time,
	condition string) (map[string]bool, error) {
	rules := r.rules
	if condition == jobLastFailed {
		rules.FailingAfter = 1
	}
	names, err := r.FailingJobs(ctx, now, rules)
	if err != nil {
		return nil, fmt.Errorf("failing jobs: %w", err)
	}
	failing := make(map[string]bool, len(names))
	for _, name := range names {
		failing[name] = true
	}
	return failing, nil
}

// selectedJobs are a page of the jobs that a query selects from the cached states.
type selectedJobs struct {
	Jobs    []Job
	Total   int // on all pages
	Unknown int // jobs whose usual durations will be known later
	at      jobPosition
}

// selectJobs returns a page of jobs in the order of the query.
func (r *jobLister) selectJobs(ctx context.Context, now time.Time,
	q jobQuery) (page selectedJobs, err error) {
	selected, err := r.selection(ctx, now, q)
	if err != nil {
		return page, err
	}
	page.Total = len(selected)
	var names []string
	if q.Order == "" {
		names = page.between(selected, q.JobFilter)
	} else {
		if page.Unknown, err = r.sortJobs(ctx, now, q, selected); err != nil {
			return page, err
		}
		from := min(q.Skip, len(selected))
		names = selected[from:min(from+q.Limit, len(selected))]
	}
	if len(names) == 0 {
		return page, nil
	}
	views, err := r.Store.ListJobs(ctx, storage.JobFilter{Names: names, Limit: len(names)})
	if err != nil {
		return page, fmt.Errorf("jobs: %w", err)
	}
	if page.Jobs, err = r.completeJobs(ctx, now, views); err != nil {
		return page, err
	}
	places := make(map[string]int, len(names))
	for i, name := range names {
		places[name] = i
	}
	slices.SortFunc(page.Jobs, func(a, b Job) int { return places[a.Name] - places[b.Name] })
	return page, nil
}

// selection returns the names of the jobs that the query selects, by name.
func (r *jobLister) selection(ctx context.Context, now time.Time,
	q jobQuery) (names []string, err error) {
	index, err := r.jobIndex(ctx, now)
	if err != nil {
		return nil, err
	}
	var failing map[string]bool
	if q.Condition == jobFailing || q.Condition == jobLastFailed {
		if failing, err = r.failing(ctx, now, q.Condition); err != nil {
			return nil, err
		}
	}
	has := q.selecting(failing)
	for i := range index.states {
		if has(&index.states[i]) {
			names = append(names, index.states[i].Job)
		}
	}
	return names, nil
}

// between returns a page of names by the cursors of the filter, as ListJobs does.
func (page *selectedJobs) between(names []string, f storage.JobFilter) []string {
	names = slices.DeleteFunc(names, func(name string) bool {
		return name <= f.After || f.Before != "" && name >= f.Before
	})
	more := len(names) > f.Limit
	back := f.Before != "" && f.After == ""
	switch {
	case more && back:
		names = names[len(names)-f.Limit:]
	case more:
		names = names[:f.Limit]
	}
	page.at.next, page.at.previous = back || more, f.After != "" || back && more
	if len(names) > 0 {
		page.at.first, page.at.last = names[0], names[len(names)-1]
	}
	return names
}

// jobKey is a job with what it is sorted by.
type jobKey struct {
	name  string
	known bool // jobs without a key come last
	key   int64
}

// sortJobs sorts names that are in order by the query. It returns the number of jobs whose usual
// durations are not known yet.
func (r *jobLister) sortJobs(ctx context.Context, now time.Time, q jobQuery,
	names []string) (unknown int, err error) {
	keys := make([]jobKey, len(names))
	for i, name := range names {
		keys[i].name = name
	}
	index, err := r.jobIndex(ctx, now)
	if err != nil {
		return 0, err
	}
	switch q.Order {
	case byState:
		index.addStateKeys(keys)
	case byDuration:
		if unknown, err = r.addDurationKeys(ctx, now, keys); err != nil {
			return 0, err
		}
	case byNext:
		r.addNextKeys(now, index, keys)
	}
	slices.SortStableFunc(keys, func(a, b jobKey) int {
		switch {
		case a.known != b.known && a.known:
			return -1
		case a.known != b.known:
			return 1
		case q.Order == byName && q.Descending:
			return strings.Compare(b.name, a.name)
		case q.Descending:
			return cmp.Or(cmp.Compare(b.key, a.key), strings.Compare(a.name, b.name))
		}
		return cmp.Or(cmp.Compare(a.key, b.key), strings.Compare(a.name, b.name))
	})
	for i, k := range keys {
		names[i] = k.name
	}
	return unknown, nil
}

// statesByUrgency are the states of jobs in the order of the list by state.
func statesByUrgency() []jobs.State {
	return []jobs.State{jobs.Lost, jobs.Failed, jobs.TimedOut, jobs.Missed, jobs.Skipped,
		jobs.Waiting, jobs.Running, jobs.Cancelled, jobs.Succeeded}
}

func (x *jobIndex) addStateKeys(keys []jobKey) {
	order := statesByUrgency()
	for i := range keys {
		if states := statesOf(x.stateOf(keys[i].name)); len(states) > 0 {
			keys[i].known, keys[i].key = true, int64(slices.Index(order, states[0]))
		}
	}
}

// stateOf returns the states of a job, or the zero value if there is no such job.
func (x *jobIndex) stateOf(job string) storage.JobState {
	at, found := slices.BinarySearchFunc(x.states, job,
		func(s storage.JobState, name string) int { return strings.Compare(s.Job, name) })
	if !found {
		return storage.JobState{}
	}
	return x.states[at]
}

func (r *jobLister) addDurationKeys(ctx context.Context, now time.Time,
	keys []jobKey) (unknown int, err error) {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	usual, unknown, err := locks.UsualOfMany(ctx, r.lock, now, names)
	if err != nil {
		return 0, err
	}
	for i := range keys {
		known := usual[keys[i].name]
		keys[i].known, keys[i].key = known.Runs > 0, int64(known.Median)
	}
	return unknown, nil
}

// nextBudget bounds the time in which a page computes the next scheduled times of jobs.
const nextBudget = 50 * time.Millisecond

// addNextKeys adds the next scheduled times, except for paused jobs. The times of dependents may
// take long to compute, so it stops after nextBudget.
func (r *jobLister) addNextKeys(now time.Time, index *jobIndex, keys []jobKey) {
	began := time.Now()
	for i := range keys {
		if i%64 == 63 && time.Since(began) > nextBudget {
			return
		}
		if index.stateOf(keys[i].name).Paused {
			continue
		}
		if next := r.scheduledTimesOf(keys[i].name, now, 1); len(next) > 0 {
			keys[i].known, keys[i].key = true, next[0].UnixNano()
		}
	}
}

// jobColumn is a column of the list of jobs that the viewer can sort by.
type jobColumn struct {
	Name, Path string
	Class      string
	Sorted     string // the value of aria-sort; "" if the list is sorted by another column
}

// As returns the column with a class.
func (c jobColumn) As(class string) jobColumn {
	c.Class = class
	return c
}

// Arrow shows the direction of the order.
func (c jobColumn) Arrow() string {
	switch c.Sorted {
	case "ascending":
		return "↑"
	case "descending":
		return "↓"
	}
	return ""
}

// jobColumns links the list in other orders. A link to the current order reverses it. The longest
// durations come first.
func jobColumns(p param.Set, q jobQuery) map[jobOrder]jobColumn {
	current := cmp.Or(q.Order, byName)
	columns := make(map[jobOrder]jobColumn)
	for order, name := range map[jobOrder]string{byName: "Job", byState: "State",
		byDuration: "Usual duration", byNext: "Next"} {
		c := jobColumn{Name: name}
		descending := order == byDuration
		if order == current {
			c.Sorted = "ascending"
			if q.Descending {
				c.Sorted = "descending"
			}
			descending = !q.Descending
		}
		sort, direction := string(order), "asc"
		if descending {
			direction = "desc"
		} else if order == byName {
			sort, direction = "", "" // with groups
		}
		c.Path = p.With("/jobs", "sort", sort, "order", direction, "skip", "", "after", "",
			"before", "")
		columns[order] = c
	}
	return columns
}

// Column returns a column of the list by its order.
func (v *jobsView) Column(order string) jobColumn { return v.columns[jobOrder(order)] }
