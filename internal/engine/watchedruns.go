package engine

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// the interval in which a replica stores the output of watched runs
	watchedEvery = 2 * time.Second
	maxWatched   = 20 // the most runs of a replica whose output is stored at a time
)

// watched stores the output of this replica's watched runs. It belongs to the goroutine of
// controlState.run.
type watched struct {
	store   outputSaver
	active  *active
	written map[jobs.Token]int64 // the bytes written when the output was last stored
	at      time.Time
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
	tails := w.active.tails(runs[:min(len(runs), maxWatched)])
	written := make(map[jobs.Token]int64, len(tails))
	var outputs []storage.Output
	for token, tail := range tails {
		written[token] = tail.Written()
		if written[token] > w.written[token] {
			outputs = append(outputs, storage.Output{Token: token,
				Text: tail.Text(storage.MaxWatchedOutput)})
		}
	}
	if len(outputs) > 0 {
		if err := w.store.SaveOutput(ctx, outputs); err != nil {
			return err
		}
	}
	w.written = written
	return nil
}
