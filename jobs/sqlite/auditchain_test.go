package sqlite_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestAuditChainFindsChanges changes a sealed log in each way that VerifyAudit must find.
func TestAuditChainFindsChanges(t *testing.T) {
	s := open(t)
	jobstest.FindsAuditChanges(t, s, "holdfast_", func(statement string) {
		if _, err := s.Writer().ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPruneForgedAudit prunes a log that somebody has changed.
func TestPruneForgedAudit(t *testing.T) {
	s := open(t)
	jobstest.PrunesForgedAudit(t, s, "holdfast_", func(statement string) {
		if _, err := s.Writer().ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}, literal)
}

// TestFindUnsealedAudit checks a log that no replica seals.
func TestFindUnsealedAudit(t *testing.T) {
	s := open(t)
	jobstest.FindsUnsealedAudit(t, s, "holdfast_", func(statement string) {
		if _, err := s.Writer().ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}, literal)
}

// TestForgedQueueDoesNotStopSeals seals a log whose queue somebody has changed.
func TestForgedQueueDoesNotStopSeals(t *testing.T) {
	s := open(t)
	jobstest.SealsDespiteForgedQueue(t, s, "holdfast_", func(statement string) {
		if _, err := s.Writer().ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}, literal)
}

// TestForgedTimesAreRefused checks the constraints on times.
func TestForgedTimesAreRefused(t *testing.T) {
	s := open(t)
	jobstest.RefusesForgedTimes(t, s, "holdfast_", func(statement string) error {
		_, err := s.Writer().ExecContext(t.Context(), statement)
		return err
	}, "'2026-11-01'", "-1", "253402300800000000", "1e30")
}

// literal returns a time as a column has it.
func literal(at time.Time) string { return strconv.FormatInt(at.UnixMicro(), 10) }

// SQLite stores any text as a detail. No detail may stop the seal of later entries, and each change
// of it must be found.
func TestSealCoversAnyDetail(t *testing.T) {
	for _, detail := range []string{`{"a": 1, "a": 2}`, `{"a"`, `{"a": 1} x`, `"\ud800"`,
		"{\"a\": \"\xff\xfe\"}", "{\"a\": \"\xff"} {
		s := open(t)
		execute := func(statement string, args ...any) {
			t.Helper()
			if _, err := s.Writer().ExecContext(t.Context(), statement, args...); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"first", "second"} {
			if _, err := s.Pause(t.Context(), storage.Action{Actor: "ann", Via: "go"},
				storage.Target{Kind: storage.TargetGroup, Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		const set = "UPDATE holdfast_audit SET detail = ? WHERE target = 'group first'"
		execute(set, detail)
		if n, err := s.SealAudit(t.Context(), 10); n != 2 || err != nil {
			t.Errorf("%s: sealed %d, %v", detail, n, err)
		}
		checkExport(t, s, detail)
		v, err := storage.VerifyAudit(t.Context(), s, storage.ChainRules{})
		if err != nil || v.Problem != "" || v.Checked != 2 {
			t.Errorf("%s: %+v, %v", detail, v, err)
		}
		execute(set, strings.NewReplacer("1", "3", "8", "9", `"a"`, `"b"`).Replace(detail))
		v, err = storage.VerifyAudit(t.Context(), s, storage.ChainRules{})
		if err != nil || v.Problem == "" || v.Seq != 1 {
			t.Errorf("%s changed: %+v, %v", detail, v, err)
		}
	}
}

// checkExport checks that the entries can be encoded as JSON, and that their hashes can be computed
// from it.
func checkExport(t *testing.T, s *sqlite.Store, detail string) {
	t.Helper()
	entries, err := s.Audit(t.Context(), storage.AuditFilter{OldestFirst: true})
	if err != nil {
		t.Fatal(err)
	}
	var exported []storage.Audited
	for _, entry := range entries {
		line, err := json.Marshal(entry)
		if err != nil {
			t.Fatalf("%q: %v", detail, err)
		}
		var decoded storage.Audited
		if err := json.Unmarshal(line, &decoded); err != nil {
			t.Fatalf("%q: %v", detail, err)
		}
		exported = append(exported, decoded)
	}
	links, err := s.AuditLinks(t.Context(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i, link := range storage.SealAll(storage.ChainHead{}, exported) {
		if link.Hash != links[i].Hash {
			t.Errorf("%q: entry %d of the export has another hash", detail, i)
		}
	}
}
