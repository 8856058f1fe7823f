package app

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestDatabasesOfReplica checks what the scheduler, the metrics and the page get of databases
// before the first check, while they answer, and while they are down.
func TestDatabasesOfReplica(t *testing.T) {
	refused, since := errors.New("connection refused"), time.Unix(1, 0)
	r := &Replica{}
	for name, state := range map[string]*databaseState{
		"new": nil, "up": {nil, since}, "down": {refused, since}} {
		d := &jobDatabase{name: name}
		if state != nil {
			d.state.Store(state)
		}
		r.databases = append(r.databases, d)
	}
	for name, up := range r.availableDatabases() {
		err := r.databasesOfEngine()[name].Available()
		if up != (name != "down") || (err == nil) != up {
			t.Errorf("%s: got up: %t, %v", name, up, err)
		}
		if !up && (!errors.Is(err, refused) || !strings.Contains(err.Error(), "since 1970")) {
			t.Errorf("%s: got %v, want the reason and the time", name, err)
		}
	}
	for name, want := range map[string]storage.DatabaseState{"new": {}, "up": {Since: since},
		"down": {Error: "connection refused", Since: since}} {
		if got := r.databasesOfEngine()[name].State(); got != want {
			t.Errorf("%s: got %+v for the heartbeats, want %+v", name, got, want)
		}
	}
	for _, d := range r.databasesOfStatus() {
		if (d.Err != nil) != (d.Name == "down") || d.Since.IsZero() != (d.Name == "new") {
			t.Errorf("got %+v for the page", d)
		}
	}
}
