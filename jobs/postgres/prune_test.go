package postgres

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestPruningDeletesTheAuditLog sets times that no call of a store can set into the past.
func TestPruningDeletesTheAuditLog(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec(`
INSERT INTO holdfast.audit SELECT gen_random_uuid(), now() - n * interval '1 day', 'ada', 'page',
    'password', '192.0.2.1', 'r', '', 'pause', 'job a', '', NULL, '', '' FROM generate_series(0, 9) n;
INSERT INTO holdfast.pauses (id, kind, name, paused_at, paused_by, reason, resumed_at)
SELECT gen_random_uuid(), 'job', 'a', now() - interval '20 days', 'ada', '',
    now() - n * interval '1 day' FROM generate_series(0, 9) n;
INSERT INTO holdfast.pauses (id, kind, name, paused_at, paused_by, reason)
    VALUES (gen_random_uuid(), 'job', 'b', now() - interval '20 days', 'ada', '')`)
	session := uuid.New()
	for _, want := range []storage.Pruned{{Audited: 3, Pauses: 3}, {Audited: 2, Pauses: 2}, {}} {
		got, err := s.a.Prune(t.Context(), session,
			storage.PruneRequest{Keep: 5*24*time.Hour - time.Hour, Limit: 3})
		if err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	for what, want := range map[string]int{"audit WHERE at > now() - interval '5 days'": 5,
		"audit": 5, "pauses": 6, "pauses WHERE resumed_at IS NULL": 1} {
		if got := query[int](s, "SELECT count(*) FROM holdfast."+what); got != want {
			t.Errorf("%d of %s are left, want %d", got, what, want)
		}
	}
}

// Old waits are deleted until none is left, also if there are more of them than old runs.
func TestPruningDeletesAllOldWaits(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec(`INSERT INTO holdfast.wait_history (run, job, holder, resource, state, since, until)
SELECT gen_random_uuid(), 'a', 'b', 'table:public/t', 'running', until - interval '1 minute', until
FROM generate_series(now() - interval '32 hours', now(), '1 hour') until`)
	session, request := uuid.New(), storage.PruneRequest{Keep: 2 * time.Hour, Limit: 10}
	for more, batches := true, 0; more; batches++ {
		pruned, err := s.a.Prune(t.Context(), session, request)
		if err != nil || batches > 4 {
			t.Fatalf("got %+v, %v after %d batches", pruned, err, batches)
		}
		request, more = request.Rest(pruned)
	}
	if n := query[int](s, "SELECT count(*) FROM holdfast.wait_history"); n != 2 {
		t.Errorf("got %d waits, want the 2 of the last two hours", n)
	}
}

// A dead owner of the turn blocks it for half a minute.
func TestUnusedTurnPassesToAnotherReplica(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	one, two := uuid.New(), uuid.New()
	busy := func(store *Store, session uuid.UUID, want bool) {
		t.Helper()
		pruned, err := store.Prune(t.Context(), session,
			storage.PruneRequest{Keep: time.Hour, Limit: 1})
		if err != nil || pruned.Busy != want {
			t.Errorf("%+v, %v, want busy %v", pruned, err, want)
		}
	}
	busy(s.a, one, false)
	busy(s.b, two, true)
	s.exec("UPDATE holdfast.turns SET until = until - interval '29 seconds'")
	busy(s.b, two, true)
	s.exec("UPDATE holdfast.turns SET until = until - interval '1 second'")
	busy(s.b, two, false)
	busy(s.a, one, true)
}

// Pruning must not wait for a run that an open transaction of its job has locked.
func TestPruningSkipsLockedRuns(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec(`
INSERT INTO holdfast.runs (id, job, scheduled_at, state, created_at, finished_at)
SELECT gen_random_uuid(), 'a', now() - n * interval '1 day',
    CASE n WHEN 7 THEN 'running' ELSE 'succeeded' END, now() - n * interval '1 day',
        now() - n * interval '1 day'
FROM generate_series(5, 9) n`)
	tx, err := s.watcher().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // nothing was written
	if _, err := tx.Exec(t.Context(),
		"SELECT FROM holdfast.runs WHERE state = 'running' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	s.a.lockTimeout = "1s"
	got, err := s.a.Prune(t.Context(), uuid.New(), storage.PruneRequest{Keep: time.Hour, Limit: 10})
	if err != nil || got.Runs != 3 { // the last that has ended stays
		t.Errorf("got %+v (%v), want 3 deleted runs", got, err)
	}
}

// TestPruneTriggeredLooksUpRunsByJob checks that the statement finds the old runs of each job by an
// index, and scans no table of runs.
func TestPruneTriggeredLooksUpRunsByJob(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]string{"new tables": "", "a long history": `
INSERT INTO holdfast.jobs SELECT 'job ' || n, 1, now(), now() FROM generate_series(1, 1000) n;
INSERT INTO holdfast.runs (id, job, scheduled_at, key, state, created_at, finished_at)
    SELECT gen_random_uuid(), 'job ' || n % 1000, t, CASE WHEN n % 3 = 0 THEN n::text ELSE '' END,
        'succeeded', t, t
    FROM generate_series(1, 20000) n, LATERAL (SELECT now() - n * interval '1 s' AS t) at`} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			if prepare != "" {
				s.history(prepare)
				s.vacuum()
			}
			plan := s.plan(beginPipeline, pruneTriggered)
			_, look, found := strings.Cut(plan, "Index Scan using runs_by_trigger")
			if _, look, _ = strings.Cut(look, "\n"); !found || strings.Contains(plan,
				"Seq Scan on runs") || !strings.HasPrefix(strings.TrimSpace(look),
				"Index Cond: ((job = j.name) AND (scheduled_at < ") {
				t.Errorf("got the plan\n%s", plan)
			}
		})
	}
}

// BenchmarkPrune deletes a million runs as a replica does, in batches of 500 with rests. It
// compares the duration of concurrent starts with that of starts without pruning.
func BenchmarkPrune(b *testing.B) {
	s := openAs(b, database(b), "a")
	session := uuid.New()
	if err := s.Open(b.Context(),
		storage.Session{ID: session, Replica: "one", Version: "v1", TTL: time.Hour}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for _, sql := range []string{
			"TRUNCATE holdfast.runs, holdfast.outputs, holdfast.waits, holdfast.claims, " +
				"holdfast.grants", longHistory,
			"INSERT INTO holdfast.outputs SELECT id, repeat('a line of output ', 10) FROM " +
				"holdfast.runs WHERE state <> 'waiting'", "VACUUM ANALYZE",
		} {
			if _, err := s.pool.Exec(b.Context(), sql); err != nil {
				b.Fatal(err)
			}
		}
		alone := startsUntil(b, s, session, func() { time.Sleep(20 * time.Second) })
		var batches []time.Duration
		var took time.Duration
		beside := startsUntil(b, s, session, func() { batches, took = pruneAll(b, s, session) })
		b.ReportMetric(took.Seconds(), "s-in-all")
		for name, sample := range map[string][]time.Duration{"batch": batches, "start-alone": alone,
			"start-beside": beside} {
			slices.Sort(sample)
			for _, share := range []int{50, 99, 100} {
				b.ReportMetric(float64(sample[(len(sample)-1)*share/100].Microseconds())/1000,
					fmt.Sprintf("ms-%s-p%d", name, share))
			}
		}
	}
	b.ReportMetric(0, "ns/op")
}

// pruneAll rests between batches as the scheduler does.
func pruneAll(b *testing.B, s *Store,
	session uuid.UUID) (batches []time.Duration, took time.Duration) {
	b.Helper()
	start, runs := time.Now(), 0
	for request := (storage.PruneRequest{Keep: 720 * time.Hour, Limit: 500}); ; {
		sent := time.Now()
		pruned, err := s.Prune(b.Context(), session, request)
		if err != nil {
			b.Fatal(err)
		}
		runs, batches = runs+pruned.Runs, append(batches, time.Since(sent))
		if request.After = pruned.Next; pruned.Next == nil {
			break
		}
		time.Sleep(max(20*time.Millisecond, 4*time.Since(sent)))
	}
	if runs < 999_000 {
		b.Fatalf("%d runs were pruned", runs)
	}
	return batches, time.Since(start)
}

// startsUntil starts and finishes a firing every 10 ms until done returns.
func startsUntil(b *testing.B, s *Store, session uuid.UUID, done func()) (took []time.Duration) {
	b.Helper()
	stop := make(chan struct{})
	var starting sync.WaitGroup
	starting.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			r := request(b, fmt.Sprintf("beside-%d", n%50), fmt.Sprintf("t%d", n%50))
			r.Firing.ScheduledAt, r.WaitSince = time.Now(), time.Now()
			sent := time.Now()
			results, err := s.Start(b.Context(), session, []storage.StartRequest{r})
			if err != nil || results[0].Outcome != storage.StartGranted {
				b.Errorf("start beside: %+v, %v", results, err)
				return
			}
			took = append(took, time.Since(sent))
			if _, err := s.Finish(b.Context(),
				[]storage.FinishRequest{{Run: r.Run, Token: results[0].Token,
					State: jobs.Succeeded}}); err != nil {
				b.Error(err)
				return
			}
		}
	})
	done()
	close(stop)
	starting.Wait()
	return took
}
