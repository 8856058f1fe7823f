package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	// maxCounted is the longest time whose runs a page counts.
	maxCounted = storage.MaxHistogram
	// countedExactly is the number of runs up to which a list without a time has exact numbers.
	countedExactly = 10_000
	// exactLifetime is how long exact numbers are cached. Estimates are cached for longer, because
	// they take longer.
	exactLifetime = 5 * time.Second
)

// runCounts are the runs of a list by state.
type runCounts struct {
	byState   map[jobs.State]int // nil: only all is known
	all       int
	more      map[jobs.State]bool // there are more runs in these states
	about     bool                // the numbers of ended runs are estimated
	histogram *charts.Histogram   // nil: the list has no time, or other filters
}

// unfiltered reports whether the list has no other filter than time and states.
func unfiltered(f storage.RunFilter) bool {
	return f.Jobs() == "" && f.Group == "" && f.Replica == "" && f.Reason == "" && f.Error == "" &&
		f.Resource == nil && f.Backfill == uuid.Nil
}

// countable returns the time whose runs the store has counted by quarters.
func countable(f storage.RunFilter, now time.Time) (from, until time.Time, ok bool) {
	if f.From.IsZero() {
		return from, until, false
	}
	if from, until = f.From, f.Until; until.IsZero() {
		until = storage.QuarterOf(now).Add(storage.QuarterLength)
	}
	ok = storage.QuarterOf(from).Equal(from) && storage.QuarterOf(until).Equal(until) &&
		until.After(from) && until.Sub(from) <= maxCounted
	return from.UTC(), until.UTC(), ok
}

// countedMost is the number of runs up to which a list with filters is counted.
const countedMost = 10_000

// countedFilter is a filter whose runs are counted, as the key of a cache.
type countedFilter struct {
	job, prefix, group, replica, error string
	reason                             jobs.Reason
	backfill                           uuid.UUID
	ofResource                         bool
	resource                           locking.Resource
	from, until                        time.Time
}

func newCountedFilter(f storage.RunFilter) countedFilter {
	key := countedFilter{job: f.Job, prefix: f.JobPrefix, group: f.Group, replica: f.Replica,
		error: f.Error, reason: f.Reason, backfill: f.Backfill, from: f.From.UTC(),
		until: f.Until.UTC()}
	if f.Resource != nil {
		key.ofResource, key.resource = true, *f.Resource
	}
	return key
}

// filter returns the filter without states and page.
func (k countedFilter) filter() storage.RunFilter {
	f := storage.RunFilter{Job: k.job, JobPrefix: k.prefix, Group: k.group, Replica: k.replica,
		Error: k.error, Reason: k.reason, Backfill: k.backfill, From: k.from, Until: k.until}
	if k.ofResource {
		f.Resource = &k.resource
	}
	return f
}

// runCounter counts the runs of lists.
type runCounter struct {
	*reader
	ended    *records.Cached[storage.EndedRuns]
	filtered *records.Keyed[countedFilter, storage.RunCount]
}

func newRunCounter(r *reader) *runCounter {
	return &runCounter{r, newEndedRuns(r.Store), records.NewKeyed(exactLifetime,
		func(ctx context.Context, key countedFilter, _ time.Time) (storage.RunCount, error) {
			return r.Store.CountFiltered(ctx, key.filter(), countedMost)
		})}
}

// runCounts counts the runs of a list by state.
func (r *runCounter) runCounts(ctx context.Context, f storage.RunFilter,
	now time.Time) (c *runCounts, err error) {
	key := newCountedFilter(f)
	filter := key.filter()
	filter.States = []jobs.State{jobs.Waiting, jobs.Running}
	filter.Limit = storage.MaxBatch
	active, err := r.Runs(ctx, filter)
	if err != nil {
		return nil, err
	}
	switch from, until, ok := countable(f, now); {
	case unfiltered(f) && ok:
		c, err = r.countsOfTime(ctx, now, from, until)
	case unfiltered(f) && f.From.IsZero() && f.Until.IsZero():
		c, err = r.countsOfAll(ctx, now)
	default:
		c, err = r.countsOfFilter(ctx, now, key, len(active))
	}
	if err != nil {
		return nil, err
	}
	c.all += len(active)
	for _, run := range active {
		if c.byState != nil {
			c.byState[run.State]++
		}
	}
	if len(active) == storage.MaxBatch {
		c.mayHaveMore(jobs.Waiting, jobs.Running)
	}
	return c, nil
}

// mayHaveMore marks the numbers of states that may be larger.
func (c *runCounts) mayHaveMore(states ...jobs.State) {
	if c.more == nil {
		c.more = make(map[jobs.State]bool)
	}
	for _, state := range states {
		c.more[state] = true
	}
}

// countsOfFilter counts the ended runs that a filter selects, at most countedMost. There are so
// many active runs.
func (r *runCounter) countsOfFilter(ctx context.Context, now time.Time, key countedFilter,
	active int) (*runCounts, error) {
	counted, err := r.filtered.Get(ctx, key, now)
	if err != nil {
		return nil, fmt.Errorf("number of runs: %w", err)
	}
	c := &runCounts{byState: make(map[jobs.State]int)}
	for state, n := range counted.Unsuccessful {
		c.byState[state] = n
		c.all += n
	}
	if key.reason == "" && key.error == "" {
		c.byState[jobs.Succeeded] = max(0, counted.Runs-c.all-active)
		c.all += c.byState[jobs.Succeeded]
		if counted.More {
			c.mayHaveMore(jobs.Succeeded)
		}
	}
	if counted.MoreUnsuccessful {
		c.mayHaveMore(records.UnsuccessfulStates()...)
	}
	return c, nil
}

// countsOfTime counts the ended runs of some quarters of an hour.
func (r *runCounter) countsOfTime(ctx context.Context, now, from,
	until time.Time) (*runCounts, error) {
	h, err := r.Histogram(ctx, now, from, until)
	if err != nil {
		return nil, err
	}
	c := &runCounts{byState: make(map[jobs.State]int),
		histogram: charts.NewHistogram(h.Stored(), h.Part(), until, now)}
	c.histogram.Title, c.histogram.Path = "Ended runs over time", ""
	for _, q := range h.Quarters {
		for state, n := range q.Runs {
			c.byState[state] += n
			c.all += n
		}
	}
	return c, nil
}

// countsOfAll counts the ended runs of the history.
func (r *runCounter) countsOfAll(ctx context.Context, now time.Time) (*runCounts, error) {
	ended, err := r.ended.Get(ctx, now)
	if err != nil {
		return nil, fmt.Errorf("number of runs: %w", err)
	}
	c := &runCounts{all: ended.Runs, about: ended.Estimated}
	if ended.ByState != nil {
		c.byState = make(map[jobs.State]int)
		for state, n := range ended.ByState {
			c.byState[state] = n
		}
	}
	return c, nil
}

// newEndedRuns returns a cache of the number of ended runs. An estimate is asked for again only
// after CacheLifetime.
func newEndedRuns(store storage.Histograms) *records.Cached[storage.EndedRuns] {
	var last storage.EndedRuns // Cached asks for one result at a time
	var at time.Time
	return records.NewCached(exactLifetime,
		func(ctx context.Context, now time.Time) (storage.EndedRuns, error) {
			age := now.Sub(at)
			if last.Estimated && age >= 0 && age < records.CacheLifetime {
				return last, nil
			}
			ended, err := store.EndedRuns(ctx, countedExactly)
			if err == nil {
				last, at = ended, now
			}
			return ended, err
		})
}

// number returns the number of runs in one of the states, or in any if there are none. If atLeast
// is true, there are more. If about is true, the number is estimated. It returns -1 if the number
// is not known.
func (c *runCounts) number(states []jobs.State) (runs int, atLeast, about bool) {
	if len(states) == 0 {
		return c.all, len(c.more) > 0, c.about
	}
	if c.byState == nil {
		return -1, false, false
	}
	for _, state := range states {
		runs += c.byState[state]
		atLeast = atLeast || c.more[state]
		about = about || c.about && state.Final()
	}
	return runs, atLeast, about
}

// brief returns the number of runs in one of the states for a tab, and its title. Both are "" if
// the number is not known.
func (c *runCounts) brief(states []jobs.State) (text, title string) {
	switch runs, atLeast, about := c.number(states); {
	case runs < 0:
		return "", ""
	case about && runs > 0:
		return "~" + words.Brief(runs), "about " + words.About(runs)
	case atLeast:
		return words.Count(runs) + "+", ""
	default:
		return words.Count(runs), ""
	}
}

// total returns the number of runs in one of the states in words, or "" if it is not known.
func (c *runCounts) total(states []jobs.State) string {
	switch runs, atLeast, about := c.number(states); {
	case runs < 0:
		return ""
	case about && runs > 0:
		return "about " + words.About(runs) + " runs"
	case atLeast:
		return words.Count(runs) + "+ runs"
	case runs == 1:
		return "1 run"
	default:
		return words.Count(runs) + " runs"
	}
}

// tooMany reports whether there are certainly too many runs for an action on all of them.
func (c *runCounts) tooMany(states []jobs.State) bool {
	runs, _, about := c.number(states)
	if about { // the action counts them
		return runs > 2*maxMatching
	}
	return runs > maxMatching
}

// count adds the numbers of runs to the tabs.
func (c *runCounts) count(links []runLink) {
	for i, tab := range runTabs() {
		links[i].Count, links[i].Title = c.brief(tab.states)
		if links[i].Count != "0" {
			links[i].Class = tab.class
		}
	}
}
