package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// scriptedBackfill answers each reading of a backfill with the next of the answers.
type scriptedBackfill struct {
	cluster
	answers []storage.Backfill
	errs    []error
	pauses  []storage.Pause
}

func (b *scriptedBackfill) Pauses(context.Context) ([]storage.Pause, error) {
	return b.pauses, nil
}

func (b *scriptedBackfill) Jobs(context.Context) ([]admin.Job, error) {
	return []admin.Job{{Name: "rollup", Pauses: b.pauses}, {Name: "other"},
		{Name: "gone", Removed: true}}, nil
}

func (b *scriptedBackfill) Backfill(context.Context, uuid.UUID) (storage.Backfill, error) {
	next, err := b.answers[0], b.errs[0]
	b.answers, b.errs = b.answers[1:], b.errs[1:]
	return next, err
}

// TestBackfillsOfPausedJobs checks that the list and a command that waits say why a backfill adds
// no runs.
func TestBackfillsOfPausedJobs(t *testing.T) {
	active := storage.Backfill{Job: "rollup", State: storage.BackfillActive, Times: 2}
	other, ended := active, active
	other.Job, ended.State = "other", storage.BackfillCompleted
	in := &scriptedBackfill{pauses: []storage.Pause{
		{Target: storage.Target{Kind: storage.TargetGroup, Name: "night"}}}}
	const why = "paused: group night"
	for _, c := range []struct {
		of   storage.Backfill
		want int
	}{{active, 1}, {other, 0}, {ended, 0}} {
		var out bytes.Buffer
		line := &commandLine{out: &out}
		if err := line.printBackfills(t.Context(), in, c.of, c.of); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), why); got != c.want {
			t.Errorf("%s, %s: got\n%s\nwant %q %d times", c.of.Job, c.of.State, &out, why, c.want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		in.answers, in.errs = []storage.Backfill{ended}, []error{nil}
		var notes bytes.Buffer
		line := &commandLine{out: &bytes.Buffer{}, errOut: &notes,
			getenv: func(string) string { return "" }}
		if err := line.awaitBackfill(t.Context(), in, active); err != nil {
			t.Fatal(err)
		}
		const want = "scheduler: job rollup is paused: group night; the backfill continues after " +
			"the resume\n"
		if notes.String() != want {
			t.Errorf("got %q, want %q", &notes, want)
		}
	})
}

// TestJobOfOtherReplicas checks the advice for a job that the store has and this configuration does
// not.
func TestJobOfOtherReplicas(t *testing.T) {
	in := &scriptedBackfill{}
	missing := fmt.Errorf("job: %w in this configuration; use a replica that has the job",
		storage.ErrNotFound)
	for job, want := range map[string]string{
		"rollup": missing.Error() + ": give its address in --server",
		"rolup":  `job "rolup": not found in the store; did you mean "rollup"?`,
		"gone":   `job "gone": not found in the store; check that a replica with this job runs`,
	} {
		if err := withJobAdvice(t.Context(), in, missing, job); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", job, err, want)
		}
	}
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
