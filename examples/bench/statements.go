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

// printStatements writes the statements that took the most time since the reset.
func printStatements(ctx context.Context, db *pgx.Conn, out io.Writer, firings int) error {
	rows, err := db.Query(ctx, costliest)
	if err != nil {
		return fmt.Errorf("pg_stat_statements: %w", err)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "µs a firing\tplanning\tcalls\tleast ms a call\trows\tWAL B a "+
		"firing\tblocks a firing\t statement")
	var calls, returned, wal, blocks int64
	var total, planning, least float64
	var query string
	_, err = pgx.ForEachRow(rows,
		[]any{&calls, &total, &planning, &least, &returned, &wal, &blocks, &query}, func() error {
			_, err := fmt.Fprintf(table, "%.1f\t%.1f\t%d\t%.3f\t%d\t%d\t%.1f\t %s\n",
				total*1000/float64(firings), planning*1000/float64(firings), calls, least, returned,
				wal/int64(firings), float64(blocks)/float64(firings),
				strings.TrimSpace(query[:min(len(query), 90)]))
			return err
		})
	if err != nil {
		return fmt.Errorf("pg_stat_statements: %w", err)
	}
	return table.Flush()
}
