package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// TestCommittedWorkIsASuccess checks how an attempt ends whose handler returns ErrCommitted.
func TestCommittedWorkIsASuccess(t *testing.T) {
	wrapped := fmt.Errorf("load regions: %w", storage.ErrCommitted)
	for name, c := range map[string]struct {
		handler jobs.HandlerFunc
		state   jobs.State
		reason  jobs.Reason
	}{
		"returned": {func(context.Context, *jobs.Run) error { return storage.ErrCommitted },
			jobs.Succeeded, ""},
		"wrapped": {func(context.Context, *jobs.Run) error { return wrapped }, jobs.Succeeded, ""},
		"joined with no other error": {func(context.Context, *jobs.Run) error {
			return fmt.Errorf("work: %w", errors.Join(wrapped, nil))
		}, jobs.Succeeded, ""},
		"wrapped with a second error": {func(context.Context, *jobs.Run) error {
			return fmt.Errorf("work: %w, %w", wrapped, io.EOF)
		}, jobs.Failed, ""},
		"returned after the timeout": {func(ctx context.Context, _ *jobs.Run) error {
			<-ctx.Done()
			return wrapped
		}, jobs.Succeeded, ""},
		"joined with another error": {func(context.Context, *jobs.Run) error {
			return errors.Join(wrapped, errors.New("mail was not sent"))
		}, jobs.Failed, ""},
		"panic": {func(context.Context, *jobs.Run) error { panic(wrapped) }, jobs.Failed,
			reasons.Panic},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run := jobs.NewRun("load", time.Now(), zerolog.Nop())
				got := engine.CallHandler(t.Context(), c.handler, run, time.Minute)
				if got.State != c.state || got.Reason != c.reason ||
					(got.Err == nil) != (c.state == jobs.Succeeded) {
					t.Errorf("got %+v, want %s", got, c.state)
				}
				succeeded := c.state == jobs.Succeeded
				if out := run.OutputText(); succeeded && !strings.Contains(out,
					storage.ErrCommitted.Error()) {
					t.Errorf("got the output %q, want the reason", out)
				}
			})
		})
	}
}

// TestErrorAfterTheCompletionIsLogged checks that the log has an error that a handler returns after
// its own transaction has completed the run.
func TestErrorAfterTheCompletionIsLogged(t *testing.T) {
	for _, c := range []struct {
		err    error
		logged bool
	}{{nil, false}, {errors.New("mail was not sent"), true}, {storage.ErrCommitted, false}} {
		var log strings.Builder
		run := jobs.NewRun("load", time.Now(), zerolog.New(&log))
		got := engine.CallHandler(t.Context(), func(_ context.Context, run *jobs.Run) error {
			run.Internal(attempt.NewKey()).Complete(string(jobs.Succeeded))
			return c.err
		}, run, 0)
		if got.State != jobs.Succeeded || got.Err != nil {
			t.Errorf("%v: got %+v, want a success", c.err, got)
		}
		want := ""
		if c.logged {
			want = `{"level":"warn","error":"mail was not sent",` +
				`"message":"handler failed after its run was completed"}` + "\n"
		}
		if log.String() != want {
			t.Errorf("%v: got the log %q, want %q", c.err, log.String(), want)
		}
	}
}

// TestFurtherAttemptFindsTheCommit fails the first attempt, as after a lost reply to a commit. The
// second attempt ends the run.
func TestFurtherAttemptFindsTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		load := jobs.Handle("work", func(_ context.Context, run *jobs.Run, _ struct{}) error {
			if run.Attempt == 1 {
				return errors.New("commit: connection reset")
			}
			return fmt.Errorf("load regions: %w", storage.ErrCommitted)
		})
		j := once(t, "job", 10*time.Second, "orders")
		j.Retry = retry.Policy{Attempts: 3, Delay: time.Second}
		stop := c.start(c.options("a", []jobs.Registration{load}, j))
		time.Sleep(time.Minute)
		stop()
		runs := c.runs("job")
		if len(runs) != 1 || runs[0].State != jobs.Succeeded || runs[0].Attempt != 2 {
			t.Errorf("got %+v, want one run that succeeded in its second attempt", runs)
		}
	})
}
