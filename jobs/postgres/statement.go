package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/internal/namedargs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// RunStatements implements storage.RunStore.
func (s *Store) RunStatements(ctx context.Context, run *jobs.Run,
	script storage.Script) ([]int64, error) {
	if script.Share {
		rows, done, err := s.sharer.execute(ctx, run, script.Statements)
		if done || err != nil {
			return rows, err
		}
	}
	rows, err := runStatements(ctx, run, script.Statements, CompleteInTx)
	if script.Share && isAnswer(err) { // the statements would fail in a shared transaction too
		s.sharer.exclude(run.Job)
	}
	return rows, err
}

// runStatements runs a job's statements in the transaction that complete begins and commits.
func runStatements(ctx context.Context, run *jobs.Run, statements []storage.Statement,
	complete func(ctx context.Context, run *jobs.Run, fn func(tx pgx.Tx) error) error,
) ([]int64, error) {
	for i, statement := range statements {
		if controlsTransaction(statement) {
			return nil, fmt.Errorf("statement %d: %w", i+1, ErrTransactionControl)
		}
	}
	rows := make([]int64, 0, len(statements))
	err := complete(ctx, run, func(tx pgx.Tx) error {
		for i, statement := range statements {
			tag, err := execOne(ctx, tx, statement)
			if err != nil {
				return fmt.Errorf("statement %d: %w", i+1, err)
			}
			if err := requireOpen(tx); err != nil {
				return fmt.Errorf("statement %d: %w", i+1, err)
			}
			fmt.Fprintf(run.Output(), "statement %d: %s\n", i+1, tag)
			rows = append(rows, tag.RowsAffected())
		}
		return run.SetResult(storage.RowsAffected{Rows: rows})
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// execOne runs one statement by the extended protocol, which refuses several commands in one
// string. So the first word determines the kind of the statement.
func execOne(ctx context.Context, tx pgx.Tx,
	statement storage.Statement) (pgconn.CommandTag, error) {
	sql, args := numbered(statement)
	if len(args) > 0 {
		return tx.Exec(ctx, sql, append([]any{pgx.QueryExecModeDescribeExec}, args...)...)
	}
	// Without arguments Tx.Exec may choose the simple protocol.
	result := tx.Conn().PgConn().ExecParams(ctx, statement.SQL, nil, nil, nil, nil)
	return result.Close()
}

// numbered replaces the arguments with names by numbers, and adds them to those by position. A cast
// sets the type of an argument: PostgreSQL would take @scheduled_at - interval '1 day' for the
// difference of two intervals.
func numbered(statement storage.Statement) (sql string, args []any) {
	if len(statement.Named) == 0 {
		return statement.SQL, statement.Args
	}
	sql, names := namedargs.Number(statement.SQL, len(statement.Args),
		func(n int, name string) string {
			if kind := statement.Named[name].Type; kind != "" {
				return fmt.Sprintf("$%d::%s", n, kind)
			}
			return fmt.Sprintf("$%d", n)
		})
	args = slices.Clone(statement.Args)
	for _, name := range names {
		args = append(args, statement.Named[name].Value)
	}
	return sql, args
}

// transactionWords begin the statements that start, end or change a transaction.
var transactionWords = []string{"abort", "begin", "commit", "end", "prepare", "release", "rollback",
	"savepoint", "start"}

func controlsTransaction(statement storage.Statement) bool {
	return slices.Contains(transactionWords, namedargs.FirstWord(statement.SQL))
}
