package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestTriggerInATransaction triggers in transactions of a service. A run exists if and only if its
// transaction commits.
func TestTriggerInATransaction(t *testing.T) {
	s := newHarness(t)
	session := s.session(s.a, "a")
	s.register(s.a, session, storage.Definition{Name: "export", Hash: "1"})
	s.exec("CREATE TABLE public.orders (n int)")
	anna := storage.Action{Actor: "anna", Via: "go"}
	request := storage.TriggerRequest{Job: "export", Key: "order 1"}
	begin := func() pgx.Tx {
		t.Helper()
		tx, err := s.watcher().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "INSERT INTO public.orders VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	expect := func(when string, orders, runs, lines int) {
		t.Helper()
		var found [3]int
		if err := s.a.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM public.orders),
			(SELECT count(*) FROM holdfast.runs WHERE job = 'export'),
			(SELECT count(*) FROM holdfast.audit WHERE action = 'trigger')`).
			Scan(&found[0], &found[1], &found[2]); err != nil {
			t.Fatal(err)
		}
		if want := [3]int{orders, runs, lines}; found != want {
			t.Errorf("%s: got %v orders, runs and lines of the audit log, want %v", when, found,
				want)
		}
	}

	tx := begin()
	first, err := s.a.TriggerTx(t.Context(), tx, anna, request)
	if err != nil || !first.Created || first.State != jobs.Waiting {
		t.Fatalf("got %+v, %v, want a waiting run", first, err)
	}
	expect("before the commit", 0, 0, 0)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("after a rollback", 0, 0, 0)

	tx = begin()
	second, err := s.a.TriggerTx(t.Context(), tx, anna, request)
	if err != nil || second.ID == first.ID {
		t.Fatalf("got run %s, %v, want a new one", second.ID, err)
	}
	if _, err := s.a.TriggerTx(t.Context(), tx, anna,
		storage.TriggerRequest{Job: "nowhere"}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("an unknown job: got %v, want storage.ErrNotFound", err)
	}
	atOnce := request
	atOnce.Wait = new(time.Duration)
	if _, err := s.a.TriggerTx(t.Context(), tx, anna, atOnce); !errors.Is(err, ErrAtOnce) {
		t.Errorf("with a Wait of 0: got %v, want ErrAtOnce", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("after the commit", 1, 1, 1)

	tx = begin()
	again, err := s.a.TriggerTx(t.Context(), tx, anna, request)
	if err != nil || again.Created || again.ID != second.ID {
		t.Errorf("the same key again: got %+v, %v, want the run %s", again, err, second.ID)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("after the same key again", 2, 1, 1)

	tx = begin()
	later, err := s.a.TriggerTx(t.Context(), tx, anna,
		storage.TriggerRequest{Job: "export", Delay: time.Hour})
	if err != nil || !later.Created || !later.ScheduledAt.Equal(later.CreatedAt.Add(time.Hour)) ||
		!later.WaitSince.Equal(later.ScheduledAt) {
		t.Errorf("for a later time: got %+v, %v", later, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("after a trigger for a later time", 3, 2, 2)
}
