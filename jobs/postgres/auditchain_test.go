package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestAuditChainFindsChanges changes a sealed log in each way that VerifyAudit must find.
func TestAuditChainFindsChanges(t *testing.T) {
	t.Parallel()
	s := newSingleHarness(t)
	jobstest.FindsAuditChanges(t, s.a, "holdfast.", func(statement string) { s.exec(statement) })
}

// TestPruneForgedAudit prunes a log that somebody has changed.
func TestPruneForgedAudit(t *testing.T) {
	t.Parallel()
	s := newSingleHarness(t)
	jobstest.PrunesForgedAudit(t, s.a, "holdfast.", func(statement string) { s.exec(statement) },
		literal)
}

// TestFindUnsealedAudit checks a log that no replica seals.
func TestFindUnsealedAudit(t *testing.T) {
	t.Parallel()
	s := newSingleHarness(t)
	jobstest.FindsUnsealedAudit(t, s.a, "holdfast.", func(statement string) { s.exec(statement) },
		literal)
}

// TestForgedQueueDoesNotStopSeals seals a log whose queue somebody has changed.
func TestForgedQueueDoesNotStopSeals(t *testing.T) {
	t.Parallel()
	s := newSingleHarness(t)
	jobstest.SealsDespiteForgedQueue(t, s.a, "holdfast.",
		func(statement string) { s.exec(statement) }, literal)
}

// TestForgedTimesAreRefused checks the constraints on times.
func TestForgedTimesAreRefused(t *testing.T) {
	t.Parallel()
	s := newSingleHarness(t)
	jobstest.RefusesForgedTimes(t, s.a, "holdfast.", func(statement string) error {
		_, err := s.watcher().Exec(t.Context(), statement)
		return err
	}, "'infinity'", "'-infinity'", "'10000-01-01'", "'0001-01-01'")
}

// literal returns a time as a literal of SQL.
func literal(at time.Time) string { return "'" + at.UTC().Format(time.RFC3339) + "'" }

// TestSealWaitsForNoAction seals while a program's transaction has written an entry, and seals this
// entry after the commit, although later entries have links.
func TestSealWaitsForNoAction(t *testing.T) {
	t.Parallel()
	s := newSingleHarness(t)
	session := s.session(s.a, "a")
	s.register(s.a, session, storage.Definition{Name: "a", Hash: "1"})
	conn := s.watcher()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.a.TriggerTx(t.Context(), tx, storage.Action{Actor: "early", Via: "go"},
		storage.TriggerRequest{Job: "a"}); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if _, err := s.a.Pause(t.Context(), storage.Action{Actor: "later", Via: "go"},
			storage.Target{Kind: storage.TargetGroup, Name: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.a.SealAudit(t.Context(), 10); n != 2 || err != nil {
		t.Fatalf("sealed %d beside an open transaction: %v", n, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := s.a.SealAudit(t.Context(), 10); n != 1 || err != nil {
		t.Fatalf("sealed %d after the commit: %v", n, err)
	}
	if v, err := storage.VerifyAudit(t.Context(), s.a,
		storage.ChainRules{}); err != nil || v.Problem != "" ||
		v.Checked != 3 {
		t.Errorf("got %+v (%v), want 3 checked entries without a problem", v, err)
	}
}

// TestSealAfterPruning checks a replica that has read entries which another replica prunes before
// the first adds their links.
func TestSealAfterPruning(t *testing.T) {
	t.Parallel()
	s := newSingleHarness(t)
	if _, err := s.a.Pause(t.Context(), storage.Action{Actor: "ann", Via: "go"},
		storage.Target{Kind: storage.TargetAll}); err != nil {
		t.Fatal(err)
	}
	id := query[string](s, "SELECT id::text FROM holdfast.audit")
	if _, err := s.a.Prune(t.Context(), [16]byte{1}, storage.PruneRequest{Limit: 10}); err != nil {
		t.Fatal(err)
	}
	tag, err := s.a.pool.Exec(t.Context(), addLinks, 0, 0, []string{id},
		[]string{"2026-01-01"}, [][]byte{make([]byte, 32)}, make([]byte, 32))
	if err != nil || tag.RowsAffected() != 0 {
		t.Errorf("added %d links of a pruned line, %v", tag.RowsAffected(), err)
	}
}

// TestSealWaitsForAPrune checks a replica that has read an old entry while a prune deletes that
// entry. The replica must wait for the end of the prune and then add no link for the entry.
func TestSealWaitsForAPrune(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	if _, err := s.a.Pause(t.Context(), storage.Action{Actor: "ann", Via: "go"},
		storage.Target{Kind: storage.TargetAll}); err != nil {
		t.Fatal(err)
	}
	id := query[string](s, "SELECT id::text FROM holdfast.audit")
	resume := s.pause("a", "holdfast.audit", "DELETE", "true")
	pruned := make(chan error, 1)
	go func() {
		_, err := s.a.Prune(t.Context(), [16]byte{1}, storage.PruneRequest{Limit: 10})
		pruned <- err
	}()
	awaitWaiting(s, "a", pruned)
	added := make(chan int64, 1)
	go func() {
		tag, err := s.b.pool.Exec(t.Context(), addLinks, 0, 0, []string{id},
			[]string{"2026-01-01"}, [][]byte{make([]byte, 32)}, make([]byte, 32))
		if err != nil {
			t.Error(err)
		}
		added <- tag.RowsAffected()
	}()
	awaitWaiting(s, "b", added)
	resume()
	if err := <-pruned; err != nil {
		t.Fatal(err)
	}
	if n := <-added; n != 0 {
		t.Errorf("added %d links of a line that was pruned, want none", n)
	}
}
