package app

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/test/simstore"
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
	for name, up := range availableDatabases(r.databases) {
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
	for _, d := range databasesOfStatus(r.databases) {
		if (d.Err != nil) != (d.Name == "down") || d.Since.IsZero() != (d.Name == "new") {
			t.Errorf("got %+v for the page", d)
		}
	}
}

// TestFenceKeepsRowsOfOpenRuns checks for how long the fence keeps rows while a run waits for
// longer than the history keeps ended runs. A run for a later time has committed nothing yet.
func TestFenceKeepsRowsOfOpenRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, session := simstore.New(), uuid.New()
		defer store.Close()
		ann := storage.Action{Actor: "ann", Via: "go"}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(store.Open(t.Context(), storage.Session{ID: session, Replica: "a", TTL: time.Hour}))
		_, err := store.Register(t.Context(), session, []storage.Definition{{Name: "load"}})
		must(err)
		trigger := func(delay time.Duration) uuid.UUID {
			t.Helper()
			answer, err := store.Trigger(t.Context(), ann,
				storage.TriggerRequest{Job: "load", Delay: delay})
			must(err)
			return answer.Record.ID
		}
		trigger(1000 * time.Hour)
		time.Sleep(5 * time.Hour)
		open := trigger(0)
		d := &jobDatabase{keep: time.Hour, store: store}
		keeps := func(want time.Duration) {
			t.Helper()
			got, err := d.keepRows(t.Context())
			must(err)
			if (got - want).Abs() > time.Second {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		keeps(time.Hour + databaseKeepMore)
		time.Sleep(100 * time.Hour)
		trigger(0)
		keeps(100*time.Hour + databaseKeepMore)
		_, err = store.Cancel(t.Context(), ann, open)
		must(err)
		keeps(time.Hour + databaseKeepMore)
	})
}
