package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// Do runs fn in a fenced transaction of PostgreSQL and commits it. The effects of fn commit at most
// once for each firing. If an earlier attempt has committed them, Do returns nil without calling
// fn. An error of fn rolls back. Do returns these errors of its own:
//   - storage.ErrSuperseded if a conflicting run with a larger token has committed a fenced
//     transaction
//   - ErrEnded if fn ends the transaction
//   - ErrPartial if fn ended the transaction in an earlier attempt
//   - ErrStepRepeated for a second transaction in one attempt, which needs Step
func Do(ctx context.Context, run *jobs.Run, pool *pgxpool.Pool, fn func(tx pgx.Tx) error) error {
	return Step(ctx, run, pool, "", fn)
}

// Step is Do for a job with several transactions: see StepInTx.
func Step(ctx context.Context, run *jobs.Run, pool *pgxpool.Pool, step string,
	fn func(tx pgx.Tx) error) error {
	begin := func(ctx context.Context) (*opened, error) { return beginPgx(ctx, pool, fn) }
	return fenced(ctx, run, step, begin)
}

// Transact is Do without a row in commits: a further attempt calls fn again, as with [Check].
func Transact(ctx context.Context, run *jobs.Run, pool *pgxpool.Pool,
	fn func(tx pgx.Tx) error) error {
	t, err := beginFenced(ctx, run, func(tx Tx) error { return Check(ctx, run, tx) },
		func(ctx context.Context) (*opened, error) { return beginPgx(ctx, pool, fn) })
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.workOnce(ctx); err != nil {
		return err
	}
	if err := t.commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// DoSQL is Do for database/sql.
func DoSQL(ctx context.Context, run *jobs.Run, db *sql.DB, d Dialect,
	fn func(tx *sql.Tx) error) error {
	return StepSQL(ctx, run, db, d, "", fn)
}

// StepSQL is Step for database/sql.
func StepSQL(ctx context.Context, run *jobs.Run, db *sql.DB, d Dialect, step string,
	fn func(tx *sql.Tx) error) error {
	begin := func(ctx context.Context) (*opened, error) { return beginSQL(ctx, db, d, fn) }
	return fenced(ctx, run, step, begin)
}

// opened is an open transaction of Do.
type opened struct {
	tx     Tx
	work   func() error // the function of the caller
	commit func(ctx context.Context) error
	close  func() // rolls back unless it was committed
}

func beginPgx(ctx context.Context, pool *pgxpool.Pool,
	fn func(tx pgx.Tx) error) (*opened, error) {
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return nil, err
	}
	return &opened{tx: Pgx(tx), work: func() error { return fn(tx) }, commit: tx.Commit,
		close: func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
			defer cancel()
			_ = tx.Rollback(ctx) // an error closes the connection, which ends the transaction too
		}}, nil
}

func beginSQL(ctx context.Context, db *sql.DB, d Dialect,
	fn func(tx *sql.Tx) error) (*opened, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	reset, err := limitSession(ctx, conn, d)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	level := sql.LevelReadCommitted
	if d.lockTable != "" {
		level = sql.LevelDefault // its only level is serializable
	}
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		reset()
		return nil, errors.Join(err, conn.Close())
	}
	return &opened{tx: SQL(tx, d), work: func() error { return fn(tx) },
		commit: func(context.Context) error { return tx.Commit() },
		close: func() {
			_ = tx.Rollback()
			reset()
			_ = conn.Close()
		}}, nil
}

// limitSession limits how long a transaction of the session may wait for its client, where a
// transaction cannot limit itself. The returned function undoes this.
func limitSession(ctx context.Context, conn *sql.Conn, d Dialect) (reset func(), err error) {
	if d.readIdle == "" {
		return func() {}, nil
	}
	var before int64
	if err := conn.QueryRowContext(ctx, d.readIdle).Scan(&before); err != nil {
		return nil, fmt.Errorf("limit of idle sessions: %w", err)
	}
	set := func(ctx context.Context, seconds int64) error {
		_, err := conn.ExecContext(ctx, fmt.Sprintf(d.limitIdle, seconds))
		return err
	}
	if err := set(ctx, int64(IdleLimit/time.Second)); err != nil {
		return nil, fmt.Errorf("limit of idle sessions: %w", err)
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
		defer cancel()
		_ = set(ctx, before) // a broken connection does not return to the pool
	}, nil
}

// endLimit bounds a rollback, and the statement that resets a session: a database whose process is
// frozen does not answer.
const endLimit = 5 * time.Second

// fenced runs the transaction of a step.
func fenced(ctx context.Context, run *jobs.Run, step string,
	begin func(context.Context) (*opened, error)) error {
	err := fencedOnce(ctx, run, step, begin)
	if err == nil {
		run.Internal(attempt.NewKey()).CommitStep(step)
	}
	return err
}

// fencedOnce is fenced without a record in the attempt.
func fencedOnce(ctx context.Context, run *jobs.Run, step string,
	begin func(context.Context) (*opened, error)) error {
	c := newCommit(run, step, 0)
	t, err := beginFenced(ctx, run, func(tx Tx) error { return c.begin(ctx, tx) }, begin)
	if isCommitted(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.workOnce(ctx); err != nil {
		return err
	}
	if err := c.end(ctx, t.tx); err != nil {
		return err
	}
	if err := t.commit(ctx); err != nil {
		t.close() // it holds the rows that settle needs
		return settle(ctx, run, step, begin, err)
	}
	return nil
}

// workOnce calls the function of the caller, and returns ErrEnded if that ended the transaction, by
// a statement or by the driver. A savepoint exists only in the transaction that has set it.
func (t *opened) workOnce(ctx context.Context) error {
	d := t.tx.dialect
	if d.ended == nil {
		return t.work()
	}
	if _, err := t.tx.exec(ctx, setSavepoint); err != nil {
		return fmt.Errorf("savepoint of the fenced transaction: %w", err)
	}
	if err := t.work(); err != nil {
		return err
	}
	_, err := t.tx.exec(ctx, releaseSavepoint)
	switch {
	case err == nil:
		return nil
	case hasCode(err, d.ended), errors.Is(err, pgx.ErrTxClosed), errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("%w: %w", ErrEnded, err)
	}
	return fmt.Errorf("end of the fenced transaction: %w", err)
}

// beginFenced begins a transaction and makes the pass. It begins again after a deadlock, and after
// the insertion of new names: the job has executed nothing yet.
func beginFenced(ctx context.Context, run *jobs.Run, pass func(tx Tx) error,
	begin func(context.Context) (*opened, error)) (*opened, error) {
	added := false
	for {
		t, err := begin(ctx)
		if err != nil {
			return nil, fmt.Errorf("fenced transaction: %w", err)
		}
		// A lock on the whole table makes all transactions wait for each other anyway.
		t.tx.knownOnly = !added && t.tx.dialect.lockTable == ""
		err = pass(t.tx)
		if err == nil {
			return t, nil
		}
		t.close()
		if errors.Is(err, errNewName) {
			if err = addNames(ctx, run, begin); err == nil {
				added = true
				continue
			}
		}
		if !hasCode(err, t.tx.dialect.retryable) {
			return nil, err
		}
		// a random time, so that two transactions do not meet again
		if sleep.For(ctx, 10*time.Millisecond+rand.N(40*time.Millisecond)) != nil {
			return nil, err
		}
	}
}

// hasCode reports whether the error has one of the SQLSTATEs, or begins with one of the texts.
func hasCode(err error, codes []string) bool {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return slices.Contains(codes, coded.SQLState())
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		if slices.ContainsFunc(codes, func(beginning string) bool {
			return strings.HasPrefix(cause.Error(), beginning)
		}) {
			return true
		}
	}
	return false
}

// settlePolicy outlasts IdleLimit: until then, a transaction whose client is gone may hold the
// rows.
var settlePolicy = retry.Policy{Delay: 50 * time.Millisecond, MaxDelay: 2 * time.Second,
	Elapsed: IdleLimit + 15*time.Second, Backoff: retry.Exponential}

// settle finds out the fate of a transaction whose commit failed with cause. Its pass waits until
// that transaction has ended. It returns nil if the transaction was committed.
func settle(ctx context.Context, run *jobs.Run, step string,
	begin func(context.Context) (*opened, error), cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settlePolicy.Elapsed)
	defer cancel()
	var answer error
	err := retry.Do(ctx, settlePolicy, func(ctx context.Context) error {
		t, err := begin(ctx)
		if err != nil {
			return err
		}
		defer t.close()
		answer = newCommit(run, step, 1).begin(ctx, t.tx)
		if isCommitted(answer) || errors.Is(answer, ErrPartial) ||
			errors.Is(answer, storage.ErrSuperseded) {
			return nil
		}
		return answer
	})
	switch {
	case err != nil:
		return fmt.Errorf("commit with a lost reply: %w: %w", cause, err)
	case isCommitted(answer):
		return nil
	case answer != nil:
		return fmt.Errorf("commit: %w: %w", cause, answer)
	}
	return fmt.Errorf("commit: %w", cause)
}
