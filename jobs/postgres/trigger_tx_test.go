package postgres

import (
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// serviceTx is a transaction of a service.
type serviceTx struct {
	trigger  func(storage.Action, storage.TriggerRequest) (storage.Triggered, error)
	exec     func(statement string) error
	commit   func() error
	rollback func() error
}

// pgxTransaction begins a transaction of pgx.
func pgxTransaction(s *harness) (serviceTx, error) {
	ctx := s.t.Context()
	tx, err := s.watcher().Begin(ctx)
	return serviceTx{
		trigger: func(a storage.Action, r storage.TriggerRequest) (storage.Triggered, error) {
			return s.a.TriggerTx(ctx, tx, a, r)
		},
		exec: func(statement string) error {
			_, err := tx.Exec(ctx, statement)
			return err
		},
		commit:   func() error { return tx.Commit(ctx) },
		rollback: func() error { return tx.Rollback(ctx) },
	}, err
}

// sqlTransaction begins a transaction of database/sql.
func sqlTransaction(s *harness) (serviceTx, error) {
	ctx := s.t.Context()
	db, err := sql.Open("pgx", s.url)
	if err != nil {
		return serviceTx{}, err
	}
	s.t.Cleanup(func() {
		if err := db.Close(); err != nil {
			s.t.Error(err)
		}
	})
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return serviceTx{}, err
	}
	return serviceTx{
		trigger: func(a storage.Action, r storage.TriggerRequest) (storage.Triggered, error) {
			return s.a.TriggerSQLTx(ctx, tx, a, r)
		},
		exec: func(statement string) error {
			_, err := tx.ExecContext(ctx, statement)
			return err
		},
		commit:   tx.Commit,
		rollback: tx.Rollback,
	}, nil
}

// eachTransaction runs a test with transactions of pgx and of database/sql.
func eachTransaction(t *testing.T, test func(t *testing.T, s *harness, begin func() serviceTx)) {
	for name, open := range map[string]func(*harness) (serviceTx, error){
		"pgx": pgxTransaction, "database_sql": sqlTransaction,
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			test(t, s, func() serviceTx {
				t.Helper()
				tx, err := open(s)
				if err != nil {
					t.Fatal(err)
				}
				return tx
			})
		})
	}
}

// TestTriggerInATransaction triggers in transactions of a service. A run exists if and only if its
// transaction commits.
func TestTriggerInATransaction(t *testing.T) {
	t.Parallel()
	eachTransaction(t, func(t *testing.T, s *harness, open func() serviceTx) {
		session := s.session(s.a, "a")
		s.register(s.a, session, storage.Definition{Name: "export", Hash: "1"})
		s.exec("CREATE TABLE public.orders (n int)")
		anna := storage.Action{Actor: "anna", Via: "go"}
		request := storage.TriggerRequest{Job: "export", Key: "order 1"}
		begin := func() serviceTx {
			t.Helper()
			tx := open()
			if err := tx.exec("INSERT INTO public.orders VALUES (1)"); err != nil {
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
				t.Errorf("%s: got %v orders, runs and lines of the audit log, want %v", when,
					found, want)
			}
		}

		tx := begin()
		first, err := tx.trigger(anna, request)
		if err != nil || !first.Created || first.State != jobs.Waiting {
			t.Fatalf("got %+v, %v, want a waiting run", first, err)
		}
		expect("before the commit", 0, 0, 0)
		if err := tx.rollback(); err != nil {
			t.Fatal(err)
		}
		expect("after a rollback", 0, 0, 0)

		tx = begin()
		second, err := tx.trigger(anna, request)
		if err != nil || second.ID == first.ID {
			t.Fatalf("got run %s, %v, want a new one", second.ID, err)
		}
		if _, err := tx.trigger(anna, storage.TriggerRequest{Job: "nowhere"}); !errors.Is(err,
			storage.ErrNotFound) {
			t.Errorf("an unknown job: got %v, want storage.ErrNotFound", err)
		}
		atOnce := request
		atOnce.Wait = new(time.Duration)
		if _, err := tx.trigger(anna, atOnce); !errors.Is(err, ErrAtOnce) {
			t.Errorf("with a Wait of 0: got %v, want ErrAtOnce", err)
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
		expect("after the commit", 1, 1, 1)

		tx = begin()
		again, err := tx.trigger(anna, request)
		if err != nil || again.Created || again.ID != second.ID {
			t.Errorf("the same key again: got %+v, %v, want the run %s", again, err, second.ID)
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
		expect("after the same key again", 2, 1, 1)

		tx = begin()
		later, err := tx.trigger(anna, storage.TriggerRequest{Job: "export", Delay: time.Hour})
		if err != nil || !later.Created ||
			!later.ScheduledAt.Equal(later.CreatedAt.Add(time.Hour)) ||
			!later.WaitSince.Equal(later.ScheduledAt) {
			t.Errorf("for a later time: got %+v, %v", later, err)
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
		expect("after a trigger for a later time", 3, 2, 2)
	})
}

// TestTriggerInATransactionReadsRuns checks what a trigger in a transaction reads: a run with all
// of its values, and refusals, which leave the transaction usable.
func TestTriggerInATransactionReadsRuns(t *testing.T) {
	t.Parallel()
	eachTransaction(t, func(t *testing.T, s *harness, open func() serviceTx) {
		session := s.session(s.a, "a")
		s.register(s.a, session, storage.Definition{Name: "export", Hash: "1"},
			storage.Definition{Name: "paused", Hash: "1"})
		anna := storage.Action{Actor: "anna", Via: "go", Reason: "late order"}
		at := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
		request := storage.TriggerRequest{Job: "export", Key: "order 1", At: at,
			Wait: new(time.Minute), Params: json.RawMessage(`{"order": 1}`)}
		tx := open()
		first, err := tx.trigger(anna, request)
		if err != nil || !first.ScheduledAt.Equal(at) || first.StartBy == nil ||
			!first.StartBy.Equal(at.Add(time.Minute)) || first.KeyActor != "anna" ||
			string(first.Params) != `{"order": 1}` {
			t.Fatalf("got %+v, %v", first, err)
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
		s.exec(`UPDATE holdfast.runs SET retry_waits = ARRAY['2026-01-02T03:04:05Z'::timestamptz]
			WHERE id = $1`, first.ID)
		if _, err := s.a.Pause(t.Context(), storage.Action{Actor: "bob", Via: "go"},
			storage.Target{Kind: storage.TargetJob, Name: "paused"}); err != nil {
			t.Fatal(err)
		}

		tx = open()
		want, err := s.a.Run(t.Context(), first.ID)
		if err != nil {
			t.Fatal(err)
		}
		again, err := tx.trigger(anna, request)
		if err != nil {
			t.Fatal(err)
		}
		equalJSON(t, again.Record, want)
		other := request
		other.Params = json.RawMessage(`{"order": 2}`)
		if _, err := tx.trigger(anna, other); !errors.Is(err, storage.ErrKeyUsed) {
			t.Errorf("other params with the key: got %v, want storage.ErrKeyUsed", err)
		}
		var paused *storage.PausedError
		if _, err := tx.trigger(anna, storage.TriggerRequest{Job: "paused"}); !errors.As(err,
			&paused) || paused.Pause.By != "bob" || paused.Pause.At.IsZero() {
			t.Errorf("a paused job: got %v, want a pause by bob", err)
		}
		if _, err := tx.trigger(anna, storage.TriggerRequest{Job: "export"}); err != nil {
			t.Errorf("after refusals: %v", err)
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestTriggerInATransactionElsewhere triggers in a database without the schema of the store.
func TestTriggerInATransactionElsewhere(t *testing.T) {
	t.Parallel()
	eachTransaction(t, func(t *testing.T, s *harness, open func() serviceTx) {
		s.session(s.a, "a")
		tx := open()
		if err := tx.exec("ALTER SCHEMA holdfast RENAME TO elsewhere"); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.trigger(storage.Action{Actor: "anna", Via: "go"},
			storage.TriggerRequest{Job: "export"}); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("got %v, want storage.ErrNotFound", err)
		}
		if err := tx.exec("ALTER SCHEMA elsewhere RENAME TO holdfast"); err != nil {
			t.Errorf("after the refusal: %v", err)
		}
		if err := tx.rollback(); err != nil {
			t.Fatal(err)
		}
	})
}

// equalJSON compares the JSON of two runs.
func equalJSON(t *testing.T, got, want storage.Record) {
	t.Helper()
	g, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	w, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(g) != string(w) {
		t.Errorf("got %s\nwant %s", g, w)
	}
}

// TestIntervalsOfSQLTransactions checks that PostgreSQL reads each duration that a driver of
// database/sql sends as text. Releases before 15 refuse numbers of more than 31 bits.
func TestIntervalsOfSQLTransactions(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	for _, d := range []time.Duration{0, time.Microsecond, -time.Second - time.Microsecond,
		36 * time.Minute, 59*time.Minute + 59*time.Second + 999999*time.Microsecond,
		400 * 24 * time.Hour, time.Duration(math.MaxInt64).Truncate(time.Microsecond)} {
		text := intervalText(d)
		for _, number := range strings.FieldsFunc(text, func(r rune) bool {
			return r < '0' || r > '9'
		}) {
			if _, err := strconv.ParseInt(number, 10, 32); err != nil {
				t.Errorf("%v: got %q, want numbers of at most 31 bits", d, text)
			}
		}
		if got := query[time.Duration](s, "SELECT $1::text::interval", text); got != d {
			t.Errorf("%v as %q: PostgreSQL reads %v", d, text, got)
		}
	}
}
