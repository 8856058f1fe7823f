package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/batch"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// RunStatements shares transactions between concurrent runs, and records their ends in the runs.
func TestConcurrentStatementsShareTransactions(t *testing.T) {
	t.Parallel()
	scripts := make([][]string, 20)
	for i := range scripts {
		scripts[i] = []string{insertOne}
	}
	s := newSharing(t, scripts...)
	var all sync.WaitGroup
	for _, r := range s.runs {
		all.Go(func() {
			rows, err := s.a.RunStatements(t.Context(), r.run,
				storage.Script{Statements: r.statements, Share: true})
			if err != nil || !slices.Equal(rows, []int64{1}) ||
				r.run.Internal(attempt.NewKey()).Completed() != "succeeded" ||
				string(r.run.Result()) != `{"rows_affected":[1]}` ||
				r.run.OutputText() != "statement 1: INSERT 0 1\n" {
				t.Errorf("got rows %v, error %v, result %s, output %q", rows, err,
					r.run.Result(), r.run.OutputText())
			}
			r.committed = true
		})
	}
	all.Wait()
	s.expectCommitted(slices.Repeat([]bool{true}, len(scripts))...)
	ids := s.transactions()
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); n == len(scripts) {
		t.Errorf("%d transactions for as many runs", n)
	}
}

// Runs that take long or fail one after the other do not delay the others for long.
func TestCallOfShareEndsSoon(t *testing.T) {
	t.Parallel()
	for _, sleep := range []string{"SELECT pg_sleep(0.15)", "SELECT pg_sleep(20)"} {
		t.Run(sleep, func(t *testing.T) {
			slow := []string{insertOne, sleep}
			s := newSharing(t, slow, slow, slow, slow, []string{insertOne})
			s.a.sharer.limits = newSharedLimits()
			s.a.sharer.share(t.Context(), s.runs)
			if s.runs[4].committed {
				t.Error("the last run has had its turn")
			}
		})
	}
}

// After its statements have failed or taken long, a job has transactions of its own for a while.
func TestJobSharesNoTransactionForAWhile(t *testing.T) {
	s := newSharing(t, []string{insertOne}, []string{insertOne, "SELECT 1/0"},
		[]string{insertOne, "SELECT pg_sleep(0.6)"}, []string{insertOne, "SELECT pg_sleep(20)"})
	s.a.sharer.share(t.Context(), s.runs)
	for i, want := range []bool{true, false, false, false} {
		if got := s.a.sharer.mayShare(s.runs[i].run.Job); got != want {
			t.Errorf("run %d: the job may share is %t, want %t", i, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		sh := newSharer(&Store{log: zerolog.Nop()})
		sh.exclude("a")
		time.Sleep(unsharedFor)
		if sh.mayShare("a") {
			t.Error("job a may share before its time is over")
		}
		time.Sleep(time.Nanosecond)
		if !sh.mayShare("a") || !sh.mayShare("b") {
			t.Error("job a or b may not share")
		}
		for i := range maxUnshared + 1 {
			sh.exclude(fmt.Sprint(i))
		}
		if n := len(sh.unshared); n > maxUnshared {
			t.Errorf("%d jobs are kept, want at most %d", n, maxUnshared)
		}
	})
}

// A run whose context ends before its shared transaction begins does not wait for it.
func TestContextEndsBeforeASharedTransaction(t *testing.T) {
	t.Parallel()
	s := newSharing(t, []string{insertOne}, []string{insertOne})
	store, err := Open(t.Context(), Options{URL: s.url, WorkConnections: 1, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	store.sharer.limits = s.a.sharer.limits
	conn, release, err := store.work.lease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	markReset(conn.Conn())
	first := make(chan error, 1)
	go func() { first <- store.sharer.ask(s.runs[0]) }()
	for !s.runs[0].taken.Load() {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	s.runs[1].ctx = ctx
	second := make(chan error, 1)
	go func() { second <- store.sharer.ask(s.runs[1]) }()
	cause := errors.New("cancelled by anna")
	cancel(cause)
	if err := <-second; !errors.Is(err, cause) {
		t.Errorf("got error %v, want %v", err, cause)
	}
	release()
	if err := <-first; err != nil {
		t.Error(err)
	}
	s.runs[1].ctx = t.Context()
	store.sharer.share(t.Context(), s.runs[1:]) // as if the call had gathered the run before
	s.expectCommitted(true, false)
}

// If the context of a run ends while a call of share begins, the call may leave the run out, and
// end before ask notices the end of the context. The error still says why the context has ended.
func TestShareLeavesOutARunWhoseContextEnds(t *testing.T) {
	t.Parallel()
	s := newSharing(t, []string{insertOne})
	cause := errors.New("cancelled by anna")
	ctx, cancel := context.WithCancelCause(t.Context())
	s.a.sharer.calls = batch.New(batch.Options[*sharedRun, struct{}]{Most: 1, Timeout: time.Hour,
		Send: func(ctx context.Context, runs []*sharedRun) ([]struct{}, error) {
			runs[0].taken.Store(true) // by the end of its context
			s.a.sharer.share(ctx, runs)
			cancel(cause)
			return make([]struct{}, 1), nil
		}})
	if _, err := s.a.RunStatements(ctx, s.runs[0].run, storage.Script{
		Statements: s.runs[0].statements, Share: true}); !errors.Is(err, cause) {
		t.Errorf("got error %v, want %v", err, cause)
	}
	s.expectCommitted(false)
}

// A run whose context ends later waits for the result.
func TestContextEndsDuringASharedTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		committing := make(chan struct{})
		sh := newSharer(&Store{log: zerolog.Nop()})
		sh.calls = batch.New(batch.Options[*sharedRun, struct{}]{Most: 1, Timeout: time.Hour,
			Send: func(_ context.Context, runs []*sharedRun) ([]struct{}, error) {
				runs[0].taken.Store(true)
				<-committing
				return make([]struct{}, 1), nil
			}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- sh.ask(&sharedRun{ctx: ctx}) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("ask returned %v during the commit", err)
		default:
		}
		close(committing)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestNotPermittedInASharedTransaction(t *testing.T) {
	t.Parallel()
	const unlessShared = "INSERT INTO $t SELECT 1 WHERE current_setting('lock_timeout') = '0'"
	s := newSharing(t, []string{insertOne, "COMMIT"}, []string{unlessShared},
		[]string{unlessShared})
	share := func(i int) error {
		_, err := s.a.RunStatements(t.Context(), s.runs[i].run,
			storage.Script{Statements: s.runs[i].statements, Share: true})
		return err
	}
	if err := share(0); !errors.Is(err, ErrTransactionControl) {
		t.Errorf("got error %v, want ErrTransactionControl", err)
	}
	// Only a transaction of its own saves the state of the job.
	if err := s.runs[1].run.Save(7); err != nil {
		t.Fatal(err)
	}
	if err := share(1); err != nil {
		t.Fatal(err)
	}
	s.a.sharer.exclude(s.runs[2].run.Job)
	if err := share(2); err != nil {
		t.Fatal(err)
	}
	s.runs[1].committed, s.runs[2].committed = true, true
	s.expectCommitted(false, true, true)
	if saved, err := s.a.Saved(t.Context(), s.runs[1].run.Job); err != nil || string(saved) != "7" {
		t.Errorf("saved %s, %v, want 7", saved, err)
	}
}
