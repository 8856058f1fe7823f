package cli

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// scriptedBackfill answers each reading of a backfill with the next of the answers.
type scriptedBackfill struct {
	cluster
	answers []storage.Backfill
	errs    []error
}

func (b *scriptedBackfill) Backfill(context.Context, uuid.UUID) (storage.Backfill, error) {
	next, err := b.answers[0], b.errs[0]
	b.answers, b.errs = b.answers[1:], b.errs[1:]
	return next, err
}

// TestExitCodesOfAwaitedBackfills checks the exit code for each outcome, also after a time without
// an answer.
func TestExitCodesOfAwaitedBackfills(t *testing.T) {
	active := storage.Backfill{State: storage.BackfillActive, Times: 2}
	completed := storage.Backfill{State: storage.BackfillCompleted, Times: 2, Runs: 2, Succeeded: 2}
	failed := completed
	failed.Succeeded, failed.Unsuccessful = 1, 1
	for name, c := range map[string]struct {
		last storage.Backfill
		err  error
		code int // -1: the error has none of its own
	}{
		"completed":   {completed, nil, 0},
		"with errors": {failed, nil, endedBadly},
		"cancelled":   {storage.Backfill{State: storage.BackfillCancelled}, nil, notExecuted},
		"stopped":     {storage.Backfill{State: storage.BackfillStopped}, nil, notExecuted},
		"gone":        {active, storage.ErrNotFound, -1},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &scriptedBackfill{answers: []storage.Backfill{active, active, c.last},
				errs: []error{nil, storage.ErrUnavailable, c.err}}
			line := &commandLine{out: &bytes.Buffer{}}
			err := line.awaitBackfill(t.Context(), b, active)
			var own *ExitError
			got := 0
			switch {
			case errors.As(err, &own):
				got = own.Code
			case err != nil:
				got = -1
			}
			if got != c.code || c.err != nil && !errors.Is(err, c.err) || len(b.answers) > 0 {
				t.Errorf("%s: got %v with the exit code %d, want %d", name, err, got, c.code)
			}
		})
	}
}
