package jobs

import (
	"context"
	"time"

	"github.com/google/uuid"
)

const (
	// WatchLasts is how long a run stays watched after a client has looked at it.
	WatchLasts = 15 * time.Second
	// MaxWatchedOutput is how much of the output of a running run is stored, in bytes, from its
	// end.
	MaxWatchedOutput = 16 << 10

	// the interval in which a replica stores the output of watched runs
	watchedEvery = 2 * time.Second
	maxWatched   = 20 // the most runs of a replica whose output is stored at a time
)

// Output is the output of a running run so far.
type Output struct {
	Token Token
	Text  string // valid UTF-8 without NUL, at most MaxWatchedOutput
}

// Watching shows the output of running runs. The output of a run that nobody watches is stored only
// when it ends.
type Watching interface {
	// Watch marks the run as watched for WatchLasts from now. Its replica learns of it with its
	// ControlState. It writes nothing if the previous mark lasts for at least half of that time,
	// nor for a run that does not run.
	Watch(ctx context.Context, run uuid.UUID) error
	// SaveOutput stores the output of runs so far, in place of the previous one. It leaves out runs
	// whose claims are gone or are being given back. The output at the end of a run replaces it.
	SaveOutput(ctx context.Context, outputs []Output) error
}

// watched stores the output of this replica's watched runs. It belongs to the goroutine of
// controlState.run.
type watched struct {
	store   Watching
	active  *active
	written map[Token]int64 // the bytes written when the output was last stored
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
	written := make(map[Token]int64, len(tails))
	var outputs []Output
	for token, tail := range tails {
		written[token] = tail.Written()
		if written[token] > w.written[token] {
			outputs = append(outputs, Output{Token: token, Text: tail.Text(MaxWatchedOutput)})
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
