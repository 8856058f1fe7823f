package grid

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Held is the scheduled times of a job that an active pause holds back: those after Since.
type Held struct {
	Since time.Time
	Next  func(after time.Time) time.Time // the next scheduled time; zero: none
}

// HeldBack returns what active pauses hold back, by job. It leaves out jobs of which this is not
// known.
type HeldBack func(ctx context.Context, paused []storage.JobState) (map[string]Held, error)

// loadHeld asks for the scheduled times of the paused jobs.
func (g *Grid) loadHeld(ctx context.Context, s *Selection, list []storage.JobState) (err error) {
	var paused []storage.JobState
	for _, job := range list {
		if job.Paused {
			paused = append(paused, job)
		}
	}
	if len(paused) > 0 && s.HeldBack != nil {
		g.held, err = s.HeldBack(ctx, paused)
	}
	return err
}

// addHeld marks the cells of scheduled times that have no run, because a pause holds them back. It
// looks at one scheduled time of each column, unless this time has a run.
func (r *JobRow) addHeld(held Held, runs []storage.RunInterval, byColumn map[time.Time]*Cell,
	g *Grid) {
	if held.Next == nil {
		return
	}
	known := make(map[int64]bool, len(runs))
	for _, run := range runs {
		known[run.ScheduledAt.UnixNano()] = true
	}
	after := held.Since
	if first := r.KnownFrom.Add(-1); after.Before(first) {
		after = first
	}
	for {
		at := held.Next(after)
		if at.IsZero() || at.After(g.now) || !at.Before(g.Until) || !at.After(after) {
			return
		}
		if after = at; known[at.UnixNano()] {
			continue
		}
		column := at.UTC().Truncate(g.span.Column)
		after = column.Add(g.span.Column - 1)
		cell := byColumn[column]
		if cell == nil {
			cell = &Cell{From: column, job: r.Job, length: g.span.Column}
			byColumn[column] = cell
			r.Cells = append(r.Cells, cell)
		}
		cell.Paused, cell.heldJob, cell.heldAt = true, r.Job, at
	}
}
