package admin

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestDatabasesOfJobsInReadiness checks that a replica is ready while a database of jobs is down,
// and that only users learn of databases.
func TestDatabasesOfJobsInReadiness(t *testing.T) {
	const lines = "\ndatabase archive: unknown\ndatabase marts: available\n" +
		"database warehouse: unavailable: dial tcp 10.0.3.9:5432: connect: connection refused"
	o := calm()
	o.Databases = func() []JobDatabase {
		return []JobDatabase{{Name: "archive"}, {Name: "marts", Since: ago(3 * time.Hour)},
			{Name: "warehouse", Since: ago(42 * time.Second), Err: errors.New(
				"dial tcp 10.0.3.9:5432: connect: connection refused")}}
	}
	if reply := get(t, newServer(t, o).Handler(), "/readyz"); reply.Code != http.StatusOK ||
		strings.TrimSpace(reply.Body.String()) != "ready"+lines {
		t.Errorf("got %d %q, want 200 and the databases", reply.Code, reply.Body)
	}
	o.Users = []User{user(t, "anna", "x", Viewer)}
	if reply := get(t, newServer(t, o).Handler(), "/readyz"); reply.Code != http.StatusOK ||
		strings.TrimSpace(reply.Body.String()) != "ready" {
		t.Errorf("without a user: got %d %q, want 200 and nothing more", reply.Code, reply.Body)
	}
}
