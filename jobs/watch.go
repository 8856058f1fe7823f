package jobs

import (
	"context"
	"time"

	"github.com/google/uuid"
)

const (
	// WatchLasts is for how long somebody who has looked at a run is taken to be
	// looking still.
	WatchLasts = 15 * time.Second
	// MaxWatchedOutput is how much of a running run's output is kept, in bytes:
	// the end of it.
	MaxWatchedOutput = 16 << 10

	watchedEvery = 2 * time.Second // a replica keeps what its watched runs write
	maxWatched   = 20              // runs of a replica whose output is kept at a time
)

// Output is what a running run has written so far.
type Output struct {
	Token Token
	Text  string // valid UTF-8 without NUL, at most MaxWatchedOutput
}

// Watching shows what a run writes while it runs. Nothing is kept of a run that
// nobody looks at until it ends, so that a thousand runs cost no more.
type Watching interface {
	// Watch has the run's replica told, with its Orders, that somebody looks at the
	// run, for WatchLasts from now. It writes nothing while the watch before has
	// more than half of that left, nor for a run that does not run.
	Watch(ctx context.Context, run uuid.UUID) error
	// SaveOutput keeps what runs have written so far in the place of what was
	// kept before; one whose claim is gone, or is being given back, is passed over. What a run
	// has written when it ends takes the place of that.
	SaveOutput(ctx context.Context, outputs []Output) error
}

// watched are the runs of this replica that somebody looks at. It belongs to
// the orders' goroutine.
type watched struct {
	store  Watching
	active *active
	kept   map[Token]int64 // how far each was written when it was kept
	at     time.Time
}

// keep keeps what the runs have written since they were kept last.
func (w *watched) keep(ctx context.Context, runs []uuid.UUID) error {
	if len(runs) == 0 {
		clear(w.kept)
		return nil
	}
	if time.Since(w.at) < watchedEvery {
		return nil
	}
	w.at = time.Now()
	tails := w.active.tails(runs[:min(len(runs), maxWatched)])
	written := make(map[Token]int64, len(tails))
	var outputs []Output
	for token, tail := range tails {
		written[token] = tail.Written()
		if written[token] > w.kept[token] {
			outputs = append(outputs, Output{Token: token, Text: tail.Text(MaxWatchedOutput)})
		}
	}
	if len(outputs) > 0 {
		if err := w.store.SaveOutput(ctx, outputs); err != nil {
			return err
		}
	}
	w.kept = written
	return nil
}
