// Package holdfasttest tests jobs without servers. [Work] calls one handler. [New] runs the
// program's jobs on a scheduler in memory, whose clock the test moves:
//
//	package sales
//
//	import (
//		"context"
//		"testing"
//		"testing/synctest"
//		"time"
//
//		"github.com/holdfast-dev/holdfast"
//		"github.com/holdfast-dev/holdfast/holdfasttest"
//		"github.com/holdfast-dev/holdfast/jobs"
//		"github.com/holdfast-dev/holdfast/jobs/reasons"
//		"github.com/holdfast-dev/holdfast/jobs/schedule"
//	)
//
//	type RollupParams struct {
//		Region string `json:"region"`
//	}
//
//	func rollup(ctx context.Context, run *jobs.Run, p RollupParams) error {
//		return run.CompleteInTx(ctx, func(tx jobs.Tx) error {
//			_, err := tx.Exec(ctx, `INSERT INTO totals
//				SELECT $2, sum(amount) FROM sales WHERE region = $1`, p.Region, run.ScheduledAt)
//			return err
//		})
//	}
//
//	var rollupNorth = holdfast.Job[RollupParams]{
//		Name: "rollup-north", Schedule: schedule.Cron("*/5 * * * *"), Run: rollup,
//		Params: RollupParams{"north"}, Writes: []string{"totals"}, Reads: []string{"sales"},
//	}
//
//	var tables = []string{
//		"CREATE TABLE sales (region text, amount int)",
//		"CREATE TABLE totals (at timestamp, amount int)",
//		"INSERT INTO sales VALUES ('north', 7), ('north', 5), ('south', 3)",
//	}
//
//	func TestRollup(t *testing.T) {
//		db := holdfasttest.SQLite(t, tables...)
//		holdfasttest.Work(t, rollup, RollupParams{Region: "north"}, holdfasttest.WithSQLite(db)).
//			Expect(jobs.Succeeded)
//		var total int
//		err := db.QueryRow("SELECT amount FROM totals").Scan(&total)
//		if err != nil || total != 12 {
//			t.Errorf("got %d (%v), want 12", total, err)
//		}
//	}
//
//	func TestRollupWaitsForSales(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			s := holdfasttest.New(t, holdfast.WithJobs(rollupNorth))
//			s.Exec(tables...)
//			hold := s.Hold("sales") // as a job on another replica that writes the table
//			s.Fire("rollup-north").Expect(jobs.Skipped, reasons.LockHeld)
//			hold.Release()
//			s.Advance(10 * time.Minute)
//			s.ExpectRuns("rollup-north", jobs.Skipped, jobs.Succeeded, jobs.Succeeded)
//		})
//	}
//
// # One handler
//
// [Work] calls a handler as a replica does: the params pass through their JSON and are validated,
// panics are caught, and the error and the cause of the context decide the outcome. The handler can
// use fenced transactions, such as run.CompleteInTx and postgres.InTx. With [WithTx], they are
// savepoints of a transaction that [BeginTx] has begun. It is rolled back at the end of the test.
// With [WithSQLite], they are transactions of a SQLite database in memory. Neither needs the tables
// of Holdfast.
//
// [WithClaimLostAfter] takes the claim of the run away, to test what the handler does then.
//
// # A scheduler
//
// [New] takes the options that the program gives to holdfast.New. So the test has the program's own
// jobs, configuration file, handlers and middleware. New replaces the database and memcached by a
// store and locks in memory. That store passes the tests of all stores, and takes microseconds a
// call. The engine is the engine of a replica: schedules, locks, policies, sessions and reasons are
// the real ones.
//
// New must be called in a bubble of testing/synctest. The clock of the bubble stands still while
// the program computes, and jumps while everything waits. It begins at midnight UTC on 2000-01-01:
// see [SetClock]. A day of this clock takes about a second of processor time.
//
// Handlers run in the bubble too. They may sleep and use timers. A handler that ignores the end of
// its context, and has not returned at the end of the test, makes synctest.Test fail with a
// deadlock. A handler that calls a server over the network works, but the clock stands still until
// the server has answered.
//
// # Other databases
//
// In [New], each database of the section databases is a separate SQLite database in memory:
// [Scheduler.ExecIn] prepares it, [Scheduler.DBOf] returns it, and [Scheduler.OutageOf] makes it
// unavailable. In [Work], [WithDatabase] says that the job has a Database. [WithFence] lets a
// handler use package fence in a database of the test.
//
// # What a test does not show
//
// In a test, a fenced transaction checks the claim in the store of the test before and after the
// function of the handler. In PostgreSQL, the claim also cannot be deleted while a fenced
// transaction of the run is open. A test of [Work] has no conflicting transactions at all.
// docs/guarantees.md says what the real stores guarantee. For a job with a Database, a test checks
// the claim too. In a real database, such a run may still commit after it has lost its claim, until
// a newer run that conflicts with it has committed.
//
// Replica.TriggerTx returns holdfast.ErrNoPostgres: test it with a replica on PostgreSQL.
package holdfasttest
