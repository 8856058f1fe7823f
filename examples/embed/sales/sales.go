// Package sales holds two jobs in Go. Each writes through a fenced transaction:
// what it does commits together with the end of its run, or not at all.
//
// They are for the embedded default, a SQLite file. On PostgreSQL the same
// functions are in package postgres and give a pgx.Tx.
package sales

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
)

// Handlers returns the jobs' handlers.
func Handlers() []jobs.Registration {
	return []jobs.Registration{
		jobs.Handle("take-orders", takeOrders),
		jobs.Handle("refresh-sales", refreshSales),
	}
}

const (
	createOrders = `
CREATE TABLE IF NOT EXISTS orders (
    id INTEGER PRIMARY KEY, region TEXT NOT NULL, scheduled_at TEXT NOT NULL,
    amount INTEGER NOT NULL)`
	insertOrder = `INSERT INTO orders (region, scheduled_at, amount) VALUES (?, ?, ?)`
	createSales = `
CREATE TABLE IF NOT EXISTS %s (one INTEGER PRIMARY KEY CHECK (one = 1), orders INTEGER NOT NULL,
    amount INTEGER NOT NULL)`
	replaceSales = `
INSERT INTO %s (one, orders, amount) SELECT 1, count(*), coalesce(sum(amount), 0) FROM orders
    WHERE region = ?
ON CONFLICT (one) DO UPDATE SET orders = excluded.orders, amount = excluded.amount
RETURNING orders, amount`
)

// TakeParams are the params of take-orders.
type TakeParams struct {
	Regions []string `json:"regions"`
	Orders  int      `json:"orders"` // of each region a run, 1 to 1000
}

// Validate is called when the configuration is read: a mistake is found before
// anything runs.
func (p TakeParams) Validate() error {
	var problems []jobs.ParamProblem
	if len(p.Regions) == 0 || !allKnown(p.Regions) {
		problems = append(problems,
			jobs.ParamProblem{Key: "regions",
				Message: fmt.Sprintf("found %q, expected some of %q", p.Regions, regions)})
	}
	if p.Orders < 1 || p.Orders > 1000 {
		problems = append(problems,
			jobs.ParamProblem{Key: "orders",
				Message: fmt.Sprintf("found %d, expected 1 to 1000", p.Orders)})
	}
	if len(problems) > 0 {
		return &jobs.ParamsError{Problems: problems}
	}
	return nil
}

var regions = []string{"north", "south"}

func allKnown(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		return !slices.Contains(regions, name)
	})
}

// takeOrders inserts orders. It names them by the run's scheduled time, which is the same
// on every replica and in every attempt; the clock is not.
func takeOrders(ctx context.Context, run *jobs.Run, p TakeParams) error {
	return sqlite.CompleteInTx(ctx, run, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, createOrders); err != nil {
			return fmt.Errorf("table of orders: %w", err)
		}
		for _, region := range p.Regions {
			for i := range p.Orders {
				if _, err := tx.ExecContext(ctx, insertOrder, region,
					run.ScheduledAt.Format(time.RFC3339), 10+i); err != nil {
					return fmt.Errorf("order from %s: %w", region, err)
				}
			}
		}
		run.Log().Info().Int("orders", p.Orders*len(p.Regions)).Msg("orders taken")
		return nil
	})
}

// RefreshParams are the params of refresh-sales.
type RefreshParams struct {
	Region string `json:"region"`
}

// Validate refuses regions that there are not; the region becomes part of a
// table's name.
func (p RefreshParams) Validate() error {
	if !allKnown([]string{p.Region}) {
		return &jobs.ParamsError{Problems: []jobs.ParamProblem{
			{Key: "region", Message: fmt.Sprintf("found %q, expected one of %q", p.Region,
				regions)}}}
	}
	return nil
}

// refreshSales adds up a region's orders anew.
func refreshSales(ctx context.Context, run *jobs.Run, p RefreshParams) error {
	return sqlite.CompleteInTx(ctx, run, func(tx *sql.Tx) error {
		table := "sales_" + p.Region
		for _, statement := range []string{createOrders, fmt.Sprintf(createSales, table)} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("table of sales: %w", err)
			}
		}
		var orders, amount int64
		if err := tx.QueryRowContext(ctx, fmt.Sprintf(replaceSales, table), p.Region).
			Scan(&orders, &amount); err != nil {
			return fmt.Errorf("sales of %s: %w", p.Region, err)
		}
		// Kept with the run, and shown with it.
		fmt.Fprintf(run.Output(), "%s: %d orders, %d in all\n", p.Region, orders, amount)
		return nil
	})
}
