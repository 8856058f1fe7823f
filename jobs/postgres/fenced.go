package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	// FOR SHARE lets several transactions of one run coexist, while a deletion of the claim waits
	// for all of them. The check compares the run too, because a restored database draws tokens
	// again. A caller that has only the token is checked by the token alone. The lock assigns the
	// transaction its id in any case. The timeouts apply to the statements that follow. If one is
	// empty, the setting stays. Without a claim nothing is set, because the transaction must then
	// be rolled back.
	readClaim = `SELECT pg_current_xact_id()::text, ` + planAsUsual + `,
		concat(set_config('statement_timeout',
				coalesce(nullif($3::text, ''), current_setting('statement_timeout')), true),
			set_config('idle_in_transaction_session_timeout', coalesce(nullif($4::text, ''),
				current_setting('idle_in_transaction_session_timeout')), true))
		FROM holdfast.claims WHERE token = $1 AND run = coalesce($2, run)
		FOR SHARE`
	// checkTransaction fails by a division by zero, so that a COMMIT behind it takes no effect.
	checkTransaction = `SELECT 1 / coalesce(
		(pg_current_xact_id_if_assigned() = $1::text::xid8)::int, 0)`
	// checkOwn is checkTransaction for a batch that continues with statements of the store.
	checkOwn = checkTransaction + `, ` + planByKey
	// awaitClaim waits for the transactions that hold the claim. Its text differs from lockClaim,
	// because sweeps do not end a backend that waits in lockClaim.
	awaitClaim = `SELECT 1 FROM holdfast.claims WHERE token = $1 FOR UPDATE`
	claimState = `SELECT r.state, EXISTS (SELECT FROM holdfast.claims c WHERE c.token = $2)
		FROM holdfast.runs r WHERE r.id = $1 AND r.token = $2`

	// endOwnRun is finishRuns for one run, inside its own transaction. If the claim is gone or the
	// run has ended, it fails by a division by zero, so that a COMMIT behind it takes no effect.
	// COMMIT calls the deferred triggers of the job's tables, which are planned as usual. For one
	// run, PostgreSQL sets up this form of noteEnded in less time.
	endOwnRun = `
WITH gone AS (
    DELETE FROM holdfast.claims WHERE token = $1 AND run = $2 RETURNING run
), freed AS (
    DELETE FROM holdfast.grants WHERE token + 0 = $1
), saved_outputs AS (
    INSERT INTO holdfast.outputs AS o (run, output, result) SELECT run, $3::text, $4::text FROM gone
        WHERE $3 <> '' OR $4 IS NOT NULL
    ON CONFLICT (run) DO UPDATE SET ` + retainOutput + `
), changed AS (
    UPDATE holdfast.runs SET state = 'succeeded', reason = '', detail = '', error = '',
        batched = true, finished_at = clock_timestamp()
    WHERE id = $2 AND state = 'running' AND EXISTS (SELECT FROM gone)
    RETURNING id, job, state, created_at, scheduled_at, started_at, backfill
), tallied AS (
    INSERT INTO holdfast.tally_changes (quarter, state, delay, runs)
    SELECT ` + tallyKey + `, 1 FROM changed
)
SELECT 1 / count(*), ` + planAsUsual + `, count(CASE WHEN ` + anySubscription + `
    THEN holdfast.add_deliveries(ARRAY[id], ARRAY[job], ARRAY[state]) END)
FROM changed`

	// The store's own statements, and those of its triggers, look up rows by key (see
	// beginPipeline). The job's statements are planned with the settings that they had before.
	planByKey = `concat(
		set_config('holdfast.seqscan', current_setting('enable_seqscan'), true),
		set_config('holdfast.plans', current_setting('plan_cache_mode'), true),
		set_config('enable_seqscan', 'off', true),
		set_config('plan_cache_mode', 'force_generic_plan', true))`
	planAsUsual = `concat(
		set_config('enable_seqscan', current_setting('holdfast.seqscan'), true),
		set_config('plan_cache_mode', current_setting('holdfast.plans'), true))`
	beginOwn = `SELECT ` + planByKey
)

// ErrTransactionControl refuses a statement that would end the fenced transaction.
var ErrTransactionControl = errors.New("transaction control is not allowed in a fenced transaction")

// Fence is the fence check for transactions on a program's own connections to the database of the
// store. It must be the first statement of each transaction in which a run writes. It returns
// storage.ErrSuperseded if the claim is gone. The caller must then roll back.
//
// If ctx has a deadline, Fence also limits the transaction, so that a frozen replica cannot hold
// its claim for ever. Each statement may take as long as the time from the call of Fence until the
// deadline. Between two statements, the transaction may be idle for that time plus one minute.
func Fence(ctx context.Context, tx pgx.Tx, run *jobs.Run) error {
	s, err := storeOf(run)
	if err != nil {
		return err
	}
	return s.fence(ctx, tx, run)
}

func (s *Store) fence(ctx context.Context, tx pgx.Tx, run *jobs.Run) error {
	return s.checkFence(ctx, tx, holderOf(run))
}

// Fence is the function Fence for a lock with a token. It returns locking.ErrSuperseded if the
// claim is gone.
func (s *Store) Fence(ctx context.Context, tx pgx.Tx, token locking.Token) error {
	return s.checkFence(ctx, tx, holder{token: token})
}

func (s *Store) checkFence(ctx context.Context, tx pgx.Tx, h holder) error {
	b := &pgx.Batch{}
	answer := queueFence(ctx, b, h)
	if err := tx.SendBatch(ctx, s.schema.batch(b)).Close(); err != nil {
		return wrap("fence check", err)
	}
	return answer.err(h.token)
}

// fenceAnswer records whether a fence check found its claim, and the id of its transaction.
type fenceAnswer struct {
	found       bool
	transaction string
}

func (a *fenceAnswer) err(token jobs.Token) error {
	if !a.found {
		return fmt.Errorf("fence check of token %d: %w", token, storage.ErrSuperseded)
	}
	return nil
}

// holder is the subject of a fence check. Without a run it is the token alone.
type holder struct {
	token jobs.Token
	run   *uuid.UUID
}

func holderOf(run *jobs.Run) holder { return holder{token: run.Token, run: &run.ID} }

// longestTimeout is the longest timeout that PostgreSQL can set, in milliseconds: 24.8 days.
const longestTimeout = math.MaxInt32

// queueFence adds the fence check, and the bounds by ctx, to a batch.
func queueFence(ctx context.Context, b *pgx.Batch, h holder) *fenceAnswer {
	answer := &fenceAnswer{}
	b.Queue(beginOwn)
	statement, idle := "", ""
	if deadline, ok := ctx.Deadline(); ok {
		left := min(max(time.Until(deadline).Milliseconds(), 1), longestTimeout-60_000)
		statement, idle = fmt.Sprint(left), fmt.Sprint(left+60_000)
	}
	b.Queue(readClaim, h.token, h.run, statement, idle).
		Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&answer.transaction, nil, nil}, func() error {
				answer.found = true
				return nil
			})
			return err
		})
	return answer
}

// fencedTx is a transaction that began with the fence check.
type fencedTx struct {
	pgx.Tx
	id     string
	schema schemaName
}

// send sends statements of the store.
func (tx fencedTx) send(ctx context.Context, b *pgx.Batch) error {
	return tx.SendBatch(ctx, tx.schema.batch(b)).Close()
}

// queueCheck adds to a batch the check that the transaction is still the one with the fence check.
// A job's statement may have ended it and begun another one, which has no fence. The check fails
// with ErrTransactionControl.
func (tx fencedTx) queueCheck(b *pgx.Batch) {
	b.Queue(checkTransaction, tx.id).QueryRow(func(row pgx.Row) error {
		var one int
		return ended(row.Scan(&one))
	})
}

// queueOwn is queueCheck for a batch that continues with statements of the store.
func (tx fencedTx) queueOwn(b *pgx.Batch) {
	b.Queue(checkOwn, tx.id).QueryRow(func(row pgx.Row) error {
		var one int
		return ended(row.Scan(&one, nil))
	})
}

// ended returns the error of a check.
func ended(err error) error {
	if isRefused(err) {
		return errEnded
	}
	return err
}

// beginFenced begins a transaction with the fence check, in one round trip.
func (s *Store) beginFenced(ctx context.Context, conn *pgxpool.Conn,
	h holder) (fencedTx, error) {
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if s.work.borrowed {
		b.Queue(setLocalKeepAlive)
	}
	answer := queueFence(ctx, b, h)
	results := conn.Conn().SendBatch(ctx, s.schema.batch(b))
	err := wrap("fenced transaction", results.Close())
	if err == nil {
		err = answer.err(h.token)
	}
	if err != nil {
		rollback(ctx, conn, results.Tx())
		return fencedTx{}, err
	}
	return fencedTx{results.Tx(), answer.transaction, s.schema}, nil
}

// rollbackLimit bounds a rollback: a database whose process is frozen does not answer.
const rollbackLimit = 5 * time.Second

// rollback ends a transaction unless it has ended. If that fails, it closes the connection, which
// ends the transaction too.
func rollback(ctx context.Context, conn *pgxpool.Conn, tx pgx.Tx) {
	if conn.Conn().PgConn().TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
		defer cancel()
		_ = tx.Rollback(ctx)
	}
}

// InTx runs fn in a fenced transaction of the run. The writes of fn commit only if the run's claim
// exists. No conflicting run gets a claim before the commit. An error of fn rolls back.
func InTx(ctx context.Context, run *jobs.Run, fn func(tx pgx.Tx) error) error {
	s, err := storeOf(run)
	if err != nil {
		return err
	}
	return s.inTx(ctx, run, fn)
}

func (s *Store) inTx(ctx context.Context, run *jobs.Run, fn func(tx pgx.Tx) error) error {
	if err := storage.CheckNotCompleted(run); err != nil {
		return wrap("fenced transaction", err)
	}
	return s.fenced(ctx, holderOf(run), committing(ctx, fn))
}

// InLock is InTx for a program without jobs. The writes of fn commit only if the lock's claim
// exists. Nothing that conflicts with the lock is granted before the commit. ctx should be derived
// from the lock's context, so that fn ends when the lock is lost. Its deadline limits the
// transaction as in Fence.
//
// InLock returns locking.ErrSuperseded if the claim is gone. After another error that is not fn's
// own, the transaction may have committed. The lock's Release waits for the transaction to end, for
// at most one second.
func (s *Store) InLock(ctx context.Context, lock *locking.Lock, fn func(tx pgx.Tx) error) error {
	if lock.Token() == 0 {
		return errNoToken
	}
	return s.fenced(ctx, holder{token: lock.Token()}, committing(ctx, fn))
}

var errNoToken = errors.New("fenced transaction: the lock has no token, its locker has no grants")

// committing returns a function that runs fn and then commits.
func committing(ctx context.Context,
	fn func(tx pgx.Tx) error) func(*pgxpool.Conn, fencedTx) error {
	return func(_ *pgxpool.Conn, tx fencedTx) error {
		if err := fn(tx.Tx); err != nil {
			return err
		}
		b := &pgx.Batch{}
		tx.queueCheck(b)
		b.Queue("COMMIT").Exec(requireCommit)
		return tx.send(ctx, b)
	}
}

// requireCommit returns pgx.ErrTxCommitRollback if COMMIT rolled back.
func requireCommit(tag pgconn.CommandTag) error {
	if tag.String() != "COMMIT" {
		return pgx.ErrTxCommitRollback
	}
	return nil
}

// requireOpen returns ErrTransactionControl if a statement has ended the transaction: its writes
// took effect outside the fence or not at all, and so would all later ones.
func requireOpen(tx pgx.Tx) error {
	if tx.Conn().PgConn().TxStatus() == 'I' {
		return errEnded
	}
	return nil
}

var errEnded = fmt.Errorf("fenced transaction: a statement has ended it: %w",
	ErrTransactionControl)

// runStore is the store of a run whose fenced transactions have the type of pgx: *Store, or
// *TestStore in a test of a handler.
type runStore interface {
	fence(ctx context.Context, tx pgx.Tx, run *jobs.Run) error
	inTx(ctx context.Context, run *jobs.Run, fn func(tx pgx.Tx) error) error
	completeInTx(ctx context.Context, run *jobs.Run, fn func(tx pgx.Tx) error) error
	saveInTx(ctx context.Context, tx pgx.Tx, run *jobs.Run, saved json.RawMessage) error
}

func storeOf(run *jobs.Run) (runStore, error) {
	s, ok := run.Internal(attempt.NewKey()).Store.(runStore)
	if !ok {
		return nil, fmt.Errorf("fenced transaction: the run's store is %T, not PostgreSQL",
			run.Internal(attempt.NewKey()).Store)
	}
	return s, nil
}

// fenced calls use with a transaction that began with the fence check. It rolls back if use has not
// committed.
func (s *Store) fenced(ctx context.Context, h holder,
	use func(*pgxpool.Conn, fencedTx) error) error {
	conn, release, err := s.work.lease(ctx)
	if err != nil {
		return wrap("fenced transaction", err)
	}
	defer release()
	tx, err := s.beginFenced(ctx, conn, h)
	if err != nil {
		return err
	}
	defer rollback(ctx, conn, tx)
	return use(conn, tx)
}
