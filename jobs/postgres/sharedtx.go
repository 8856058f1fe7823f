package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	maxShared = 64 // runs of one transaction
	// sharedLockTimeout bounds the wait of a statement for a lock. It is less than deadlock_timeout
	// (1 s), so that a shared transaction leaves a deadlock before PostgreSQL chooses a victim.
	sharedLockTimeout = "20ms"
	// sharedIdleTimeout is how long PostgreSQL keeps the transaction of a frozen replica.
	sharedIdleTimeout = "5s"
)

// sharedLimits are the limits of shared transactions. Statements that exceed one of them have no
// effect there, and the run executes them again in a transaction of its own, without these limits.
type sharedLimits struct {
	// call: a call of share begins no transaction after this time. So runs that fail or take long
	// do not delay the others for long.
	call time.Duration
	// begin: a transaction begins the statements of no further run after this time. The rows of the
	// first run stay locked meanwhile.
	begin time.Duration
	// statement bounds each statement. After this time, a run also begins no further statement.
	statement time.Duration
	// slow: if the statements of a run take longer, the next runs of its job share no transaction.
	slow time.Duration
	// end bounds the statement that ends the runs. On a busy machine, this may take longer than a
	// statement of one run.
	end time.Duration
}

func newSharedLimits() sharedLimits {
	return sharedLimits{call: 300 * time.Millisecond, begin: 50 * time.Millisecond,
		statement: 200 * time.Millisecond, slow: 100 * time.Millisecond, end: 2 * time.Second}
}

const (
	// lockSharedClaims is readClaim for several runs. It waits for no claim, so the order of the
	// claims does not matter.
	lockSharedClaims = `SELECT token, run FROM holdfast.claims WHERE token = ANY($1)
		FOR SHARE SKIP LOCKED`
	// limitShared sets the limits for the statements of the runs.
	limitShared = `SELECT pg_current_xact_id()::text, ` + planAsUsual + `, concat(
		set_config('lock_timeout', '` + sharedLockTimeout + `', true),
		set_config('statement_timeout', $1, true),
		set_config('idle_in_transaction_session_timeout', '` + sharedIdleTimeout + `', true))`

	// checkConstraints executes the deferred triggers of the job's tables with the limits of the
	// statements, and not in COMMIT.
	checkConstraints = `SET CONSTRAINTS ALL IMMEDIATE`
	// checkShared is checkOwn with the limits for the end of the runs.
	checkShared = checkOwn + `, concat(set_config('lock_timeout', $2, true),
		set_config('statement_timeout', $3, true))`
	// endSharedRuns is endOwnRun for several runs. It fails unless it ends all of them.
	endSharedRuns = `
WITH gone AS (
    DELETE FROM holdfast.claims c USING unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[])
        AS e (token, run, output, result)
    WHERE c.token = ANY($1) AND c.token = e.token AND (c.run = e.run) IS TRUE
    RETURNING c.run, e.output, e.result
), freed AS (
    DELETE FROM holdfast.grants WHERE token + 0 = ANY($1)
), saved_outputs AS (
    INSERT INTO holdfast.outputs AS o (run, output, result) SELECT run, output, result FROM gone
    ON CONFLICT (run) DO UPDATE SET ` + retainOutput + `
), changed AS (
    UPDATE holdfast.runs SET state = 'succeeded', reason = '', detail = '', error = '',
        batched = true, finished_at = clock_timestamp()
    WHERE id = ANY($2) AND state = 'running'
        AND (SELECT count(*) FROM gone) = cardinality($1::bigint[])
    RETURNING id, job, state, created_at, scheduled_at, started_at, backfill
), tallied AS (
    INSERT INTO holdfast.tally_changes (quarter, state, delay, runs)
    SELECT ` + tallyKey + `, count(*) FROM changed GROUP BY 1, 2, 3
)
SELECT 1 / (count(*) = cardinality($1::bigint[]))::int, ` + planAsUsual + `,
    CASE WHEN ` + anySubscription + `
        THEN holdfast.add_deliveries(array_agg(id), array_agg(job), array_agg(state)) END
FROM changed`
)

// shareTx executes one shared transaction. It returns the runs for another one, and an error if it
// has rolled back or its result is not known.
func (sh *sharer) shareTx(ctx context.Context,
	runs []*sharedRun) (remaining []*sharedRun, err error) {
	conn, release, err := sh.store.work.lease(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	begun := time.Now()
	tx, claimed, err := sh.begin(ctx, conn, runs)
	if err != nil {
		return nil, err
	}
	defer rollback(ctx, conn, tx)
	var executed []*sharedRun
	for i, r := range claimed {
		start := time.Now()
		if len(executed) > 0 && start.Sub(begun) > sh.limits.begin {
			remaining = claimed[i:]
			break
		}
		if r.ctx.Err() != nil {
			r.err = context.Cause(r.ctx)
			continue
		}
		err := r.execute(ctx, tx, sh.limits.statement)
		if conn.Conn().IsClosed() {
			return nil, err // all of them continue on other connections
		}
		if err != nil || time.Since(start) > sh.limits.slow {
			sh.exclude(r.run.Job)
		}
		if err != nil {
			return append(executed, claimed[i+1:]...), err
		}
		executed = append(executed, r)
	}
	if len(executed) == 0 {
		return remaining, nil
	}
	return remaining, sh.end(ctx, conn, tx, executed)
}

// begin begins a transaction with the fence check, and returns the runs that passed it.
func (sh *sharer) begin(ctx context.Context, conn *pgxpool.Conn,
	runs []*sharedRun) (fencedTx, []*sharedRun, error) {
	s := sh.store
	tokens := make([]int64, len(runs))
	for i, r := range runs {
		tokens[i] = int64(r.run.Token)
	}
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if s.work.borrowed {
		b.Queue(setLocalKeepAlive)
	}
	b.Queue(beginOwn)
	claims := make(map[int64]uuid.UUID, len(runs))
	b.Queue(lockSharedClaims, tokens).Query(func(rows pgx.Rows) error {
		var token int64
		var run *uuid.UUID
		_, err := pgx.ForEachRow(rows, []any{&token, &run}, func() error {
			if run != nil {
				claims[token] = *run
			}
			return nil
		})
		return err
	})
	var id string
	b.Queue(limitShared, milliseconds(sh.limits.statement)).QueryRow(
		func(row pgx.Row) error { return row.Scan(&id, nil, nil) })
	results := conn.Conn().SendBatch(ctx, s.schema.batch(b))
	if err := results.Close(); err != nil {
		rollback(ctx, conn, results.Tx())
		return fencedTx{}, nil, err
	}
	claimed := slices.DeleteFunc(slices.Clone(runs), func(r *sharedRun) bool {
		run, found := claims[int64(r.run.Token)]
		return !found || run != r.run.ID
	})
	return fencedTx{results.Tx(), id, s.schema}, claimed, nil
}

// execute executes the statements of the run in a shared transaction.
func (r *sharedRun) execute(ctx context.Context, tx pgx.Tx, limit time.Duration) error {
	start := time.Now()
	var out strings.Builder
	r.rows = make([]int64, 0, len(r.statements))
	for i, statement := range r.statements {
		tag, err := pgconn.CommandTag{}, errSlow
		if time.Since(start) < limit {
			tag, err = execOne(ctx, tx, statement)
		}
		if err != nil {
			return fmt.Errorf("run %s of job %q: statement %d: %w", r.run.ID, r.run.Job, i+1, err)
		}
		fmt.Fprintf(&out, "statement %d: %s\n", i+1, tag)
		r.rows = append(r.rows, tag.RowsAffected())
	}
	r.output = out.String()
	return nil
}

var errSlow = errors.New("statements take long")

// end records the runs as succeeded, commits, and resets the session, in one round trip. The
// output of a run is that of its statements: handlers that call RunStatements write no other.
func (sh *sharer) end(ctx context.Context, conn *pgxpool.Conn, tx fencedTx,
	runs []*sharedRun) error {
	s, n := sh.store, len(runs)
	tokens, ids, outputs, results := make([]int64, n), make([]rawID, n), make([]string, n),
		make([]string, n)
	for i, r := range runs {
		tokens[i], ids[i], outputs[i] = int64(r.run.Token), rawID(r.run.ID), r.output
		text, err := json.Marshal(storage.RowsAffected{Rows: r.rows})
		if err != nil {
			panic(err) // numbers always have JSON
		}
		results[i] = string(text)
	}
	b := &pgx.Batch{}
	b.Queue(checkConstraints)
	b.Queue(checkShared, tx.id, s.lockTimeout,
		milliseconds(sh.limits.end)).QueryRow(func(row pgx.Row) error {
		return ended(row.Scan(new(int64), nil, nil))
	})
	b.Queue(endSharedRuns, tokens, ids, outputs, results).QueryRow(func(row pgx.Row) error {
		return row.Scan(new(int64), nil, nil)
	})
	committed, err := s.commitAndReset(ctx, conn, tx, b)
	for _, r := range runs {
		r.committed = committed
		if !committed && !isAnswer(err) {
			r.lostReply = err
		}
	}
	if committed {
		return nil
	}
	return err
}

// milliseconds returns a duration as PostgreSQL reads a timeout.
func milliseconds(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }
