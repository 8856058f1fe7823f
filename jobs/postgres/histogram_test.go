package postgres

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// ended returns the numbers of ended runs by state.
func (s *harness) ended(store *Store) map[jobs.State]int {
	s.t.Helper()
	quarters, err := store.Histogram(s.t.Context(), time.Now().Add(-time.Hour),
		time.Now().Add(time.Hour), storage.QuarterLength)
	if err != nil {
		s.t.Error(err)
	}
	counts := map[jobs.State]int{}
	for _, q := range quarters {
		for state, n := range q.Runs {
			counts[state] += n
		}
	}
	return counts
}

// anotherTurn ends the time in which no replica folds tallies again.
const anotherTurn = "UPDATE holdfast.turns SET until = now() WHERE work = 'tallies'"

// finish starts and finishes a run.
func finish(ctx context.Context, store *Store, session uuid.UUID, r storage.StartRequest) error {
	results, err := store.Start(ctx, session, []storage.StartRequest{r})
	if err != nil {
		return err
	}
	_, err = store.Finish(ctx, []storage.FinishRequest{{Run: r.Run, Token: results[0].Token,
		State: jobs.Succeeded}})
	return err
}

// Changes move to the tallies once in 30 s, and each of them once.
func TestSweepFoldsTallies(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	end := func(runs int) {
		t.Helper()
		for range runs {
			if err := finish(t.Context(), s.a, session,
				request(t, fmt.Sprint("job ", uuid.New()), "t")); err != nil {
				t.Fatal(err)
			}
		}
	}
	changes := func() int { return query[int](s, "SELECT count(*) FROM holdfast.tally_changes") }
	fold := func() {
		t.Helper()
		if _, err := s.b.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	end(2)
	if n := changes(); n == 0 {
		t.Error("no change, so this test shows nothing")
	}
	fold()
	end(1)
	fold() // does nothing for 30 s
	folded := query[int](s, "SELECT sum(runs)::int FROM holdfast.tallies")
	if got := s.ended(s.b)[jobs.Succeeded]; folded != 2 || got != 3 || changes() == 0 {
		t.Errorf("%d runs in the tallies, want 2; %d in all, want 3", folded, got)
	}
	s.exec(anotherTurn)
	fold()
	folded = query[int](s, "SELECT sum(runs)::int FROM holdfast.tallies")
	if got := s.ended(s.b)[jobs.Succeeded]; folded != 3 || got != 3 || changes() != 0 {
		t.Errorf("%d runs in the tallies and %d in all, want 3", folded, got)
	}
}

// Replicas that finish and fold at the same time count every run once, and a reader never sees
// fewer or more runs than have ended.
func TestTalliesOfConcurrentFinishes(t *testing.T) {
	t.Parallel()
	const each = 40
	s := newHarness(t)
	var finishes, folds sync.WaitGroup
	stop := make(chan struct{})
	for _, store := range []*Store{s.a, s.b} {
		folds.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				before := s.ended(store)[jobs.Succeeded]
				if err := store.foldTallies(t.Context(), uuid.New()); err != nil {
					t.Error(err)
				}
				if _, err := store.pool.Exec(t.Context(), anotherTurn); err != nil {
					t.Error(err)
				}
				if after := s.ended(store)[jobs.Succeeded]; after < before {
					t.Errorf("%d runs have ended, before there were %d", after, before)
				}
			}
		})
	}
	for i, store := range []*Store{s.a, s.b, s.a} {
		session := s.session(store, "r")
		finishes.Go(func() {
			for n := range each {
				if err := finish(t.Context(), store, session, request(t,
					fmt.Sprintf("job %d/%d", i, n), fmt.Sprintf("t%d", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	finishes.Wait()
	close(stop)
	folds.Wait()
	if got := s.ended(s.a)[jobs.Succeeded]; got != 3*each {
		t.Errorf("%d runs, want %d", got, 3*each)
	}
}

// A part of a histogram has the runs of its quarters of an hour, those of tally_changes too.
func TestHistogramInParts(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec(`INSERT INTO holdfast.tallies VALUES
    ('2026-01-05 09:45Z', 'succeeded', 0, 1000), ('2026-01-05 10:00Z', 'succeeded', 0, 1),
    ('2026-01-05 11:45Z', 'succeeded', 0, 2), ('2026-01-05 11:45Z', 'skipped', -1, 3),
    ('2026-01-05 12:00Z', 'succeeded', 4, 5), ('2026-01-05 15:45Z', 'failed', 4, 6),
    ('2026-01-05 16:00Z', 'succeeded', 0, 1000)`)
	s.exec(`INSERT INTO holdfast.tally_changes VALUES ('2026-01-05 11:30Z', 'succeeded', 15, 7)`)
	at := func(hour int) time.Time { return time.Date(2026, 1, 5, hour, 0, 0, 0, time.UTC) }
	got, err := s.a.Histogram(t.Context(), at(10), at(16), 2*time.Hour)
	want := []storage.Quarter{
		{From: at(10), Runs: map[jobs.State]int{jobs.Succeeded: 10, jobs.Skipped: 3},
			Delays: storage.Delays{0: 3, 15: 7}},
		{From: at(12), Runs: map[jobs.State]int{jobs.Succeeded: 5}, Delays: storage.Delays{4: 5}},
		{From: at(14), Runs: map[jobs.State]int{jobs.Failed: 6}, Delays: storage.Delays{4: 6}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
}

// The tallies of a month are read by their key.
func TestPlansOfTallies(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec(`INSERT INTO holdfast.tallies
SELECT timestamptz '2026-01-01' + n / 20 * interval '15 minutes', 'succeeded', n % 20, 1
    FROM generate_series(1, 20000) n`)
	s.vacuum()
	for name, plan := range map[string]string{
		"readTallies": s.plan("SELECT", strings.NewReplacer("$1", "'2026-03-01'", "$2",
			"'2026-03-02'", "$3", "7200").Replace(readTallies)),
		"foldTallies":  s.plan(beginPipeline, foldTallies),
		"pruneTallies": s.plan(beginPipeline, pruneTallies),
	} {
		if strings.Contains(plan, "Seq Scan on tallies") {
			t.Errorf("%s reads all tallies:\n%s", name, plan)
		}
	}
	if storage.MaxHistogram%storage.QuarterLength != 0 {
		t.Error("the longest histogram is not a whole number of quarters")
	}
}

// The tallies also count runs that were pruned before the others. If a table of some size has much
// fewer runs, its estimate is used. The estimate of a small table is not: an ANALYZE may have found
// it almost empty, also if it had many pages with deleted rows.
func TestEndedRunsAreEstimatedByALargeTableOnly(t *testing.T) {
	t.Parallel()
	s := newSingleHarness(t)
	end := func(runs int) {
		t.Helper()
		s.exec(`INSERT INTO holdfast.runs (id, job, scheduled_at, state, replica, created_at,
        finished_at, detail)
    SELECT gen_random_uuid(), 'job ' || gen_random_uuid(), t, 'succeeded', 'a', t, t,
        repeat('x', 1600) FROM generate_series(1, $1) n, LATERAL (SELECT now() AS t) t`, runs)
	}
	expect := func(least, most int) {
		t.Helper()
		ended, err := s.a.EndedRuns(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		if ended.Runs < least || ended.Runs > most || !ended.Estimated {
			t.Errorf("%+v, want an estimate of %d to %d", ended, least, most)
		}
	}
	s.exec("INSERT INTO holdfast.tallies VALUES (holdfast.quarter(now()), 'succeeded', 0, 90000)")
	end(400)
	s.exec("DELETE FROM holdfast.runs")
	s.exec("ANALYZE holdfast.runs")
	end(20)
	expect(90_420, 90_420)
	end(4980)
	s.exec("ANALYZE holdfast.runs")
	expect(4900, 5100)
}
