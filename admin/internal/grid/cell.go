package grid

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Cell is the runs of a job that were scheduled within one column.
type Cell struct {
	From time.Time `json:"from"` // beginning of the column
	// State is the worst outcome. It is absent if there are no runs, because a pause that has not
	// ended holds them back.
	State jobs.State         `json:"state,omitempty"`
	Runs  map[jobs.State]int `json:"runs"`           // by state, without zeros
	More  bool               `json:"more,omitempty"` // there are more runs
	// Paused says that a pause held scheduled times of the column back. If the pause has ended,
	// their runs are missed and count in Runs.
	Paused bool `json:"paused,omitempty"`

	job         string        // or the name of a family
	length      time.Duration // of the column
	run         uuid.UUID     // the youngest; zero if the store has counted the runs
	first, last time.Time     // when the oldest and the youngest were created, at most
	counted     bool          // the store has counted runs
	worst       []string      // of a family: the jobs with the worst outcome
	missed      int           // runs that were missed because of a pause, as far as it is known
	shown       jobs.State    // the worst outcome, or paused
	// A scheduled time that a pause holds back, and its job.
	heldJob string
	heldAt  time.Time
}

// paused is the outcome of scheduled times that a pause held back.
const paused jobs.State = "paused"

// worstFirst returns the states in the order in which they decide about a cell.
func worstFirst() []jobs.State {
	return []jobs.State{jobs.Lost, jobs.Failed, jobs.TimedOut, jobs.Missed, jobs.Skipped,
		jobs.Waiting, jobs.Running, jobs.Cancelled, paused, jobs.Succeeded}
}

func (c *Cell) count(state jobs.State, runs int) {
	if c.Runs == nil {
		c.Runs = make(map[jobs.State]int)
	}
	c.Runs[state] += runs
}

func (c *Cell) add(run storage.RunInterval) {
	c.count(run.State, 1)
	if run.State == jobs.Missed && run.Reason == reasons.Paused {
		c.missed++
		c.Paused = true
	}
	if c.last.IsZero() || run.CreatedAt.After(c.last) {
		c.last, c.run = run.CreatedAt, run.Run
	}
	if c.first.IsZero() || run.CreatedAt.Before(c.first) {
		c.first = run.CreatedAt
	}
}

// of returns the number of runs with an outcome. Runs that were missed because of a pause are
// paused.
func (c *Cell) of(state jobs.State) int {
	switch state {
	case jobs.Missed:
		return c.Runs[jobs.Missed] - c.missed
	case paused:
		return c.missed
	}
	return c.Runs[state]
}

// setWorst sets the worst outcome, after all runs.
func (c *Cell) setWorst() {
	for _, state := range slices.Backward(worstFirst()) {
		if c.of(state) > 0 {
			c.shown, c.State = state, state
		} else if state == paused && c.Paused {
			c.shown = paused
		}
	}
	if c.State == paused {
		c.State = jobs.Missed
	}
}

func (c *Cell) all() (runs int) {
	for _, n := range c.Runs {
		runs += n
	}
	return runs
}

// Path returns the address of the run, or of the list of the runs of the cell, or of the
// explanation why a scheduled time has no run. The list has exactly
// these runs, unless the cell is that of a family or has runs that the store has counted.
func (c *Cell) Path() string {
	if c.all() == 0 {
		return param.ExplainPath(c.heldJob, c.heldAt)
	}
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
	if n := c.of(c.shown); n > 1 && c.shown != jobs.Succeeded && c.shown != paused {
		return words.Brief(n)
	}
	switch c.shown {
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
	counts := make(map[jobs.State]int)
	for _, state := range jobs.States() {
		counts[state] = c.of(state)
	}
	parts := words.CountsByState(counts)
	switch {
	case c.missed > 0:
		parts = append(parts, words.Count(c.missed)+" missed because of a pause")
	case c.Paused:
		parts = append(parts, "paused")
	}
	if c.More {
		parts = append(parts, "and more")
	}
	title := fmt.Sprintf("%s, %s, %s: %s", words.Cut(c.job, 100), words.UTC(c.From),
		words.Span(c.length), strings.Join(parts, ", "))
	if len(c.worst) == 0 || c.shown == jobs.Succeeded {
		return title
	}
	var names []string
	for _, job := range c.worst[:min(len(c.worst), shownWorst)] {
		names = append(names, words.Cut(job, 60))
	}
	if more := len(c.worst) - len(names); more > 0 {
		names = append(names, words.Figure(more, "other job", "other jobs"))
	}
	return fmt.Sprintf("%s; %s: %s", title, words.State(c.shown), strings.Join(names, ", "))
}
