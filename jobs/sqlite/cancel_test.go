package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// cancels returns the cancels of the session by run.
func (r running) cancels(t *testing.T, session uuid.UUID) map[uuid.UUID]string {
	t.Helper()
	state, err := r.ControlState(t.Context(), session, -1)
	if err != nil {
		t.Fatal(err)
	}
	return state.Cancels
}

func (r running) expectCancel(t *testing.T, when string) {
	t.Helper()
	if got := r.cancels(t, r.session); len(got) != 1 || got[r.run.ID] != byHand.Actor {
		t.Errorf("cancels %s: %v, want one by %s", when, got, byHand.Actor)
	}
}

// heard returns a channel that gets a value for each action of the process from now on.
func heard(t *testing.T, s *sqlite.Store) <-chan struct{} {
	t.Helper()
	actions := make(chan struct{}, 10)
	go func() { _ = s.Listen(t.Context(), func() { actions <- struct{}{} }) }()
	<-actions // Listen calls the function at its begin
	return actions
}

// A run inside a transaction has the only writer. Its replica must learn of the cancel before the
// transaction ends.
func TestCancelOfARunInsideATransaction(t *testing.T) {
	r := startRun(t)
	actions, other := heard(t, r.Store), openSession(t, r.Store)
	ctx, giveUp := context.WithTimeout(t.Context(), 10*time.Second)
	defer giveUp()
	type answer struct {
		record storage.Record
		err    error
	}
	answered := make(chan answer, 1)
	if err := sqlite.InTx(t.Context(), r.run, func(tx *sql.Tx) error {
		go func() {
			record, err := r.Cancel(ctx, byHand, r.run.ID)
			answered <- answer{record, err}
		}()
		select {
		case <-actions:
		case <-ctx.Done():
			t.Error("the cancel is not announced")
		}
		r.expectCancel(t, "during the transaction")
		if got := r.cancels(t, other); len(got) != 0 {
			t.Errorf("cancels of another session: %v", got)
		}
		return insertSale(tx)
	}); err != nil {
		t.Fatal(err)
	}
	r.expectCancel(t, "after the transaction")
	if got := <-answered; got.err != nil || got.record.ID != r.run.ID {
		t.Errorf("cancel: %+v (%v)", got.record, got.err)
	}
	r.expectAudit(t, "cancel")
	r.expect(t, jobs.Running, 1)
}

// The replica may have ended the context of the handler already, so the cancel must be written.
func TestCancelIsWrittenAfterItsCallerHasLeft(t *testing.T) {
	r := startRun(t)
	actions := heard(t, r.Store)
	ctx, leave := context.WithTimeout(t.Context(), 10*time.Second)
	defer leave()
	if err := sqlite.InTx(t.Context(), r.run, func(*sql.Tx) error {
		go func() {
			<-actions
			leave()
		}()
		if _, err := r.Cancel(ctx, byHand, r.run.ID); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("cancel: %v, want ErrUnavailable", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r.expectCancel(t, "after the transaction")
	r.expectAudit(t, "cancel")
}

func TestCancelOfARunThatCompletesInItsTransaction(t *testing.T) {
	r := startRun(t)
	actions := heard(t, r.Store)
	ctx, giveUp := context.WithTimeout(t.Context(), 10*time.Second)
	defer giveUp()
	refused := make(chan error, 1)
	if err := sqlite.CompleteInTx(t.Context(), r.run, func(tx *sql.Tx) error {
		go func() {
			_, err := r.Cancel(ctx, byHand, r.run.ID)
			refused <- err
		}()
		select {
		case <-actions:
		case <-ctx.Done():
			t.Error("the cancel is not announced")
		}
		return insertSale(tx)
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; !errors.Is(err, storage.ErrConflict) {
		t.Errorf("cancel: %v, want ErrConflict", err)
	}
	r.expectAudit(t)
	r.expect(t, jobs.Succeeded, 1)
}

// A key that was used for another action refuses the cancel, so it must not reach the replica.
func TestRefusedCancelDoesNotReachTheReplica(t *testing.T) {
	r := startRun(t)
	used := storage.Action{Actor: "ann", Via: "cli", Key: "k"}
	if _, err := r.Pause(t.Context(), used, storage.Target{Kind: storage.TargetAll}); err != nil {
		t.Fatal(err)
	}
	if err := sqlite.InTx(t.Context(), r.run, func(*sql.Tx) error {
		ctx, giveUp := context.WithTimeout(t.Context(), 10*time.Second)
		defer giveUp()
		if _, err := r.Cancel(ctx, used, r.run.ID); !errors.Is(err, storage.ErrKeyUsed) {
			t.Errorf("cancel: %v, want ErrKeyUsed", err)
		}
		if got := r.cancels(t, r.session); len(got) != 0 {
			t.Errorf("cancels %v, want none", got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r.expectAudit(t, "pause")
}

// expectAudit compares the actions in the audit log.
func (r running) expectAudit(t *testing.T, want ...string) {
	t.Helper()
	entries, err := r.Audit(t.Context(), storage.AuditFilter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Action)
	}
	if !slices.Equal(got, want) {
		t.Errorf("audit log has %q, want %q", got, want)
	}
}
