package grid

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Cell is the runs of a job that were scheduled within one column.
type Cell struct {
	From  time.Time          `json:"from"`           // beginning of the column
	State jobs.State         `json:"state"`          // the worst outcome
	Runs  map[jobs.State]int `json:"runs"`           // by state, without zeros
	More  bool               `json:"more,omitempty"` // there are more runs

	job         string        // or the name of a family
	length      time.Duration // of the column
	run         uuid.UUID     // the youngest; zero if the store has counted the runs
	first, last time.Time     // when the oldest and the youngest were created, at most
	counted     bool          // the store has counted runs
	worst       []string      // of a family: the jobs with the worst outcome
}

// worstFirst returns the states in the order in which they decide about a cell.
func worstFirst() []jobs.State {
	return []jobs.State{jobs.Lost, jobs.Failed, jobs.TimedOut, jobs.Missed, jobs.Skipped,
		jobs.Waiting, jobs.Running, jobs.Cancelled, jobs.Succeeded}
}

// severity returns the place of a state in the order in which states decide about a cell.
func severity(state jobs.State) int { return slices.Index(worstFirst(), state) }

func (c *Cell) count(state jobs.State, runs int) {
	if c.Runs == nil {
		c.Runs = make(map[jobs.State]int)
	}
	c.Runs[state] += runs
}

func (c *Cell) add(run storage.RunInterval) {
	c.count(run.State, 1)
	if c.State == "" || severity(run.State) < severity(c.State) {
		c.State = run.State
	}
	if c.last.IsZero() || run.CreatedAt.After(c.last) {
		c.last, c.run = run.CreatedAt, run.Run
	}
	if c.first.IsZero() || run.CreatedAt.Before(c.first) {
		c.first = run.CreatedAt
	}
}

// setWorst sets the worst outcome of counted runs.
func (c *Cell) setWorst() {
	for _, state := range worstFirst() {
		if c.Runs[state] > 0 {
			c.State = state
			return
		}
	}
}

func (c *Cell) all() (runs int) {
	for _, n := range c.Runs {
		runs += n
	}
	return runs
}

// Path returns the address of the run, or of the list of the runs of the cell. The list has exactly
// these runs, unless the cell is that of a family or has runs that the store has counted.
func (c *Cell) Path() string {
	if c.all() == 1 && c.run != uuid.Nil {
		return param.RunPath(c.run)
	}
	return param.Address("/runs", url.Values{"job": {c.job},
		"from":  {c.first.UTC().Format(time.RFC3339Nano)},
		"until": {c.last.Add(time.Microsecond).UTC().Format(time.RFC3339Nano)}})
}

// Text returns the mark of the cell: the number of runs with the worst outcome if there are several
// that did not succeed, otherwise a sign of the outcome.
func (c *Cell) Text() string {
	if n := c.Runs[c.State]; n > 1 && c.State != jobs.Succeeded {
		return strconv.Itoa(n)
	}
	switch c.State {
	case jobs.Failed, jobs.TimedOut:
		return "×"
	case jobs.Lost:
		return "!"
	case jobs.Skipped:
		return "–"
	case jobs.Missed:
		return "○"
	case jobs.Cancelled:
		return "c"
	case jobs.Running:
		return "▸"
	}
	return ""
}

// shownWorst is the number of jobs of a family that the title of a cell names.
const shownWorst = 3

// Title returns the job, the time and the outcomes in words. For a family it names the jobs with
// the worst outcome, unless it is that all runs succeeded.
func (c *Cell) Title() string {
	var parts []string
	for _, state := range jobs.States() {
		if n := c.Runs[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, words.State(state)))
		}
	}
	if c.More {
		parts = append(parts, "and more")
	}
	title := fmt.Sprintf("%s, %s, %s: %s", words.Cut(c.job, 100), words.UTC(c.From),
		words.Span(c.length), strings.Join(parts, ", "))
	if len(c.worst) == 0 || c.State == jobs.Succeeded {
		return title
	}
	var names []string
	for _, job := range c.worst[:min(len(c.worst), shownWorst)] {
		names = append(names, words.Cut(job, 60))
	}
	if more := len(c.worst) - len(names); more > 0 {
		names = append(names, words.Figure(more, "other job", "other jobs"))
	}
	return fmt.Sprintf("%s; %s: %s", title, words.State(c.State), strings.Join(names, ", "))
}
