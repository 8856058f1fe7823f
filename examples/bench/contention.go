package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// contention is how the shared tables were used.
type contention struct {
	busy float64 // the part of the time for which a table was held, on average
	// what separates two runs of one table, if both were on one replica, and if not
	here, elsewhere gaps
}

// gaps are the times for which a table was free between two runs, in ms.
type gaps struct {
	number    int
	mean, p99 float64
}

// String returns the mean and the 99th percentile.
func (g gaps) String() string {
	return fmt.Sprintf("%.1f / %.0f (%d)", g.mean, g.p99, g.number)
}

const (
	readBusy = `
SELECT coalesce(sum(extract(
    epoch FROM least(finished_at, $2) - greatest(started_at, $1))), 0)::float8
FROM holdfast.runs WHERE finished_at > $1 AND started_at < $2`

	// readGaps knows the table of a job from the number at the end of its name.
	readGaps = `
SELECT coalesce(count(*) FILTER (WHERE here), 0), coalesce(avg(gap) FILTER (WHERE here), 0)::float8,
    coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY gap) FILTER (WHERE here), 0)::float8,
    coalesce(count(*) FILTER (WHERE NOT here), 0),
    coalesce(avg(gap) FILTER (WHERE NOT here), 0)::float8,
    coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY gap) FILTER (WHERE NOT here), 0)::float8
FROM (
    SELECT replica = lag(replica) OVER runs AS here,
        1000 * extract(epoch FROM started_at - lag(finished_at) OVER runs)::float8 AS gap
    FROM holdfast.runs WHERE finished_at > $1 AND started_at < $2
    WINDOW runs AS (PARTITION BY substring(job FROM '[0-9]+$')::int % $3 ORDER BY started_at)) r
WHERE gap IS NOT NULL`
)

// readContention returns how the shared tables were used in the window.
func readContention(ctx context.Context, db *pgx.Conn, w window, tables int) (contention, error) {
	var c contention
	var seconds float64
	if err := db.QueryRow(ctx, readBusy, w.from, w.until).Scan(&seconds); err != nil {
		return c, fmt.Errorf("time for which the tables were held: %w", err)
	}
	c.busy = seconds / w.until.Sub(w.from).Seconds() / float64(tables)
	err := db.QueryRow(ctx, readGaps, w.from, w.until, tables).Scan(&c.here.number, &c.here.mean,
		&c.here.p99, &c.elsewhere.number, &c.elsewhere.mean, &c.elsewhere.p99)
	if err != nil {
		return c, fmt.Errorf("times between runs of one table: %w", err)
	}
	return c, nil
}
