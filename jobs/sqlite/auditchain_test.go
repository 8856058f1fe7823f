package sqlite_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
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
