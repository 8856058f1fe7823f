package grid

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// MaxRows is the number of rows of a page: of jobs and of families. The jobs of an unfolded
	// family are further rows.
	MaxRows = 25
	// MaxJobs is the number of jobs on a page, with those in rows of families.
	MaxJobs = 50
	// RunsOfEach is the number of runs that are read of each job at most: the youngest. If a page
	// has more than 25 jobs, fewer runs of each are read, so that it reads at most 2,500 runs.
	RunsOfEach = 97

	// MaxEnded is the number of runs of each outcome that are considered to find the jobs that have
	// it.
	MaxEnded = 5_000

	// maxOfCell is the number of runs that the store counts in a cell, and maxCounted that in all
	// cells of a page.
	maxOfCell  = 5_000
	maxCounted = 60_000
)

// Grid is the outcomes of jobs by scheduled time.
type Grid struct {
	From   time.Time `json:"from"`
	Until  time.Time `json:"until"`
	Column int       `json:"column_seconds"` // length of a column
	Rows   []JobRow  `json:"jobs"`           // by group, then by name
	// Families are the rows of the page that show several jobs, with names of these jobs.
	Families []*Family `json:"families"`
	// Cut says that more runs than were considered have an outcome of Only. Jobs with such runs may
	// be missing.
	Cut bool `json:"cut,omitempty"`

	Filter Filter          `json:"-"`
	Groups []storage.Group `json:"-"`
	Links  Links           `json:"-"`
	Pager  param.Pager     `json:"-"`

	span     Span
	each     int       // runs of each job that were read at most
	sections []section // of the page
	held     map[string]Held
	now      time.Time
	open     string // a job whose family is unfolded, or ""
}

// Filter is the submitted fields of the filter.
type Filter struct{ Text, Group, Span, Until, Only, Open string }

// Any reports whether jobs are filtered.
func (f Filter) Any() bool { return f.Text+f.Group+f.Only != "" }

// Heading is a time above its columns.
type Heading struct {
	At      time.Time
	Columns int
	Text    string
	Day     bool // the text is a day
}

// Load reads the runs of a page of the selected jobs.
func Load(ctx context.Context, store storage.History, now time.Time, q Query,
	s Selection) (g Grid, next, previous bool, err error) {
	g = Grid{Rows: []JobRow{}, Families: []*Family{}, Column: int(q.span.Column / time.Second),
		span: q.span, open: s.Open, now: now}
	g.From, g.Until = q.at(now)
	if len(q.only.States) > 0 {
		found, err := store.EndedJobs(ctx, storage.EndedJobsFilter{From: g.From, Until: g.Until,
			States: q.only.States, Most: MaxEnded})
		if err != nil {
			return g, false, false, fmt.Errorf("jobs by outcome: %w", err)
		}
		s.keep(found.Names)
		g.Cut = found.More
	}
	g.sections, next, previous = s.page()
	if len(g.sections) == 0 {
		return g, false, previous, nil
	}
	var list []storage.JobState
	for _, section := range g.sections {
		list = append(list, section.jobs...)
	}
	names := make([]string, len(list))
	for i, job := range list {
		names[i] = job.Job
	}
	g.each = runsOfEach(len(list))
	runs, err := store.RunIntervals(ctx, storage.RunIntervalFilter{Jobs: names, From: g.From,
		Until: g.Until, Each: g.each})
	if err != nil {
		return g, false, false, fmt.Errorf("runs: %w", err)
	}
	byJob := make(map[string][]storage.RunInterval)
	for _, run := range runs {
		byJob[run.Job] = append(byJob[run.Job], run)
	}
	if err := g.loadHeld(ctx, &s, list); err != nil {
		return g, false, false, fmt.Errorf("pauses: %w", err)
	}
	for _, job := range list {
		g.Rows = append(g.Rows, newJobRow(job, byJob[job.Job], &g))
	}
	if err := g.count(ctx, store); err != nil {
		return g, false, false, err
	}
	g.foldRows()
	return g, next, previous, nil
}

// count adds the older cells of jobs with more runs than were read. The store counts their runs.
func (g *Grid) count(ctx context.Context, store storage.History) error {
	var parts []storage.JobPart
	for _, row := range g.Rows {
		for _, at := range row.older() {
			parts = append(parts, storage.JobPart{Job: row.Job, From: at,
				Until: at.Add(g.span.Column)})
		}
	}
	if len(parts) == 0 {
		return nil
	}
	counts, err := store.CountRuns(ctx, parts, min(maxOfCell, maxCounted/len(parts)))
	if err != nil {
		return fmt.Errorf("count runs: %w", err)
	}
	active, err := store.Runs(ctx, storage.RunFilter{From: g.From, Until: g.Until,
		States: []jobs.State{jobs.Waiting, jobs.Running}, Limit: storage.MaxBatch})
	if err != nil {
		return fmt.Errorf("active runs: %w", err)
	}
	for i := range g.Rows {
		n := len(g.Rows[i].older())
		g.Rows[i].addCounts(parts[:n], counts[:n], active)
		parts, counts = parts[n:], counts[n:]
	}
	return nil
}

// columns returns the beginnings of the columns.
func (g *Grid) columns() (all []time.Time) {
	for at := g.From; at.Before(g.Until); at = at.Add(g.span.Column) {
		all = append(all, at)
	}
	return all
}

// Headings returns the times above the columns.
func (g *Grid) Headings() (all []Heading) {
	for _, at := range g.columns() {
		if len(all) > 0 && !at.Truncate(g.span.heading).Equal(at) {
			all[len(all)-1].Columns++
			continue
		}
		h := Heading{At: at, Columns: 1, Text: at.Format(g.span.layout),
			Day: g.span.layout == "Jan 2"}
		if !h.Day && at.Hour() == 0 {
			h.Text = at.Format("Jan 2")
		}
		all = append(all, h)
	}
	return all
}

// ColumnWords returns the length of a column in words.
func (g *Grid) ColumnWords() string { return words.Span(g.span.Column) }

// Counted reports whether the store has counted the runs of some cells.
func (g *Grid) Counted() bool {
	for _, row := range g.Rows {
		if row.KnownFrom.After(g.From) {
			return true
		}
	}
	return false
}

// Paused reports whether a cell is that of a pause.
func (g *Grid) Paused() bool {
	for _, row := range g.Rows {
		for _, cell := range row.Cells {
			if cell.Paused {
				return true
			}
		}
	}
	return false
}

// RunsConsidered returns the number of runs of each outcome that are considered at most.
func (*Grid) RunsConsidered() int { return MaxEnded }

// RunsRead returns the number of runs of a job that are read at most.
func (g *Grid) RunsRead() int { return g.each }
