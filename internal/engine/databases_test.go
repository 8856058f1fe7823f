package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// switchedDatabase is a database of jobs that is available or not.
type switchedDatabase struct {
	storage.RunStore
	down atomic.Bool
}

// Available implements engine.Database.
func (d *switchedDatabase) Available() error {
	if d.down.Load() {
		return errors.New("connection refused")
	}
	return nil
}

// State implements engine.Database.
func (d *switchedDatabase) State() storage.DatabaseState {
	if err := d.Available(); err != nil {
		return storage.DatabaseState{Error: err.Error()}
	}
	return storage.DatabaseState{}
}

// TestDownDatabaseDelaysOnlyItsJobs takes the database of one job down. Its firings wait, are
// skipped with the reason, and start when the database is back. A database that is not open is
// down.
func TestDownDatabaseDelaysOnlyItsJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		warehouse := &switchedDatabase{RunStore: c.runStore}
		load, gone := job(t, "load", 10*time.Second), job(t, "gone", 10*time.Second)
		load.Database, gone.Database = "warehouse", "unknown"
		o := c.options("a", takes(time.Millisecond), load, gone, job(t, "other", 10*time.Second))
		o.Databases = engine.Databases{"warehouse": warehouse}
		stop := c.start(o)
		time.Sleep(time.Minute)
		warehouse.down.Store(true)
		time.Sleep(time.Minute)
		want := storage.DatabaseState{Name: "warehouse", Error: "connection refused"}
		if shown, err := c.store.Replicas(t.Context()); err != nil || len(shown) != 1 ||
			!slices.Equal(shown[0].Databases, []storage.DatabaseState{want}) {
			t.Errorf("got the replicas %+v (%v), want %+v", shown, err, want)
		}
		warehouse.down.Store(false)
		time.Sleep(time.Minute)
		stop()
		count := func(name string) (succeeded, skipped int, detail string) {
			t.Helper()
			for _, r := range c.runs(name) {
				switch {
				case r.State == jobs.Succeeded:
					succeeded++
				case r.State == jobs.Skipped && r.Reason == reasons.DatabaseUnavailable:
					skipped++
					detail = r.Detail
				}
			}
			return succeeded, skipped, detail
		}
		if succeeded, skipped, detail := count("load"); succeeded < 9 || skipped < 3 ||
			!strings.Contains(detail, "connection refused") {
			t.Errorf("load: %d runs succeeded and %d were skipped, the last because of %q: %v",
				succeeded, skipped, detail, c.outcomes("load"))
		}
		if succeeded, skipped, _ := count("other"); succeeded < 17 || skipped != 0 {
			t.Errorf("other: %d runs succeeded and %d were skipped, want no effect", succeeded,
				skipped)
		}
		if succeeded, skipped, detail := count("gone"); succeeded != 0 || skipped == 0 ||
			!strings.Contains(detail, "restart the replica") {
			t.Errorf("gone: %d runs succeeded and %d were skipped because of %q", succeeded,
				skipped, detail)
		}
	})
}

// TestRunsHaveWhatFencesNeed checks the store, the cluster and the locks of a run.
func TestRunsHaveWhatFencesNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		warehouse := &switchedDatabase{RunStore: c.runStore}
		load, own := job(t, "load", time.Minute, "orders"), job(t, "own", time.Minute)
		load.Database = "warehouse"
		var seen atomic.Int64
		o := c.options("a", []jobs.Registration{jobs.Handle("work",
			func(_ context.Context, run *jobs.Run, _ struct{}) error {
				inside := run.Internal(attempt.NewKey())
				if elsewhere := inside.Store == storage.RunStore(warehouse); inside.Cluster !=
					c.store.ClusterID() || elsewhere != (run.Job == "load") {
					t.Errorf("%s: got %+v", run.Job, inside)
				}
				if len(inside.Locks) == 2 && inside.Locks[1].Key == "table:public/orders" {
					seen.Add(1)
				}
				return nil
			})}, load, own)
		o.Databases = engine.Databases{"warehouse": warehouse}
		stop := c.start(o)
		time.Sleep(90 * time.Second)
		stop()
		if seen.Load() == 0 {
			t.Error("no run had the locks of its job and its table")
		}
	})
}
