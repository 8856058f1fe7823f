package holdfasttest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/holdfasttest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

type RollupParams struct {
	Region string `json:"region"`
}

func rollup(ctx context.Context, run *jobs.Run, p RollupParams) error {
	return run.CompleteInTx(ctx, func(tx jobs.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO totals
			SELECT $2, sum(amount) FROM sales WHERE region = $1`, p.Region, run.ScheduledAt)
		return err
	})
}

var rollupNorth = holdfast.Job[RollupParams]{
	Name: "rollup-north", Schedule: schedule.Cron("*/5 * * * *"), Run: rollup,
	Params: RollupParams{"north"}, Writes: []string{"totals"}, Reads: []string{"sales"},
}

var tables = []string{
	"CREATE TABLE sales (region text, amount int)",
	"CREATE TABLE totals (at timestamp, amount int)",
	"INSERT INTO sales VALUES ('north', 7), ('north', 5), ('south', 3)",
}

func TestRollup(t *testing.T) {
	db := holdfasttest.SQLite(t, tables...)
	holdfasttest.Work(t, rollup, RollupParams{Region: "north"}, holdfasttest.WithSQLite(db)).
		Expect(jobs.Succeeded)
	var total int
	err := db.QueryRow("SELECT amount FROM totals").Scan(&total)
	if err != nil || total != 12 {
		t.Errorf("got %d (%v), want 12", total, err)
	}
}

func TestRollupWaitsForSales(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t, holdfast.WithJobs(rollupNorth))
		s.Exec(tables...)
		hold := s.Hold("sales") // as a job on another replica that writes the table
		s.Fire("rollup-north").Expect(jobs.Skipped, reasons.LockHeld)
		hold.Release()
		s.Advance(10 * time.Minute)
		s.ExpectRuns("rollup-north", jobs.Skipped, jobs.Succeeded, jobs.Succeeded)
	})
}
