package holdfasttest_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/holdfasttest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// run is the type of a handler without params.
type run = func(ctx context.Context, run *jobs.Run, _ struct{}) error

// every returns a job that fires every five minutes and writes the table sales.
func every(handler run) holdfast.Job[struct{}] {
	return holdfast.Job[struct{}]{Name: "rollup", Schedule: schedule.Cron("*/5 * * * *"),
		Writes: []string{"sales"}, Run: handler}
}

func nothing(context.Context, *jobs.Run, struct{}) error { return nil }

func untilItEnds(ctx context.Context, _ *jobs.Run, _ struct{}) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// inBubble runs a test on a scheduler with the job.
func inBubble(t *testing.T, job holdfast.Job[struct{}],
	test func(t *testing.T, s *holdfasttest.Scheduler)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, holdfasttest.New(t, holdfast.WithJobs(job)))
	})
}

func TestAdvanceFiresWhatIsDue(t *testing.T) {
	inBubble(t, every(nothing), func(t *testing.T, s *holdfasttest.Scheduler) {
		s.AdvanceTo(time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC))
		states := make([]jobs.State, 12)
		for i := range states {
			states[i] = jobs.Succeeded
		}
		s.ExpectRuns("rollup", states...)
		if first := s.Runs("rollup")[0].ScheduledAt; !first.Equal(
			time.Date(2000, 1, 1, 0, 5, 0, 0, time.UTC)) {
			t.Errorf("the first run is at %s, want 00:05", first)
		}
		expectFailure(t, func(tb testing.TB) { holdfasttest.On(s, tb).ExpectRuns("rollup") },
			`runs of job "rollup": got 12 (succeeded, succeeded, `, ", want none", "\n\t2000-01-01T00:05:00Z: succeeded\n")
	})
}

func TestFireReturnsTheRun(t *testing.T) {
	job := every(func(_ context.Context, run *jobs.Run, _ struct{}) error {
		time.Sleep(time.Minute)
		return run.SetResult(run.ScheduledAt)
	})
	inBubble(t, job, func(t *testing.T, s *holdfasttest.Scheduler) {
		for _, minute := range []int{5, 10} {
			var at time.Time
			r := s.Fire("rollup").Expect(jobs.Succeeded).DecodeResult(&at)
			if took, _ := r.Took(); !at.Equal(r.ScheduledAt) || at.Minute() != minute ||
				took.Round(time.Second) != time.Minute ||
				time.Since(at) > time.Minute+2*time.Second {
				t.Errorf("got %+v at %s, want a run of a minute at 00:%02d", r, time.Now(), minute)
			}
		}
	})
}

func TestHoldSkipsAFiring(t *testing.T) {
	inBubble(t, every(nothing), func(t *testing.T, s *holdfasttest.Scheduler) {
		hold := s.Hold("public.sales")
		r := s.Fire("rollup").Expect(jobs.Skipped, reasons.LockHeld)
		if r.BlockedBy == nil || r.BlockedBy.Resource != "public/sales" ||
			r.BlockedBy.Holder.Job != holdfasttest.HoldJob {
			t.Errorf("got the blocker %+v", r.BlockedBy)
		}
		expectFailure(t, func(tb testing.TB) {
			holdfasttest.On(s, tb).Fire("rollup").Expect(jobs.Succeeded)
		},
			`run of job "rollup" at 2000-01-01T00:10:00Z: got skipped (lock_held): public/sales `+
				`was held by job holdfasttest-hold`, ", want succeeded")
		hold.Release()
		s.Fire("rollup").Expect(jobs.Succeeded)
		s.ExpectRuns("rollup", jobs.Skipped, jobs.Skipped, jobs.Succeeded)
	})
}

// TestHoldWaitsForNobody checks that a lock that a run holds cannot be held.
func TestHoldWaitsForNobody(t *testing.T) {
	inBubble(t, every(untilItEnds), func(t *testing.T, s *holdfasttest.Scheduler) {
		s.Start("rollup").Expect(jobs.Running)
		expectFailure(t, func(tb testing.TB) { holdfasttest.On(s, tb).Hold("sales") },
			"public/sales is held by job rollup")
	})
}

// TestLostSessionEndsTheHandler checks the cause of the context, the fence and the recovery.
func TestLostSessionEndsTheHandler(t *testing.T) {
	var cause, fenced error
	job := every(func(ctx context.Context, run *jobs.Run, _ struct{}) error {
		if run.Recovery > 0 {
			return nil
		}
		<-ctx.Done()
		cause = context.Cause(ctx)
		fenced = run.InTx(context.WithoutCancel(ctx), func(jobs.Tx) error { return nil })
		return cause
	})
	job.Recover = true
	inBubble(t, job, func(t *testing.T, s *holdfasttest.Scheduler) {
		r := s.Start("rollup").Expect(jobs.Running)
		s.LoseSession()
		r.Wait().Expect(jobs.Lost, reasons.SessionLost)
		if !errors.Is(cause, storage.ErrSessionLost) {
			t.Errorf("got the cause %v, want ErrSessionLost", cause)
		}
		s.Advance(time.Minute)
		s.ExpectRuns("rollup", jobs.Lost, jobs.Succeeded)
		if !errors.Is(fenced, storage.ErrSuperseded) {
			t.Errorf("got the fenced transaction %v, want ErrSuperseded", fenced)
		}
	})
}

// TestClaimLostInATransaction checks that a transaction that is open while the claim is lost does
// not commit.
func TestClaimLostInATransaction(t *testing.T) {
	var fenced error
	job := every(func(ctx context.Context, run *jobs.Run, _ struct{}) error {
		ctx = context.WithoutCancel(ctx) // which would end the transaction too
		fenced = run.InTx(ctx, func(tx jobs.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO regions VALUES ('north')")
			time.Sleep(time.Minute)
			return err
		})
		return fenced
	})
	for _, name := range []string{"SQLite", "PostgreSQL"} {
		t.Run(name, func(t *testing.T) {
			url := ""
			if name == "PostgreSQL" {
				url = database(t)
			}
			synctest.Test(t, func(t *testing.T) {
				s := schedulerOn(t, url, job)
				s.Exec(createRegions, "INSERT INTO regions VALUES ('south')")
				r := s.Start("rollup")
				s.LoseSession()
				r.Wait().Expect(jobs.Lost, reasons.SessionLost)
				s.Advance(2 * time.Minute)
				if !errors.Is(fenced, storage.ErrSuperseded) {
					t.Errorf("got %v, want ErrSuperseded", fenced)
				}
				s.Exec("INSERT INTO regions VALUES ('north')") // there is none
			})
		})
	}
}

// schedulerOn returns a scheduler with handlers on PostgreSQL, or without a URL on SQLite.
func schedulerOn(t *testing.T, url string, job holdfast.Job[struct{}]) *holdfasttest.Scheduler {
	t.Helper()
	if url == "" {
		return holdfasttest.New(t, holdfast.WithJobs(job))
	}
	return holdfasttest.NewWithTx(t, holdfasttest.BeginTxAt(t, url), holdfast.WithJobs(job))
}

func TestOutageEndsTheHandler(t *testing.T) {
	inBubble(t, every(untilItEnds), func(t *testing.T, s *holdfasttest.Scheduler) {
		r := s.Start("rollup")
		s.Outage(time.Minute)
		r.Wait().Expect(jobs.Lost, reasons.SessionLost)
	})
}

func TestRetriesMoveTheClock(t *testing.T) {
	var calls atomic.Int64
	job := every(func(context.Context, *jobs.Run, struct{}) error {
		if calls.Add(1) < 3 {
			return errors.New("broken")
		}
		return nil
	})
	job.Retry = retry.Policy{Attempts: 3, Delay: 30 * time.Second}
	inBubble(t, job, func(t *testing.T, s *holdfasttest.Scheduler) {
		if r := s.Fire("rollup").Expect(jobs.Succeeded); r.Attempt != 3 {
			t.Errorf("got the attempt %d, want 3", r.Attempt)
		}
	})
}

// TestFencedTransactionsOfAScheduler checks that handlers write to the database in memory, and that
// the success of a run that completes itself is in the history.
func TestFencedTransactionsOfAScheduler(t *testing.T) {
	job := every(func(ctx context.Context, run *jobs.Run, _ struct{}) error {
		return run.CompleteInTx(ctx, func(tx jobs.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO regions VALUES ($1)",
				run.ScheduledAt.Format("15:04"))
			return errors.Join(err, run.Save(run.ScheduledAt))
		})
	})
	inBubble(t, job, func(t *testing.T, s *holdfasttest.Scheduler) {
		r := s.Fire("rollup").Expect(jobs.Failed)
		if !strings.Contains(r.Error, "no such table") {
			t.Errorf("got the error %q, want one about the table", r.Error)
		}
		s.Exec(createRegions)
		s.Fire("rollup").Expect(jobs.Succeeded)
		s.Fire("rollup").Expect(jobs.Succeeded)
		expectFailure(t, func(tb testing.TB) { holdfasttest.On(s, tb).Exec("SELEC 1") },
			"SELEC 1: ")
		if got := regions(t, s.DB()); got != "00:10,00:15" {
			t.Errorf("got %q, want 00:10,00:15", got)
		}
	})
}

func TestTriggeredJob(t *testing.T) {
	job := holdfast.Job[regionParams]{Name: "add", OnlyTriggered: true,
		Overridable: []string{"region"}, Params: regionParams{"north"},
		Writes: []string{"regions"}, Run: addRegion}
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t, holdfast.WithJobs(job))
		s.Exec(createRegions)
		s.Trigger(holdfast.Trigger[any]{Job: "add"}).Expect(jobs.Succeeded)
		s.Trigger(holdfast.Trigger[regionParams]{Job: "add", Params: regionParams{"south"}}).
			Expect(jobs.Succeeded)
		if got := regions(t, s.DB()); got != "north,south" {
			t.Errorf("got %q, want north,south", got)
		}
		expectFailure(t, func(tb testing.TB) { holdfasttest.On(s, tb).Fire("add") }, `fire job "add"`,
			"use Trigger")
		expectFailure(t, func(tb testing.TB) { holdfasttest.On(s, tb).Fire("ad") },
			`fire job "ad": the jobs are add`)
		expectFailure(t, func(tb testing.TB) {
			holdfasttest.On(s, tb).Trigger(holdfast.Trigger[any]{Job: "ad"})
		}, "ad", "not found")
	})
}

// TestClockChanges checks that a test can begin at any time.
func TestClockChanges(t *testing.T) {
	job := every(nothing)
	job.Schedule, job.Timezone = schedule.Cron("30 2 * * *"), "Europe/Berlin"
	synctest.Test(t, func(t *testing.T) {
		holdfasttest.SetClock(t, time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC))
		s := holdfasttest.New(t, holdfast.WithJobs(job))
		r := s.Fire("rollup").Expect(jobs.Succeeded) // 02:30 does not exist on that day
		if want := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC); !r.ScheduledAt.Equal(want) {
			t.Errorf("got %s, want %s", r.ScheduledAt, want)
		}
		expectFailure(t, func(tb testing.TB) { holdfasttest.SetClock(tb, time.Unix(0, 0)) },
			"a clock moves only forward")
	})
}

func TestFireExplainsWhyNothingFires(t *testing.T) {
	inBubble(t, every(nothing), func(t *testing.T, s *holdfasttest.Scheduler) {
		if _, err := s.Replica().Operations().Pause(t.Context(), storage.Action{Actor: "anna"},
			storage.Target{Kind: storage.TargetJob, Name: "rollup"}); err != nil {
			t.Fatal(err)
		}
		s.Advance(time.Second)
		expectFailure(t, func(tb testing.TB) {
			// a day of the replica's heartbeats and polls takes 17 s of processor time
			holdfasttest.Limited(s, tb, time.Hour).Fire("rollup")
		}, `job "rollup" at 2000-01-01T00:05:00Z: nothing became of it within 1h0m0s`, "paused")
	})
}

func TestMistakesFailNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expectFailure(t, func(tb testing.TB) {
			holdfasttest.New(tb, holdfast.WithJobs(holdfast.Job[struct{}]{Name: "rollup"}))
		}, "new scheduler: ", "schedule: found nothing", "handler: found nothing")
	})
	expectFailure(t, func(tb testing.TB) { holdfasttest.New(tb) },
		"holdfasttest.New: ", "call it in the function of synctest.Test")
}

// TestConfigurationFile checks that the jobs of a file run, and that its servers are not used.
func TestConfigurationFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(path, []byte(`
database: {url: "postgres://127.0.0.1:1/none"}
locking: {memcached: {servers: ["127.0.0.1:1"]}}
jobs:
  - name: add-hour
    schedule: "0 * * * *"
    handler: sql
    tables: [regions]
    params: {statement: "INSERT INTO regions VALUES (strftime('%H', @scheduled_at))"}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t, holdfast.WithConfigFile(path))
		s.Exec(createRegions)
		s.Advance(2*time.Hour + time.Minute)
		s.ExpectRuns("add-hour", jobs.Succeeded, jobs.Succeeded)
		if got := regions(t, s.DB()); got != "01,02" {
			t.Errorf("got %q, want 01,02", got)
		}
	})
}

// TestFileWithoutItsDatabase checks a file whose database the program sets by an option that the
// test does not give.
func TestFileWithoutItsDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(path, []byte("database: {schema: jobs}\n"+
		"locking: {memcached: {servers: ['127.0.0.1:1']}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t, holdfast.WithConfigFile(path), holdfast.WithJobs(every(nothing)))
		s.Fire("rollup").Expect(jobs.Succeeded)
	})
}

// TestSchedulerOnPostgres checks that handlers for PostgreSQL write in the transaction of the test.
func TestSchedulerOnPostgres(t *testing.T) {
	url := database(t)
	job := every(func(ctx context.Context, run *jobs.Run, _ struct{}) error {
		return postgres.CompleteInTx(ctx, run, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO regions VALUES ($1)",
				run.ScheduledAt.Format("15:04"))
			return err
		})
	})
	job.NeedsPostgres = true
	synctest.Test(t, func(t *testing.T) {
		tx := holdfasttest.BeginTxAt(t, url)
		s := holdfasttest.NewWithTx(t, tx, holdfast.WithJobs(job))
		s.Exec(createRegions)
		s.Fire("rollup").Expect(jobs.Succeeded)
		s.Fire("rollup").Expect(jobs.Succeeded)
		var n int
		if err := tx.QueryRow(t.Context(), "SELECT count(*) FROM regions").Scan(&n); err != nil ||
			n != 2 {
			t.Errorf("got %d rows (%v), want 2", n, err)
		}
	})
}

// TestMetrics checks that the metrics of a scheduler are at the program's registerer, with the
// status of the cluster.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t, holdfast.WithJobs(every(nothing)),
			holdfast.WithRegisterer(registry))
		s.Advance(time.Hour)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, family := range families {
			names = append(names, family.GetName())
		}
		if !slices.Contains(names, "holdfast_runs_total") ||
			!slices.Contains(names, "holdfast_status") {
			t.Errorf("got the metrics %q, want those of runs and the status", names)
		}
	})
}

// TestReplica checks what a service does with its replica: it serves the page, triggers a job by
// the API, and reloads its configuration.
func TestReplica(t *testing.T) {
	inBubble(t, every(nothing), func(t *testing.T, s *holdfasttest.Scheduler) {
		page, err := s.Replica().Admin(admin.At("/holdfast/"),
			admin.Authenticate(func(*http.Request) (admin.Visitor, error) {
				return admin.Visitor{Name: "anna", Role: admin.Operator}, nil
			}))
		if err != nil {
			t.Fatal(err)
		}
		for _, request := range []*http.Request{
			httptest.NewRequest(http.MethodGet, "http://localhost/holdfast/jobs/rollup", nil),
			httptest.NewRequest(http.MethodPost,
				"http://localhost/holdfast/api/v1/jobs/rollup/trigger", nil),
		} {
			request.Header.Set("Sec-Fetch-Site", "same-origin")
			answer := httptest.NewRecorder()
			page.ServeHTTP(answer, request)
			if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), "rollup") {
				t.Errorf("%s: got %d %s", request.URL, answer.Code, answer.Body)
			}
		}
		s.Advance(10 * time.Second)
		s.ExpectRuns("rollup", jobs.Succeeded)
		if err := s.Replica().Reload(func() (*configs.Config, error) {
			config := configs.Defaults()
			return &config, nil
		}); err != nil {
			t.Error(err)
		}
		s.Fire("rollup").Expect(jobs.Succeeded)
	})
}
