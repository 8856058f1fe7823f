package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"
)

// costliest leaves out what this program asked. The times are by the clock, so
// that what others do on the machine, and waiting for locks, is in them.
const costliest = `
SELECT calls, total_exec_time, total_plan_time, min_exec_time, rows, wal_bytes::bigint,
    shared_blks_hit + shared_blks_read,
    regexp_replace(query, '\s+', ' ', 'g')
FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database
    WHERE datname = current_database())
    AND query NOT LIKE '%pg_stat_%'
ORDER BY total_exec_time + total_plan_time DESC LIMIT 25`

func resetStatements(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements; SELECT "+
		"pg_stat_statements_reset()")
	if err != nil {
		return fmt.Errorf("pg_stat_statements: %w", err)
	}
	return nil
}

// statement is what PostgreSQL counted of one statement. The times are in milliseconds.
type statement struct {
	calls, returned, wal, blocks int64
	total, planning, least       float64
	query                        string
}

// readStatements returns the statements that took the most time since the reset.
func readStatements(ctx context.Context, db *pgx.Conn) ([]statement, error) {
	rows, err := db.Query(ctx, costliest)
	if err != nil {
		return nil, fmt.Errorf("pg_stat_statements: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s statement, err error) {
		err = row.Scan(&s.calls, &s.total, &s.planning, &s.least, &s.returned, &s.wal, &s.blocks,
			&s.query)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("pg_stat_statements: %w", err)
	}
	return list, nil
}

// printStatements writes the statements with their cost for each of the runs that ended meanwhile.
func printStatements(out io.Writer, list []statement, ended int) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "µs a run\tplanning\tcalls\tleast ms a call\trows\tWAL B a run\t"+
		"blocks a run\t statement")
	runs := float64(max(ended, 1))
	for _, s := range list {
		fmt.Fprintf(table, "%.1f\t%.1f\t%d\t%.3f\t%d\t%.0f\t%.1f\t %s\n", s.total*1000/runs,
			s.planning*1000/runs, s.calls, s.least, s.returned, float64(s.wal)/runs,
			float64(s.blocks)/runs, strings.TrimSpace(s.query[:min(len(s.query), 90)]))
	}
	return table.Flush()
}
