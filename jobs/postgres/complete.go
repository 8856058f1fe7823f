package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// CompleteInTx is InTx that also records the run as succeeded, in the same transaction. fn should
// be the last step of the handler. If the reply to the commit is lost, CompleteInTx finds out
// whether the transaction committed. It does not run fn again.
func CompleteInTx(ctx context.Context, run *jobs.Run, fn func(tx pgx.Tx) error) error {
	s, err := storeOf(run)
	if err != nil {
		return err
	}
	return s.completeInTx(ctx, run, fn)
}

func (s *Store) completeInTx(ctx context.Context, run *jobs.Run, fn func(tx pgx.Tx) error) error {
	if err := storage.CheckNotCompleted(run); err != nil {
		return wrap("fenced transaction", err)
	}
	return s.fenced(ctx, holderOf(run), func(conn *pgxpool.Conn, tx fencedTx) error {
		if err := fn(tx.Tx); err != nil {
			return err
		}
		committed, err := s.finishAndCommit(ctx, conn, tx, run)
		switch {
		case committed:
		case errors.Is(err, storage.ErrSuperseded), errors.Is(err, ErrTransactionControl):
			return err
		default:
			return s.clearUp(ctx, run, err)
		}
		run.Internal(attempt.NewKey()).Complete(string(jobs.Succeeded))
		return nil
	})
}

// finishAndCommit records the run as succeeded, commits, and resets the session that the job used,
// in one round trip. A failed statement prevents all later ones. If it returns an error, the fate
// of the transaction is certain only if committed is true or the error wraps storage.ErrSuperseded
// or ErrTransactionControl.
func (s *Store) finishAndCommit(ctx context.Context, conn *pgxpool.Conn, tx fencedTx,
	run *jobs.Run) (committed bool, err error) {
	b := &pgx.Batch{}
	tx.queueOwn(b)
	if saved := run.Internal(attempt.NewKey()).Saved(); saved != nil {
		b.Queue(saveOwn, run.Token, run.ID, string(saved))
	}
	b.Queue(endOwnRun, int64(run.Token), rawID(run.ID), output.PlainText(run.OutputText()),
		textOrNull(run.Result())).QueryRow(func(row pgx.Row) error {
		var one int64
		err := row.Scan(&one, nil, nil)
		if isRefused(err) {
			return fmt.Errorf("finish run in its own transaction: %w", storage.ErrSuperseded)
		}
		return err
	})
	return s.commitAndReset(ctx, conn, tx, b)
}

// commitAndReset adds COMMIT and the reset of the session to a batch, and sends it. It reports
// whether the transaction has committed, also if the reset fails.
func (s *Store) commitAndReset(ctx context.Context, conn *pgxpool.Conn, tx fencedTx,
	b *pgx.Batch) (committed bool, err error) {
	b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		err := requireCommit(tag)
		committed = err == nil
		return err
	})
	if s.work.borrowed {
		err = tx.send(ctx, b)
		return committed, err
	}
	for _, statement := range resetSession {
		b.Queue(statement)
	}
	if err = tx.send(ctx, b); err == nil {
		markReset(conn.Conn())
	}
	return committed, err
}

// clearUpPolicy outlasts a short outage: while the result of a commit is unknown, the run must be
// neither repeated nor reported.
var clearUpPolicy = retry.Policy{Delay: 50 * time.Millisecond, MaxDelay: time.Second,
	Elapsed: 10 * time.Second, Backoff: retry.Exponential}

// isAnswer reports whether PostgreSQL has answered a statement or a commit with this error, and so
// has rolled back. Otherwise, the connection was lost.
func isAnswer(err error) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && !strings.HasPrefix(answer.Code, "08") &&
		answer.Code != "57P01"
}

// clearUp finds out the result of a commit whose reply was lost, and marks the run as completed if
// it has committed.
func (s *Store) clearUp(ctx context.Context, run *jobs.Run, cause error) error {
	if isAnswer(cause) {
		return wrap("commit", cause)
	}
	committed, err := s.hasCommitted(ctx, run, cause)
	switch {
	case err != nil:
		return err
	case !committed:
		return wrap("commit", cause)
	}
	run.Internal(attempt.NewKey()).Complete(string(jobs.Succeeded))
	return nil
}

// hasCommitted reports whether the transaction that ends the run has committed. Its lock on the
// claim waits for the transaction to end. If the claim still exists, the transaction did not
// commit. cause is why the reply to the commit was lost.
func (s *Store) hasCommitted(ctx context.Context, run *jobs.Run, cause error) (bool, error) {
	var state jobs.State
	var claimed bool
	err := retry.Do(context.WithoutCancel(ctx), clearUpPolicy, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, clearUpPolicy.Elapsed)
		defer cancel()
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, awaitClaim, run.Token); err != nil {
				return err
			}
			return tx.QueryRow(ctx, claimState, run.ID, run.Token).Scan(&state, &claimed)
		})
	})
	switch {
	case err != nil:
		return false, fmt.Errorf("commit with a lost reply: %w",
			errors.Join(cause, wrap("check claim", err)))
	case !claimed && state != jobs.Succeeded:
		return false, fmt.Errorf("commit with a lost reply: run is %s: %w", state,
			storage.ErrSuperseded)
	}
	return !claimed, nil
}
