package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin"
)

// TestDatabaseRows checks the rows of a database that is down for one replica, and that another one
// has not checked yet.
func TestDatabaseRows(t *testing.T) {
	at := time.Date(2026, 3, 14, 2, 30, 0, 0, time.UTC)
	var got []string
	for _, row := range databaseRows([]admin.Database{{Name: "warehouse",
		Replicas: []admin.DatabaseView{{Replica: "a", Available: true},
			{Replica: "b", Error: "connection refused", Since: at}}}}) {
		got = append(got, strings.Join(row, " | "))
	}
	want := []string{"warehouse | a | available | - | ",
		"warehouse | b | not available | " + clock(&at) + " | connection refused"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
