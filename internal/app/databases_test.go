package app

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
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

// TestFenceKeepsRowsForRecoveries checks for how long the fence keeps rows while a recovery waits.
// The lost run began long before it.
func TestFenceKeepsRowsForRecoveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		list := newestFirst{{CreatedAt: now.Add(-2 * time.Hour), Recovery: 1,
			ScheduledAt: now.Add(-50 * time.Hour)}}
		for i := range 3 * storage.MaxBatch / 2 { // so that the recovery is on the second page
			list = append(list, storage.Record{ID: uuid.UUID{1: byte(i >> 8), 2: byte(i)},
				CreatedAt: now.Add(-3 * time.Hour), ScheduledAt: now.Add(-1000 * time.Hour)})
		}
		d := &jobDatabase{keep: time.Hour, store: list}
		if got, err := d.keepRows(t.Context()); err != nil || got != 50*time.Hour+databaseKeepMore {
			t.Errorf("got %v, %v, want the time since the firing of the lost run", got, err)
		}
	})
}

// newestFirst are runs that have not ended. Each page has the oldest of the rest, newest first.
type newestFirst []storage.Record

func (l newestFirst) Runs(_ context.Context, f storage.RunFilter) ([]storage.Record, error) {
	compare := func(a, b storage.Record) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
	}
	rest := slices.DeleteFunc(slices.Clone(l), func(r storage.Record) bool {
		return compare(r, storage.Record{CreatedAt: f.After.CreatedAt, ID: f.After.ID}) <= 0
	})
	slices.SortFunc(rest, compare)
	page := rest[:min(len(rest), f.Limit)]
	slices.Reverse(page)
	return page, nil
}
