package admin

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// withDatabases is a calm cluster with databases of jobs in every state.
func withDatabases() Options {
	o := calm()
	o.Databases = func() []JobDatabase {
		return []JobDatabase{{Name: "archive"}, {Name: "marts", Since: ago(3 * time.Hour)},
			{Name: "warehouse", Since: ago(42 * time.Second), Err: errors.New(
				"dial tcp 10.0.3.9:5432: connect: connection refused")}}
	}
	return o
}

// TestDatabasesOfJobsOnThePage checks that the page of replicas has the databases also while the
// store does not answer, and no list if there are none.
func TestDatabasesOfJobsOnThePage(t *testing.T) {
	o := withDatabases()
	handler := newServer(t, o).Handler()
	for _, status := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		reply := get(t, handler, "/replicas")
		page := reply.Body.String()
		if reply.Code != status || strings.Count(page, `class="badge available"`) != 1 ||
			strings.Count(page, `class="badge unavailable"`) != 1 ||
			!strings.Contains(page, "connection refused</bdi>") {
			_, part, _ := strings.Cut(page, "Databases of jobs")
			t.Errorf("got %d, want %d and the databases with their states:\n%s", reply.Code, status,
				part)
		}
		o.Store.(*history).err = down().Store.(*history).err
	}
	none := calm()
	none.Databases = func() []JobDatabase { return nil }
	for name, o := range map[string]Options{"without": calm(), "none": none} {
		page := get(t, newServer(t, o).Handler(), "/replicas").Body.String()
		if strings.Contains(page, "Databases of jobs") {
			t.Errorf("%s: got a list of databases", name)
		}
	}
}

// TestDatabasesOfJobsInReadiness checks that a replica is ready while a database of jobs is down,
// and that only users learn of databases.
func TestDatabasesOfJobsInReadiness(t *testing.T) {
	const lines = "\ndatabase archive: unknown\ndatabase marts: available\n" +
		"database warehouse: unavailable: dial tcp 10.0.3.9:5432: connect: connection refused"
	o := withDatabases()
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
