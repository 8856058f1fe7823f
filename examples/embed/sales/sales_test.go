package sales

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/holdfasttest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
)

// TestRefreshSales calls both handlers on a SQLite database in memory.
func TestRefreshSales(t *testing.T) {
	db := holdfasttest.SQLite(t)
	holdfasttest.Work(t, takeOrders, TakeParams{Regions: regions, Orders: 3},
		holdfasttest.WithSQLite(db)).Expect(jobs.Succeeded)
	refreshed := holdfasttest.Work(t, refreshSales, RefreshParams{Region: "north"},
		holdfasttest.WithSQLite(db)).Expect(jobs.Succeeded)
	if !strings.Contains(refreshed.Output, "north: 3 orders, 33 in all") {
		t.Errorf("got the output %q, want 3 orders", refreshed.Output)
	}
	var amount int
	if err := db.QueryRow("SELECT amount FROM sales_north").Scan(&amount); err != nil ||
		amount != 33 {
		t.Errorf("got the amount %d (%v), want 33", amount, err)
	}
}

// TestJobsOfTheFile runs the jobs of the example's configuration file for ten minutes.
func TestJobsOfTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t, holdfast.WithConfigFile("../holdfast.yaml"),
			holdfast.WithHandlers(Handlers()...))
		s.Advance(10 * time.Minute)
		for _, job := range []string{"take-orders", "refresh-sales-north", "refresh-sales-south"} {
			if len(s.Runs(job)) == 0 {
				t.Errorf("got no run of %s, want some", job)
			}
		}
		hold := s.Hold("orders") // which the job reads
		s.Fire("refresh-sales-north").Expect(jobs.Skipped, reasons.LockHeld)
		hold.Release()
		s.Fire("refresh-sales-north").Expect(jobs.Succeeded)
	})
}
