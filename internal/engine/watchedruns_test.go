package engine

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// savedTokens is a store that notes of which claims it has output.
type savedTokens map[jobs.Token]bool

func (s savedTokens) SaveOutput(_ context.Context, outputs []storage.Output) error {
	for _, o := range outputs {
		s[o.Token] = true
	}
	return nil
}

// If more runs are watched than are stored at a time, the output of all of them is stored in turn.
func TestOutputOfManyWatchedRunsIsStoredInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 2*maxWatched + 5
		saved := savedTokens{}
		w := &watched{store: saved, active: newActive(), written: map[jobs.Token]int64{}}
		var runs []uuid.UUID
		for i := range n {
			run, token := uuid.Must(uuid.NewV7()), jobs.Token(i+1)
			runs = append(runs, run)
			w.active.add(token, run, func(error) {})
			tail := output.NewTail(100)
			if _, err := tail.Write([]byte("line\n")); err != nil {
				t.Fatal(err)
			}
			w.active.writes(token, tail)
		}
		for _, want := range []int{maxWatched, 2 * maxWatched, n} {
			if err := w.keep(t.Context(), runs); err != nil {
				t.Fatal(err)
			}
			if len(saved) != want {
				t.Errorf("got the output of %d runs, want %d", len(saved), want)
			}
			time.Sleep(watchedEvery)
		}
		// There is no new output.
		clear(saved)
		for range 3 {
			if err := w.keep(t.Context(), runs); err != nil || len(saved) != 0 {
				t.Errorf("got the output of %d runs, %v, want none", len(saved), err)
			}
			time.Sleep(watchedEvery)
		}
		// The last run of a turn ends.
		runs = slices.DeleteFunc(runs, func(run uuid.UUID) bool { return run == w.last })
		if next := w.next(runs); len(next) != maxWatched || next[0] != runs[0] {
			t.Errorf("got %d runs from %s on, want %d from the first one, %s", len(next), next[0],
				maxWatched, runs[0])
		}
	})
}
