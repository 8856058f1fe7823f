package engine

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// the interval in which a replica stores the output of watched runs
	watchedEvery = 2 * time.Second
	// the most runs of a replica whose output is stored at a time; more runs come in turn
	maxWatched = 20
)

// watched stores the output of this replica's watched runs. It belongs to the goroutine of
// controlState.run.
type watched struct {
	store   outputSaver
	active  *active
	written map[jobs.Token]int64 // the bytes written when the output was last stored
	at      time.Time
	last    uuid.UUID // the last run of the last turn
}

// keep stores new output of the runs.
func (w *watched) keep(ctx context.Context, runs []uuid.UUID) error {
	if len(runs) == 0 {
		clear(w.written)
		return nil
	}
	if time.Since(w.at) < watchedEvery {
		return nil
	}
	w.at = time.Now()
	next := w.next(runs)
	writing := w.active.writing(runs)
	written := make(map[jobs.Token]int64, len(writing))
	var outputs []storage.Output
	for token, running := range writing {
		written[token] = w.written[token]
		if !slices.Contains(next, running.run) {
			continue
		}
		written[token] = running.output.Written()
		if written[token] > w.written[token] {
			outputs = append(outputs, storage.Output{Token: token,
				Text: running.output.Text(storage.MaxWatchedOutput)})
		}
	}
	if len(outputs) > 0 {
		if err := w.store.SaveOutput(ctx, outputs); err != nil {
			return err
		}
	}
	w.written, w.last = written, next[len(next)-1]
	return nil
}

// next returns the runs whose output is stored now. If there are more than maxWatched, all of them
// come in turn.
func (w *watched) next(runs []uuid.UUID) []uuid.UUID {
	if len(runs) <= maxWatched {
		return runs
	}
	begin := slices.Index(runs, w.last) + 1
	return slices.Concat(runs[begin:], runs[:begin])[:maxWatched]
}
