package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/charts"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// maxCounted is the longest time whose runs a page counts.
const maxCounted = storage.MaxHistogram

// runCounts are the runs that were created within a time, by state.
type runCounts struct {
	byState   map[jobs.State]int
	atLeast   bool // there are more waiting or running runs
	histogram *charts.Histogram
}

// countable returns the time whose runs the store has counted, if the list has no other filter than
// time and states and shows its first page.
func countable(f storage.RunFilter, now time.Time) (from, until time.Time, ok bool) {
	if f.Jobs() != "" || f.Group != "" || f.Replica != "" || f.Reason != "" || f.Error != "" ||
		f.Resource != nil || f.Backfill != uuid.Nil || f.Before != nil || f.After != nil ||
		f.From.IsZero() {
		return from, until, false
	}
	if from, until = f.From, f.Until; until.IsZero() {
		until = storage.QuarterOf(now).Add(storage.QuarterLength)
	}
	ok = storage.QuarterOf(from).Equal(from) && storage.QuarterOf(until).Equal(until) &&
		until.After(from) && until.Sub(from) <= maxCounted
	return from.UTC(), until.UTC(), ok
}

// runCounts counts the runs of the time of a list by state. It returns nil if that would take long.
func (r *reader) runCounts(ctx context.Context, f storage.RunFilter,
	now time.Time) (*runCounts, error) {
	from, until, ok := countable(f, now)
	if !ok {
		return nil, nil
	}
	h, err := r.Histogram(ctx, now, from, until)
	if err != nil {
		return nil, err
	}
	active, err := r.Runs(ctx, storage.RunFilter{States: []jobs.State{jobs.Waiting, jobs.Running},
		From: f.From, Until: f.Until, Limit: storage.MaxBatch})
	if err != nil {
		return nil, err
	}
	c := &runCounts{byState: make(map[jobs.State]int), atLeast: len(active) == storage.MaxBatch,
		histogram: charts.NewHistogram(h.Stored(), h.Part(), until, now)}
	c.histogram.Title, c.histogram.Path = "Ended runs over time", ""
	for _, q := range h.Quarters {
		for state, n := range q.Runs {
			c.byState[state] += n
		}
	}
	for _, run := range active {
		c.byState[run.State]++
	}
	return c, nil
}

// number returns the number of runs in one of the states, or in any if there are none. If atLeast
// is true, there are more.
func (c *runCounts) number(states []jobs.State) (runs int, atLeast bool) {
	for state, n := range c.byState {
		if len(states) == 0 || slices.Contains(states, state) {
			runs += n
			atLeast = atLeast || c.atLeast && !state.Final()
		}
	}
	return runs, atLeast
}

// of returns the number of runs in one of the states, or in any if there are none, in words.
func (c *runCounts) of(states []jobs.State) string {
	runs, atLeast := c.number(states)
	if atLeast {
		return fmt.Sprintf("%d+", runs)
	}
	return strconv.Itoa(runs)
}

// count adds the numbers of runs to the tabs.
func (c *runCounts) count(links []runLink) {
	for i, tab := range runTabs() {
		links[i].Count = c.of(tab.states)
		if links[i].Count != "0" {
			links[i].Class = tab.class
		}
	}
}
