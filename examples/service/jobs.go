package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

const createTables = `
CREATE TABLE IF NOT EXISTS orders (
    id        text PRIMARY KEY,
    amount    int NOT NULL CHECK (amount > 0),
    confirmed boolean NOT NULL DEFAULT false
);
CREATE TABLE IF NOT EXISTS sales (one boolean PRIMARY KEY DEFAULT true, total bigint NOT NULL);
CREATE TABLE IF NOT EXISTS old_orders (LIKE orders);`

// confirmParams are the params of a run of confirm-order.
type confirmParams struct {
	Order string `json:"order"`
}

// archiveParams are the params of archive-orders.
type archiveParams struct {
	Keep  int `json:"keep"`  // confirmed orders that stay
	Batch int `json:"batch"` // orders in one transaction
}

// jobsOfService are the jobs of the service. Two of them write the table orders, so they never run
// at the same time. The report only reads it.
func jobsOfService() []holdfast.AnyJob {
	return []holdfast.AnyJob{
		holdfast.Job[confirmParams]{
			Name: "confirm-order", OnlyTriggered: true, Overridable: []string{"order"},
			Writes: []string{"orders"}, Timeout: time.Minute, Run: confirm,
		},
		holdfast.Job[struct{}]{
			Name: "total-sales", Schedule: schedule.Every(time.Minute),
			Writes: []string{"sales"}, Reads: []string{"orders", "old_orders"},
			Timeout: time.Minute, Run: total,
		},
		holdfast.Job[archiveParams]{
			Name: "archive-orders", Schedule: schedule.Cron("0 3 * * *"), Timezone: "Europe/Berlin",
			Writes: []string{"orders", "old_orders"}, Timeout: 10 * time.Minute,
			Params: archiveParams{Keep: 1000, Batch: 100}, Run: archive, NeedsPostgres: true,
		},
	}
}

// confirm has its effect exactly once: the effect and the success of the run are one commit.
func confirm(ctx context.Context, run *jobs.Run, p confirmParams) error {
	return run.CompleteInTx(ctx, func(tx jobs.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE orders SET confirmed = true WHERE id = $1", p.Order)
		return err
	})
}

// total works with SQLite too: jobs.Tx has the statements of both stores.
func total(ctx context.Context, run *jobs.Run, _ struct{}) error {
	return run.CompleteInTx(ctx, func(tx jobs.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO sales (total)
			SELECT coalesce(sum(amount), 0) FROM (
				SELECT amount FROM orders WHERE confirmed
				UNION ALL SELECT amount FROM old_orders) AS all_orders
			WHERE true ON CONFLICT (one) DO UPDATE SET total = excluded.total`)
		return err
	})
}

// archive commits in several transactions. Each one is fenced: if another run got the tables
// meanwhile, it fails. A repeated run continues with the orders that are left.
func archive(ctx context.Context, run *jobs.Run, p archiveParams) error {
	for {
		var moved int64
		err := postgres.InTx(ctx, run, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, `
WITH old AS (
    DELETE FROM orders WHERE id IN (
        SELECT id FROM orders WHERE confirmed ORDER BY id DESC OFFSET $1 LIMIT $2)
    RETURNING *)
INSERT INTO old_orders SELECT * FROM old`, p.Keep, p.Batch)
			moved = tag.RowsAffected()
			return err
		})
		if err != nil || moved == 0 {
			return err
		}
		run.Log().Info().Int64("orders", moved).Msg("orders archived")
	}
}
