package sqlite_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// State, result and webhook deliveries commit with the job's own writes, or not at all.
func TestRunCompletedInItsTransactionIsStoredByIt(t *testing.T) {
	s := open(t)
	ctx, session := t.Context(), uuid.New()
	if err := s.Open(ctx,
		storage.Session{ID: session, Replica: "a", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	hooked := storage.Definition{Name: "job", Hash: "h",
		Hooks: []jobs.Hook{{Webhook: "w", State: jobs.Succeeded}}}
	if _, err := s.Register(ctx, session, []storage.Definition{hooked}); err != nil {
		t.Fatal(err)
	}
	request := storage.StartRequest{Run: uuid.New(),
		Firing: storage.Firing{Job: "job", ScheduledAt: time.Now()}, Attempt: 1,
		WaitSince: time.Now()}
	results, err := s.Start(ctx, session, []storage.StartRequest{request})
	if err != nil {
		t.Fatal(err)
	}
	run := jobstest.StoredRun(s, request, results[0].Token)
	written := func() (saved, result string, deliveries int) {
		t.Helper()
		raw, err := s.Saved(ctx, "job")
		record, errRun := s.Run(ctx, run.ID)
		taken, errTake := s.TakeDeliveries(ctx, "w", 0, 10)
		if err := errors.Join(err, errRun, errTake); err != nil {
			t.Fatal(err)
		}
		return string(raw), string(record.Result), len(taken)
	}
	broken := errors.New("broken")
	for n, fail := range []error{broken, nil} {
		err := sqlite.CompleteInTx(ctx, run, func(*sql.Tx) error {
			return errors.Join(run.Save(n), run.SetResult([]int{n}), fail)
		})
		if !errors.Is(err, fail) {
			t.Fatal(err)
		}
		saved, result, deliveries := written()
		if fail != nil && (saved != "" || result != "" || deliveries != 0) ||
			fail == nil && (saved != "1" || result != "[1]" || deliveries != 1) {
			t.Errorf("%v: saved %q, result %q, %d deliveries", fail, saved, result, deliveries)
		}
	}
	// An update of an ended run, for example of its detail, is no second end.
	touch := storage.StartRequest{Run: uuid.New(),
		Firing: storage.Firing{Job: "other", ScheduledAt: time.Now()}, Attempt: 1,
		WaitSince: time.Now()}
	if results, err = s.Start(ctx, session, []storage.StartRequest{touch}); err != nil {
		t.Fatal(err)
	}
	err = sqlite.InTx(ctx, jobstest.StoredRun(s, touch, results[0].Token), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx,
			"UPDATE holdfast_runs SET state = state, detail = 'more' WHERE job = 'job'")
		return err
	})
	if _, _, deliveries := written(); err != nil || deliveries != 1 {
		t.Errorf("%d deliveries after a change of details (%v)", deliveries, err)
	}
	late := jobstest.StoredRun(s, request, run.Token) // without the completion
	err = sqlite.CompleteInTx(ctx, late, func(*sql.Tx) error { return late.Save("late") })
	if saved, _, deliveries := written(); !errors.Is(err, storage.ErrSuperseded) || saved != "1" ||
		deliveries != 1 {
		t.Errorf("superseded: %v, saved %q, %d deliveries", err, saved, deliveries)
	}
}
