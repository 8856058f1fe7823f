package postgres

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// written returns what a run that completes itself has written.
func (s *harness) written(job string, run *jobs.Run) (saved, result string, deliveries int) {
	s.t.Helper()
	raw, err := s.b.Saved(s.t.Context(), job)
	if err != nil {
		s.t.Fatal(err)
	}
	record, err := s.b.Run(s.t.Context(), run.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	taken, err := s.b.TakeDeliveries(s.t.Context(), "w", 0, 10)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(raw), string(record.Result), len(taken)
}

// next requests the job's next firing.
func next(t *testing.T, job string) storage.StartRequest {
	r := request(t, job)
	r.Firing.ScheduledAt = r.Firing.ScheduledAt.Add(time.Second)
	return r
}

// State, result and webhook deliveries commit with the job's own writes, or not at all.
func TestRunCompletedInItsTransactionIsStoredByIt(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	s.register(s.a, session, storage.Definition{Name: "job", Hash: "h", Handler: "h",
		Hooks: []jobs.Hook{{Webhook: "w", State: jobs.Succeeded},
			{Webhook: "w", State: jobs.Lost}}})
	broken := errors.New("broken")
	complete := func(run *jobs.Run, n int, fail error) error {
		return CompleteInTx(t.Context(), run, func(pgx.Tx) error {
			return errors.Join(run.Save(n), run.SetResult(map[string]int{"n": n}), fail)
		})
	}
	run := s.granted(s.a, session, request(t, "job"))
	if err := complete(run, 1, broken); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if saved, result, deliveries := s.written("job", run); saved != "" || result != "" ||
		deliveries != 0 {
		t.Errorf("rolled back: saved %q, result %q, %d deliveries", saved, result, deliveries)
	}
	if n := s.ended(s.a); len(n) != 0 {
		t.Errorf("rolled back: %v runs are counted as ended", n)
	}
	if err := complete(run, 2, nil); err != nil {
		t.Fatal(err)
	}
	if saved, result, deliveries := s.written("job", run); saved != "2" || result != `{"n":2}` ||
		deliveries != 1 {
		t.Errorf("completed: saved %q, result %q, %d deliveries", saved, result, deliveries)
	}
	if n := s.ended(s.a); n[jobs.Succeeded] != 1 || len(n) != 1 {
		t.Errorf("completed: %v runs are counted as ended, want one success", n)
	}
	s.exec("DELETE FROM holdfast.deliveries")

	superseded := s.granted(s.a, session, next(t, "job"))
	if err := s.b.Revoke(t.Context(), superseded.Token, jobs.Lost,
		reasons.ClaimLost); err != nil {
		t.Fatal(err)
	}
	if err := complete(superseded, 3, nil); !errors.Is(err, storage.ErrSuperseded) {
		t.Errorf("superseded: %v", err)
	}
	if saved, result, deliveries := s.written("job", superseded); saved != "2" || result != "" ||
		deliveries != 1 {
		t.Errorf("superseded: saved %q, result %q, %d deliveries", saved, result, deliveries)
	}
}

func TestStateOfATransactionIsStoredWithIt(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.exec("CREATE TABLE public.totals (n int)")
	session := s.session(s.a, "a")
	run := s.granted(s.a, session, request(t, "job"))
	part := func(n int, fail error) error {
		return InTx(t.Context(), run, func(tx pgx.Tx) error {
			return errors.Join(insert(t.Context())(tx), SaveInTx(t.Context(), tx, run, n), fail)
		})
	}
	broken := errors.New("broken")
	if err := part(1, nil); err != nil {
		t.Fatal(err)
	}
	if err := part(2, broken); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if saved, err := s.b.Saved(t.Context(), "job"); err != nil || string(saved) != "1" {
		t.Errorf("saved %s, %v", saved, err)
	}
	if n := query[int](s, "SELECT count(*) FROM public.totals"); n != 1 {
		t.Errorf("%d parts were committed", n)
	}
	// A run that has completed itself saves nothing more, although its fence check came first.
	if _, err := s.a.Finish(t.Context(),
		[]storage.FinishRequest{{Run: run.ID, Token: run.Token, State: jobs.Failed}}); err != nil {
		t.Fatal(err)
	}
	err := pgx.BeginFunc(t.Context(), s.a.Pool(), func(tx pgx.Tx) error {
		return SaveInTx(t.Context(), tx, run, 3)
	})
	if !errors.Is(err, storage.ErrSuperseded) {
		t.Errorf("state of a run that has ended: %v", err)
	}
}

// A transaction that has saved and stays open blocks the end of no other job.
func TestFinishesWaitForAStateAsShortAsForOtherRows(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.a.lockTimeout = "200ms"
	session := s.session(s.a, "a")
	open, other := s.granted(s.a, session, request(t, "job")),
		s.granted(s.a, session, next(t, "job"))
	finish := []storage.FinishRequest{{Run: other.ID, Token: other.Token, State: jobs.Succeeded,
		Saved: []byte("2")}}
	err := InTx(t.Context(), open, func(tx pgx.Tx) error {
		if err := SaveInTx(t.Context(), tx, open, 1); err != nil {
			return err
		}
		start := time.Now()
		if _, err := s.a.Finish(t.Context(), finish); !errors.Is(err, storage.ErrRowHeld) ||
			time.Since(start) > 5*time.Second {
			t.Errorf("finish beside an open transaction that has saved: %v after %s", err,
				time.Since(start))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if done, err := s.a.Finish(t.Context(), finish); err != nil || !done[0] {
		t.Fatalf("finish: got %v (%v), want it accepted", done, err)
	}
	if saved, err := s.b.Saved(t.Context(), "job"); err != nil || string(saved) != "2" {
		t.Errorf("saved %s, %v", saved, err)
	}
}

// An update of an ended run, for example of its detail, is no second end.
func TestRunEndsOnceForWebhooks(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	s.register(s.a, session, storage.Definition{Name: "job", Hash: "h", Handler: "h",
		Hooks: []jobs.Hook{{Webhook: "w", State: jobs.Failed}}})
	run := s.granted(s.a, session, request(t, "job"))
	for range 2 {
		if _, err := s.a.Finish(t.Context(),
			[]storage.FinishRequest{{Run: run.ID, Token: run.Token,
				State: jobs.Failed}}); err != nil {
			t.Fatal(err)
		}
		s.exec("UPDATE holdfast.runs SET state = state, detail = 'more'")
	}
	if n := query[int](s, "SELECT count(*) FROM holdfast.deliveries"); n != 1 {
		t.Errorf("%d deliveries", n)
	}
}

// A batch has runs of several jobs, and runs that wait for another attempt.
func TestBatchOfEndsDeliversEachToItsWebhooks(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	hooks := func(webhook string) []jobs.Hook {
		return []jobs.Hook{{Webhook: webhook, State: jobs.Succeeded},
			{Webhook: webhook, State: jobs.Failed}}
	}
	s.register(s.a, session,
		storage.Definition{Name: "a", Hash: "h", Handler: "h", Hooks: hooks("of a")},
		storage.Definition{Name: "b", Hash: "h", Handler: "h", Hooks: hooks("of b")},
		storage.Definition{Name: "c", Hash: "h", Handler: "h", Hooks: hooks("of c")},
		storage.Definition{Name: "d", Hash: "h", Handler: "h", Hooks: hooks("of d")})
	var ends []storage.FinishRequest
	for _, end := range []struct {
		job   string
		state jobs.State
	}{{"b", jobs.Succeeded}, {"a", jobs.Failed}, {"c", jobs.Succeeded}, {"d", jobs.Waiting}} {
		run := s.granted(s.a, session, request(t, end.job))
		ends = append(ends, storage.FinishRequest{Run: run.ID, Token: run.Token, State: end.state})
	}
	if _, err := s.a.Finish(t.Context(), ends); err != nil {
		t.Fatal(err)
	}
	got := query[[]string](s, `SELECT array_agg(r.job || ' ' || d.webhook || ' ' || d.state
		ORDER BY r.job) FROM holdfast.deliveries d JOIN holdfast.runs r ON r.id = d.run`)
	if want := []string{"a of a failed", "b of b succeeded", "c of c succeeded"}; !slices.Equal(got,
		want) {
		t.Errorf("deliveries: got %v, want %v", got, want)
	}
}
