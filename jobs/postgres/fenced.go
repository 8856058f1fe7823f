package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/retry"
)

const (
	// FOR SHARE: several transactions of one run may stand beside each other,
	// and a deletion of the claim waits for all of them.
	checkFence = `SELECT FROM holdfast.claims WHERE token = $1 FOR SHARE`
	claimState = `SELECT r.state, EXISTS (SELECT FROM holdfast.claims c WHERE c.token = $2) FROM holdfast.runs r WHERE r.id = $1 AND r.token = $2`
)

// clearUpPolicy outlasts a short outage: until it is known whether a job's
// effects stand, its run must neither be repeated nor reported.
var clearUpPolicy = retry.Policy{Delay: 50 * time.Millisecond, MaxDelay: time.Second, Elapsed: 10 * time.Second, Backoff: retry.Exponential}

// ErrTransactionControl refuses a statement that would end the fenced
// transaction, and so write outside the fence.
var ErrTransactionControl = errors.New("transaction control is not allowed in a fenced transaction")

// Fence is the fence check: it must be the first statement of each
// transaction by which a run writes. It returns jobs.ErrSuperseded when the
// claim is gone; the transaction must then be rolled back. It also bounds the
// transaction's statements and lock waits by ctx's deadline, and an idle
// pause inside it by a minute more, so that a paused replica cannot hold its
// claim for ever.
func Fence(ctx context.Context, tx pgx.Tx, token jobs.Token) error {
	b := &pgx.Batch{}
	found := false
	b.Queue(checkFence, token).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			found = true
		}
		return rows.Err()
	})
	if deadline, ok := ctx.Deadline(); ok {
		left := max(time.Until(deadline).Milliseconds(), 1)
		b.Queue("SELECT set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true)",
			fmt.Sprint(left), fmt.Sprint(left+60_000))
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return wrap("fence check", err)
	}
	if !found {
		return fmt.Errorf("fence check of token %d: %w", token, jobs.ErrSuperseded)
	}
	return nil
}

// InTx runs fn in a fenced transaction of the run on the store's pool for jobs: what fn
// writes is committed only if the run's claim stands, and no run that
// conflicts with it is granted before that. fn's error rolls back.
func InTx(ctx context.Context, run *jobs.Run, fn func(tx pgx.Tx) error) error {
	s, ok := run.Store().(*Store)
	if !ok {
		return fmt.Errorf("fenced transaction: the run's store is %T, not PostgreSQL", run.Store())
	}
	return pgx.BeginFunc(ctx, s.work, func(tx pgx.Tx) error {
		if err := Fence(ctx, tx, run.Token); err != nil {
			return err
		}
		return fn(tx)
	})
}

// CompleteInTx is InTx, and records the run as succeeded in the same
// transaction: its effects and its end are one. fn should be the last thing
// that the handler does. When the reply to the commit is lost it finds out
// what became of it, and does not run fn again.
func CompleteInTx(ctx context.Context, run *jobs.Run, fn func(tx pgx.Tx) error) error {
	s, ok := run.Store().(*Store)
	if !ok {
		return fmt.Errorf("fenced transaction: the run's store is %T, not PostgreSQL", run.Store())
	}
	tx, err := s.work.Begin(ctx)
	if err != nil {
		return wrap("fenced transaction", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // after a commit it does nothing; before one its error changes nothing
	if err := Fence(ctx, tx, run.Token); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	if err := finishInTx(ctx, tx, run); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return s.clearUp(ctx, run, err)
	}
	run.MarkCompleted(jobs.Succeeded)
	return nil
}

func finishInTx(ctx context.Context, tx pgx.Tx, run *jobs.Run) error {
	done := make([]bool, 1)
	b := &pgx.Batch{}
	queueFinish(b, []jobs.FinishRequest{{Run: run.ID, Token: run.Token, State: jobs.Succeeded, Output: run.OutputText()}}, done)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return wrap("finish in the job's transaction", err)
	}
	if !done[0] {
		return fmt.Errorf("finish in the job's transaction: %w", jobs.ErrSuperseded)
	}
	return nil
}

// clearUp finds out what became of a commit whose reply was lost. Locking the
// claim waits for the transaction to end, one way or the other: a claim that
// is still there means that it did not commit.
func (s *Store) clearUp(ctx context.Context, run *jobs.Run, cause error) error {
	var refused *pgconn.PgError
	if errors.As(cause, &refused) && !strings.HasPrefix(refused.Code, "08") && refused.Code != "57P01" {
		return wrap("commit", cause)
	}
	var state jobs.State
	var standing bool
	err := retry.Do(context.WithoutCancel(ctx), clearUpPolicy, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, clearUpPolicy.Elapsed)
		defer cancel()
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, lockClaim, run.Token); err != nil {
				return err
			}
			return tx.QueryRow(ctx, claimState, run.ID, run.Token).Scan(&state, &standing)
		})
	})
	switch {
	case err != nil:
		return fmt.Errorf("commit with a lost reply: %w", errors.Join(cause, wrap("look at the claim", err)))
	case standing:
		return wrap("commit", cause)
	case state == jobs.Succeeded:
		run.MarkCompleted(jobs.Succeeded)
		return nil
	default:
		return fmt.Errorf("commit with a lost reply: run is %s: %w", state, jobs.ErrSuperseded)
	}
}

// RunStatements runs a job's statements in one fenced transaction that ends
// with the run recorded as succeeded.
func (s *Store) RunStatements(ctx context.Context, run *jobs.Run, statements []jobs.Statement) ([]int64, error) {
	for i, statement := range statements {
		if controlsTransaction(statement.SQL) {
			return nil, fmt.Errorf("statement %d: %w", i+1, ErrTransactionControl)
		}
	}
	rows := make([]int64, 0, len(statements))
	err := CompleteInTx(ctx, run, func(tx pgx.Tx) error {
		for i, statement := range statements {
			tag, err := execOne(ctx, tx, statement)
			if err != nil {
				return fmt.Errorf("statement %d: %w", i+1, err)
			}
			fmt.Fprintf(run.Output(), "statement %d: %s\n", i+1, tag)
			rows = append(rows, tag.RowsAffected())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// execOne runs one statement by the extended protocol, which refuses several
// commands in one string, so that the first word says all about a statement.
func execOne(ctx context.Context, tx pgx.Tx, statement jobs.Statement) (pgconn.CommandTag, error) {
	if len(statement.Args) > 0 {
		return tx.Exec(ctx, statement.SQL, append([]any{pgx.QueryExecModeDescribeExec}, statement.Args...)...)
	}
	// Without arguments Tx.Exec may choose the simple protocol.
	result := tx.Conn().PgConn().ExecParams(ctx, statement.SQL, nil, nil, nil, nil)
	return result.Close()
}

// transactionWords begin the statements that start or end transactions, or
// change what one is.
var transactionWords = []string{"abort", "begin", "commit", "end", "prepare", "release", "rollback", "savepoint", "start"}

func controlsTransaction(sql string) bool {
	return slices.Contains(transactionWords, firstWord(sql))
}

// firstWord returns the first word of a statement in lower case, passing
// white space, comments (which nest) and empty commands.
func firstWord(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n\f\v;")
		switch {
		case strings.HasPrefix(sql, "--"):
			_, rest, _ := strings.Cut(sql, "\n")
			sql = rest
		case strings.HasPrefix(sql, "/*"):
			sql = afterComment(sql)
		default:
			end := strings.IndexFunc(sql, func(r rune) bool { return !('a' <= r|0x20 && r|0x20 <= 'z' || r == '_') })
			if end < 0 {
				end = len(sql)
			}
			return strings.ToLower(sql[:end])
		}
	}
}

// afterComment returns what follows the block comment that sql begins with.
func afterComment(sql string) string {
	depth := 0
	for i := 0; i+1 < len(sql); i++ {
		switch sql[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			if depth--; depth == 0 {
				return sql[i+2:]
			}
			i++
		}
	}
	return ""
}
