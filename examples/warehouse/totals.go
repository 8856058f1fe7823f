package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// total compares a table that jobs wrote with one pass over the data.
type total struct {
	name            string
	rows, differing int
	written, single sums
}

// sums are over all rows of a table.
type sums struct{ entries, amount int64 }

func (t total) equal() bool { return t.differing == 0 }

// comparison is two queries for (key, entries, amount).
type comparison struct{ name, written, single string }

// comparisons are of every table that jobs write. Two of them know the data
// by pgbench's own account rather than by the history that jobs move.
func comparisons(transactions int64) []comparison {
	return []comparison{
		{"branch_totals", "SELECT bid, entries, amount FROM branch_totals",
			"SELECT bid, count(*), sum(delta) FROM all_history GROUP BY bid"},
		{"teller_totals", "SELECT tid, entries, amount FROM teller_totals",
			"SELECT tid, count(*), sum(delta) FROM all_history GROUP BY tid"},
		{"second_totals", "SELECT second, entries, amount FROM second_totals",
			"SELECT date_trunc('second', mtime), count(*), sum(delta) FROM all_history GROUP BY 1"},
		{"account_totals", "SELECT bid, entries, amount FROM account_totals",
			"SELECT bid, count(*), sum(abalance) FROM pgbench_accounts GROUP BY bid"},
		{"branch_totals.share", "SELECT bid, share, 0 FROM branch_totals",
			"SELECT bid, count(*) * 1000000 / sum(count(*)) OVER (), 0 " +
				"FROM all_history GROUP BY bid"},
		{"branch_totals and pgbench's balances", "SELECT bid, 0, coalesce(t.amount, 0) FROM " +
			"pgbench_branches LEFT JOIN branch_totals t USING (bid)",
			"SELECT bid, 0, bbalance FROM pgbench_branches"},
		{"history and archive, and pgbench's count",
			"SELECT 1, count(*), sum(delta) FROM all_history",
			fmt.Sprintf("SELECT 1, %d, sum(tbalance) FROM pgbench_tellers", transactions)},
	}
}

const compareRows = `
SELECT count(*), count(*) FILTER (WHERE (w.entries, w.amount) IS DISTINCT
    FROM (s.entries, s.amount)),
    coalesce(sum(w.entries), 0)::bigint, coalesce(sum(w.amount), 0)::bigint,
    coalesce(sum(s.entries), 0)::bigint, coalesce(sum(s.amount), 0)::bigint
FROM (SELECT key, entries::bigint, amount::bigint FROM (%s) q (key, entries, amount)) w
FULL JOIN (SELECT key, entries::bigint, amount::bigint
    FROM (%s) q (key, entries, amount)) s USING (key)`

// readTotals compares every total, row by row.
func readTotals(ctx context.Context, db *pgx.Conn, transactions int64) ([]total, error) {
	var totals []total
	for _, c := range comparisons(transactions) {
		t := total{name: c.name}
		err := db.QueryRow(ctx, fmt.Sprintf(compareRows, c.written, c.single)).
			Scan(&t.rows, &t.differing, &t.written.entries, &t.written.amount, &t.single.entries,
				&t.single.amount)
		if err != nil {
			return nil, fmt.Errorf("comparison of %s: %w", c.name, err)
		}
		totals = append(totals, t)
	}
	return totals, nil
}

// audits counts how often a job compared two tables that always agree, and how often they
// differed.
type audits struct{ made, differing int }

func readAudits(ctx context.Context, db *pgx.Conn) (audits, error) {
	var a audits
	err := db.QueryRow(ctx, "SELECT count(*), count(*) FILTER (WHERE branch_entries IS DISTINCT "+
		"FROM teller_entries) FROM audits").
		Scan(&a.made, &a.differing)
	if err != nil {
		return a, fmt.Errorf("audits: %w", err)
	}
	return a, nil
}
