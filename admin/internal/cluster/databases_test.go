package cluster

import (
	"errors"
	"strings"
	"testing"
)

// TestDatabasesInStatus checks the part of each database of jobs, and the problem of one that is
// down. It is shown also while the store does not answer.
func TestDatabasesInStatus(t *testing.T) {
	e := healthyEvidence()
	e.Databases = []JobDatabase{{Name: "marts"},
		{Name: "warehouse", Err: errors.New("connection refused"), Since: night}}
	for _, failure := range []string{"", "no answer"} {
		e.StoreError = failure
		status := NewStatus(e)
		parts := status.Parts[len(status.Parts)-2:]
		if (parts[0] != StatusPart{"Database marts", Neutral, "answers"}) ||
			(parts[1] != StatusPart{"Database warehouse", Amber, "is not available"}) {
			t.Errorf("got the parts %+v", parts)
		}
		problems := status.Of(KindDatabase)
		if len(problems) != 1 || problems[0].Subject != "warehouse" ||
			!problems[0].Since.Equal(night) ||
			!strings.Contains(problems[0].Text, "to a: connection refused. Its jobs wait") {
			t.Errorf("got the problems %+v, want one of the database that is down", problems)
		}
		if failure == "" && (status.Severity != Amber ||
			status.Headline != "1 database of jobs is not available") {
			t.Errorf("got %s, %s", status.Severity, status.Headline)
		}
	}
}
