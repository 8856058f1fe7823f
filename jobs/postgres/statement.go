package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/internal/namedargs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// RunStatements implements storage.RunStore.
func (s *Store) RunStatements(ctx context.Context, run *jobs.Run,
	statements []storage.Statement) ([]int64, error) {
	return runStatements(ctx, run, statements, CompleteInTx)
}

// runStatements runs a job's statements in the transaction that complete begins and commits.
func runStatements(ctx context.Context, run *jobs.Run, statements []storage.Statement,
	complete func(ctx context.Context, run *jobs.Run, fn func(tx pgx.Tx) error) error,
) ([]int64, error) {
	for i, statement := range statements {
		if controlsTransaction(statement.SQL) {
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

func controlsTransaction(sql string) bool {
	return slices.Contains(transactionWords, firstWord(sql))
}

// firstWord returns the first word of a statement in lower case. It skips white space, comments
// (which nest) and empty commands.
func firstWord(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n\f\v;")
		switch {
		case strings.HasPrefix(sql, "--"):
			end := strings.IndexAny(sql, "\n\r") // as PostgreSQL has it
			if end < 0 {
				return ""
			}
			sql = sql[end:]
		case strings.HasPrefix(sql, "/*"):
			sql = sql[namedargs.CommentLen(sql):]
		default:
			end := strings.IndexFunc(sql, func(r rune) bool {
				return !('a' <= r|0x20 && r|0x20 <= 'z' || r == '_')
			})
			if end < 0 {
				end = len(sql)
			}
			return strings.ToLower(sql[:end])
		}
	}
}
