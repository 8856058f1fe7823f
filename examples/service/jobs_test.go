package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/holdfasttest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
)

// countRows returns how many rows each table has.
func countRows(t *testing.T, tx pgx.Tx, tables ...string) []int {
	t.Helper()
	counts := make([]int, len(tables))
	for i, table := range tables {
		if err := tx.QueryRow(t.Context(), "SELECT count(*) FROM "+table).
			Scan(&counts[i]); err != nil {
			t.Fatal(err)
		}
	}
	return counts
}

// TestArchive calls the handler in a transaction that is rolled back. It stops with what it has
// committed when its run loses its claim, and a second run moves the rest.
func TestArchive(t *testing.T) {
	tx := holdfasttest.BeginTxAt(t, database(t), createTables,
		"INSERT INTO orders SELECT i::text, i, true FROM generate_series(1, 1250) i")
	params := archiveParams{Keep: 1000, Batch: 100}
	holdfasttest.Work(t, archive, params, holdfasttest.WithTx(tx),
		holdfasttest.WithClaimLostAfter(1)).Expect(jobs.Lost, reasons.ClaimLost)
	if n := countRows(t, tx, "orders", "old_orders"); n[0] != 1150 || n[1] != 100 {
		t.Errorf("after the loss of the claim: got %d orders and %d old ones", n[0], n[1])
	}
	holdfasttest.Work(t, archive, params, holdfasttest.WithTx(tx)).Expect(jobs.Succeeded)
	if n := countRows(t, tx, "orders", "old_orders"); n[0] != 1000 || n[1] != 250 {
		t.Errorf("got %d orders and %d old ones, want 1000 and 250", n[0], n[1])
	}
}

// TestConfirmedOrdersAreTotalled runs the service's jobs on a scheduler in memory. Jobs whose
// handlers use only jobs.Tx work on its SQLite database.
func TestConfirmedOrdersAreTotalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t, holdfast.WithJobs(jobsOfService()...))
		s.Exec(`CREATE TABLE orders (id text PRIMARY KEY, amount int NOT NULL,
				confirmed boolean DEFAULT false)`,
			"CREATE TABLE old_orders (id text, amount int, confirmed boolean)",
			"INSERT INTO old_orders VALUES ('o-0', 3, true)",
			"CREATE TABLE sales (one boolean PRIMARY KEY DEFAULT true, total bigint NOT NULL)",
			"INSERT INTO orders (id, amount) VALUES ('o-1', 7), ('o-2', 5)")
		s.Trigger(holdfast.Trigger[confirmParams]{Job: "confirm-order",
			Params: confirmParams{Order: "o-1"}}).Expect(jobs.Succeeded)
		s.Fire("total-sales").Expect(jobs.Succeeded)
		var total int
		if err := s.DB().QueryRow("SELECT total FROM sales").Scan(&total); err != nil ||
			total != 10 {
			t.Errorf("got the total %d (%v), want 10", total, err)
		}
	})
}

// TestTotalsWaitForTheArchive checks what the jobs lock: nothing totals the orders while they are
// archived. The archive runs at three in Berlin.
func TestTotalsWaitForTheArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t, holdfast.WithJobs(jobsOfService()...))
		hold := s.Hold("orders")
		s.Fire("total-sales").Expect(jobs.Skipped, reasons.LockHeld)
		hold.Release()
		s.AdvanceTo(time.Date(2000, 1, 1, 1, 59, 59, 0, time.UTC))
		if run := s.Start("archive-orders"); run.ScheduledAt.Hour() != 2 {
			t.Errorf("got %s, want 02:00 UTC", run.ScheduledAt)
		}
	})
}
