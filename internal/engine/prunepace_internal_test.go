package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// history is a history from which batches of 500 runs are deleted.
type history struct {
	age    time.Duration // of its oldest run, beyond the time for which runs are kept
	rate   float64       // runs that were created in a second
	batch  time.Duration // that a batch takes
	kept   bool          // the first batch visits a run that is a year older
	bursts time.Duration // all runs of this time were created at its end; 0: they were not
}

// pruned prunes the history in one round, which it gives up after limit. It returns the time that
// the round took, the part of it in which batches ran, and the greatest age of the oldest run after
// the first two minutes.
func (h history) pruned(t *testing.T, limit time.Duration) (took time.Duration, busy float64,
	oldest time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		pace, worked := newPrunePace(), time.Duration(0)
		visited := start.Add(-h.age) // in time of creation
		for first := true; time.Since(start) < limit; first = false {
			time.Sleep(h.batch)
			worked += h.batch
			last := visited.Add(time.Duration(float64(pruneBatch) / h.rate * float64(time.Second)))
			if visited = last; last.After(time.Now()) {
				break
			}
			if time.Since(start) > 2*time.Minute {
				oldest = max(oldest, time.Since(visited))
			}
			switch {
			case first && h.kept:
				last = last.AddDate(-1, 0, 0)
			case h.bursts > 0:
				last = last.Truncate(h.bursts)
			}
			time.Sleep(pace.pause(h.batch, &storage.RunCursor{CreatedAt: last, ID: uuid.New()}))
		}
		took = time.Since(start)
		busy = float64(worked) / float64(took)
	})
	return took, busy, oldest
}

func TestPruningKeepsUpWithTheRuns(t *testing.T) {
	const month = 30 * 24 * time.Hour
	for name, c := range map[string]struct {
		history
		within time.Duration // the round is over
		busy   float64       // at most this part of the time
		oldest time.Duration // 0: as old as at first
	}{
		"few runs": {history{time.Minute, 100, 25 * time.Millisecond, false, 0},
			5 * time.Second, 0.25, 0},
		"a month of few runs": {history{month, 32, 25 * time.Millisecond, false, 0},
			8 * time.Hour, 0.21, 0},
		"many runs": {history{time.Minute, 10_000, 20 * time.Millisecond, false, 0},
			10 * time.Minute, 0.51, 3 * time.Minute},
		"a backlog of an hour": {history{time.Hour, 10_000, 20 * time.Millisecond, false, 0},
			6 * time.Hour, 0.51, 62 * time.Minute},
		"an older run that stays": {history{time.Minute, 10_000, 20 * time.Millisecond, true, 0},
			10 * time.Minute, 0.51, 3 * time.Minute},
		"as many as possible": {history{time.Minute, 24_000, 20 * time.Millisecond, false, 0},
			time.Hour, 1, 3 * time.Minute},
		"bursts of few runs": {history{time.Hour, 200, 25 * time.Millisecond, false, time.Minute},
			4 * time.Minute, 0.21, 0},
		"bursts of many runs": {history{time.Minute, 10_000, 20 * time.Millisecond, false,
			10 * time.Second}, 10 * time.Minute, 0.51, 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			took, busy, oldest := c.pruned(t, 2*c.within)
			if took > c.within || busy > c.busy || oldest > max(c.oldest, c.age) {
				t.Errorf("it took %s, %.0f %% of it for batches, and the oldest run was %s "+
					"older than runs may be; want %s, %.0f %% and %s", took, 100*busy, oldest,
					c.within, 100*c.busy, max(c.oldest, c.age))
			}
		})
	}
}
