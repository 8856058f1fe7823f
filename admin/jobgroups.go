package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/grid"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// maxOfGroup is the number of jobs of a group that the list shows.
	maxOfGroup = 20
	// maxGrouped is the number of jobs of groups on a page. Groups beyond it have a link only.
	maxGrouped = 100
)

// jobGroup is a group of jobs, as an entry of the list of jobs.
type jobGroup struct {
	Name   string
	Total  int
	States []familyState // of active and last runs
	Open   bool          // the page lists the jobs at first: one of them needs attention
	Next   *time.Time    // the next scheduled time; nil: none, or not all jobs are listed

	names  []string // jobs to list: those that need attention, or else the first ones
	Listed []Job    // loaded for a page
}

// jobIndex is all jobs with the states of their runs. It is cached, and its users only read it.
type jobIndex struct {
	states []storage.JobState // by name
	grid   []storage.JobState // in the order of the grid
	groups []jobGroup         // by name, without jobs
	// families are those of all jobs, by the names of their members.
	families map[string]*grid.Kin
}

// newJobIndex finds the groups of jobs, which are sorted by name.
func newJobIndex(states []storage.JobState) *jobIndex {
	byGroup := make(map[string][]storage.JobState)
	for _, s := range states {
		if s.Group != "" {
			byGroup[s.Group] = append(byGroup[s.Group], s)
		}
	}
	x := &jobIndex{states: states, grid: slices.SortedFunc(slices.Values(states), grid.ByGroup)}
	x.families = grid.FamiliesOf(x.grid)
	for name, members := range byGroup {
		x.groups = append(x.groups, newJobGroup(name, members))
	}
	slices.SortFunc(x.groups, func(a, b jobGroup) int { return strings.Compare(a.Name, b.Name) })
	return x
}

func newJobGroup(name string, members []storage.JobState) jobGroup {
	g := jobGroup{Name: name, Total: len(members)}
	counts := make(map[jobs.State]int)
	var urgent, others []string
	for _, m := range members {
		for _, state := range statesOf(m) {
			counts[state]++
		}
		if m.Waiting || storage.Failed(m.Last) {
			urgent = append(urgent, m.Job)
		} else {
			others = append(others, m.Job)
		}
	}
	g.Open = len(urgent) > 0
	g.names = append(urgent, others...)
	g.names = g.names[:min(len(g.names), maxOfGroup)]
	slices.Sort(g.names)
	order := append([]jobs.State{jobs.Running, jobs.Waiting}, records.UnsuccessfulStates()...)
	for _, state := range append(order, jobs.Succeeded) {
		if n := counts[state]; n > 0 {
			g.States = append(g.States, familyState{state, n})
		}
	}
	return g
}

// statesOf returns the states by which the list selects a job.
func statesOf(j storage.JobState) (states []jobs.State) {
	if j.Running {
		states = append(states, jobs.Running)
	}
	if j.Waiting {
		states = append(states, jobs.Waiting)
	}
	if j.Last != "" {
		states = append(states, j.Last)
	}
	return states
}

// jobLister reads the lists of jobs.
type jobLister struct {
	*reader
	index *records.Cached[*jobIndex]
}

func newJobLister(r *reader) *jobLister {
	return &jobLister{r, records.NewQuietCached(
		func(ctx context.Context, _ time.Time) (*jobIndex, error) {
			states, err := r.Store.JobStates(ctx)
			return newJobIndex(states), err
		})}
}

// jobIndex returns all jobs with the states of their runs.
func (r *jobLister) jobIndex(ctx context.Context, now time.Time) (*jobIndex, error) {
	index, err := r.index.Get(ctx, now)
	if err != nil {
		return nil, fmt.Errorf("states of jobs: %w", err)
	}
	return index, nil
}

// counts returns the numbers of jobs that the list has with each state and with each choice of
// paused. The other fields of the filter stay.
func (x *jobIndex) counts(q jobQuery, failing, lastFailed map[string]bool) map[jobFields]int {
	var all, failed, failedLast, never, paused int
	states := make(map[jobs.State]int)
	narrows := narrowing(q.JobFilter)
	for i := range x.states {
		s := &x.states[i]
		if !narrows(s) {
			continue
		}
		all++
		if s.Paused {
			paused++
		}
		if s.Running {
			states[jobs.Running]++
		}
		if s.Waiting {
			states[jobs.Waiting]++
		}
		if s.Last != "" {
			states[s.Last]++
		}
		if len(failing) > 0 && failing[s.Job] {
			failed++
		}
		if len(lastFailed) > 0 && lastFailed[s.Job] {
			failedLast++
		}
		if neverRun(s) {
			never++
		}
	}
	counts := map[jobFields]int{{}: all, {State: jobFailing}: failed,
		{State: jobLastFailed}: failedLast, {State: jobNeverRun}: never,
		{Paused: "yes"}: paused, {Paused: "no"}: all - paused}
	for state, n := range states {
		counts[jobFields{State: string(state)}] = n
	}
	return counts
}

// selectStates returns the jobs that match the text, the group and the source of the filter. The
// caller must not change them.
func selectStates(all []storage.JobState, f storage.JobFilter) []storage.JobState {
	if f.Text+f.Group+string(f.Source) == "" {
		return all
	}
	narrows := narrowing(f)
	var places []int // counts the states before they are copied: each is large
	for i := range all {
		if narrows(&all[i]) {
			places = append(places, i)
		}
	}
	selected := make([]storage.JobState, len(places))
	for i, place := range places {
		selected[i] = all[place]
	}
	return selected
}

// narrowing returns a function that reports whether a job matches the text, the group and the
// source of the filter.
func narrowing(f storage.JobFilter) func(*storage.JobState) bool {
	text := lowerASCII(f.Text)
	return func(s *storage.JobState) bool {
		return (f.Group == "" || s.Group == f.Group) && (f.Source == "" || s.Source == f.Source) &&
			(text == "" || strings.Contains(lowerASCII(s.Job), text) ||
				strings.Contains(lowerASCII(s.Description), text))
	}
}

// lowerASCII converts the letters that the stores compare without case.
func lowerASCII(s string) string {
	if !strings.ContainsFunc(s, isUpperASCII) { // usual, and each list asks for thousands of jobs
		return s
	}
	return strings.Map(func(r rune) rune {
		if isUpperASCII(r) {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

func isUpperASCII(r rune) bool { return 'A' <= r && r <= 'Z' }

// jobEntry is an entry of the list of jobs without a filter: a group, or a job without a group.
type jobEntry struct {
	view  storage.JobView
	group *jobGroup // nil: the entry is a job
}

// key is the place in the list and the position of a page.
func (e jobEntry) key() string {
	if e.group != nil {
		return e.group.Name
	}
	return e.view.Name
}

// groupedSections returns a page of the list in which groups are entries.
func (r *jobLister) groupedSections(ctx context.Context, now time.Time, f storage.JobFilter,
	index *jobIndex) (sections []jobSection, at jobPosition, err error) {
	entries, at, err := r.jobEntries(ctx, f, index)
	if err != nil || len(entries) == 0 {
		return nil, at, err
	}
	sections, err = r.loadEntries(ctx, now, entries)
	return sections, at, err
}

// jobEntries returns the entries of a page, without the jobs of groups.
func (r *jobLister) jobEntries(ctx context.Context, f storage.JobFilter,
	index *jobIndex) (entries []jobEntry, at jobPosition, err error) {
	f.Ungrouped = true
	limit := f.Limit
	f.Limit = min(limit+2, storage.MaxBatch) // of two entries with one key, both are on a page
	views, err := r.Store.ListJobs(ctx, f)
	if err != nil {
		return nil, at, fmt.Errorf("jobs: %w", err)
	}
	for _, v := range views {
		entries = append(entries, jobEntry{view: v})
	}
	for _, g := range index.groups {
		if g.Name > f.After && (f.Before == "" || g.Name < f.Before) {
			entries = append(entries, jobEntry{group: &g})
		}
	}
	slices.SortStableFunc(entries, func(a, b jobEntry) int { return cmp.Compare(a.key(), b.key()) })
	backwards := f.Before != "" && f.After == ""
	entries, more := cutEntries(entries, limit, backwards)
	more = more || len(views) == storage.MaxBatch // the store may have more jobs
	at.next, at.previous = backwards || more, f.After != "" || backwards && more
	if len(entries) > 0 {
		at.first, at.last = entries[0].key(), entries[len(entries)-1].key()
	}
	return entries, at, nil
}

// cutEntries returns the first entries, or the last ones, and reports whether there are more. It
// does not part entries with the same key.
func cutEntries(entries []jobEntry, limit int, backwards bool) (page []jobEntry, more bool) {
	all, n := len(entries), limit
	if all <= limit {
		return entries, false
	}
	if backwards {
		for n < all && entries[all-n-1].key() == entries[all-n].key() {
			n++
		}
		return entries[all-n:], n < all
	}
	for n < all && entries[n].key() == entries[n-1].key() {
		n++
	}
	return entries[:n], n < all
}

// loadEntries loads the jobs of the groups on a page, and returns the page in sections.
func (r *jobLister) loadEntries(ctx context.Context, now time.Time,
	entries []jobEntry) ([]jobSection, error) {
	names := namesOfGroups(entries)
	members, err := r.Store.ListJobs(ctx, storage.JobFilter{Names: names,
		Limit: max(len(names), 1)})
	if err != nil {
		return nil, fmt.Errorf("jobs of groups: %w", err)
	}
	views := members
	for _, e := range entries {
		if e.group == nil {
			views = append(views, e.view)
		}
	}
	list, err := r.completeJobs(ctx, now, views)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]Job, len(list))
	for _, job := range list {
		byName[job.Name] = job
	}
	var sections []jobSection
	var alone []Job
	for _, e := range entries {
		if e.group == nil {
			alone = append(alone, byName[e.view.Name])
			continue
		}
		sections = append(sections, jobSections(alone, false, now)...)
		alone = nil
		e.group.load(byName, now)
		sections = append(sections, jobSection{Jobs: e.group.Listed, Group: e.group})
	}
	return append(sections, jobSections(alone, false, now)...), nil
}

// namesOfGroups returns the jobs of groups that a page lists. Groups with a job that needs
// attention come first. The groups beyond maxGrouped jobs list none.
func namesOfGroups(entries []jobEntry) []string {
	names := []string{}
	for _, open := range []bool{true, false} {
		for _, e := range entries {
			switch g := e.group; {
			case g == nil || g.Open != open:
			case len(names)+len(g.names) > maxGrouped:
				g.names, g.Open = nil, false
			default:
				names = append(names, g.names...)
			}
		}
	}
	return names
}

// load adds the jobs of the group. A job that has left the group since is not listed.
func (g *jobGroup) load(byName map[string]Job, now time.Time) {
	for _, name := range g.names {
		if job, ok := byName[name]; ok && job.Group == g.Name {
			g.Listed = append(g.Listed, job)
			g.Open = g.Open || needsAttention(job, now)
		}
	}
	if len(g.Listed) == g.Total {
		g.Next = nextOf(g.Listed)
	}
}

// groupRow is a group as a row of the list.
type groupRow struct {
	*jobGroup
	rowOf
}

// GroupRow returns the row of a group.
func (v *jobsView) GroupRow(now time.Time, g *jobGroup) groupRow {
	return groupRow{g, v.rowOf(now)}
}
