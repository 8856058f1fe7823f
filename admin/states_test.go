package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// options returns Options with the history on a free loopback port. The job of each run is added to
// the history.
func options(h *history) Options {
	known := make(map[string]bool)
	for _, v := range h.jobs {
		known[v.Name] = true
	}
	for _, run := range h.runs {
		if !known[run.Job] {
			known[run.Job] = true
			h.jobs = append(h.jobs, job(run.Job, ""))
		}
	}
	if h.backfill == nil && len(h.jobs) > 0 {
		h.backfill = backfills()
	}
	return Options{
		Operations:     operations.New(operations.Options{Control: auditOf{history: h}}),
		ScheduledTimes: h.scheduledTimes, Progress: h, Heartbeats: h.heartbeats,
		Listen: "127.0.0.1:0", Store: h, Restarts: h, StoreName: "PostgreSQL", Replica: "replica-1",
		Version:  "0.2.0",
		Advisory: &advisory{holders: holders(h.locks)}, Log: zerolog.Nop(),
	}
}

// calm is a small cluster without problems.
func calm() Options {
	merge := running(1, "merge-events", "replica-3", 4*time.Second)
	h := &history{
		now:   noon,
		locks: []storage.LockView{lock("events", merge, 4*time.Second)},
		jobs: []storage.JobView{job("merge-events", "*/10 * * * * *", "events"),
			job("rollup-sales", "*/5 * * * *", "sales_rollup")},
		runs: []storage.Record{
			merge,
			done(2, "rollup-sales", "replica-1", 40*time.Second, 840*time.Millisecond,
				jobs.Succeeded),
		},
		replicas: []storage.ReplicaView{liveReplica(1, "replica-1", 2*time.Second, 0),
			liveReplica(2, "replica-3", 4*time.Second, 1)},
	}
	return options(h)
}

// withDatabases adds databases of jobs, one of which is down for one replica.
func withDatabases(o Options) Options {
	replicas := o.Store.(*history).replicas
	replicas[0].Databases = []storage.DatabaseState{
		{Name: "marts", Since: noon.Add(-time.Hour)}, {Name: "warehouse",
			Since: noon.Add(-time.Hour)}}
	replicas[1].Databases = []storage.DatabaseState{
		{Name: "marts"}, {Name: "warehouse", Error: "dial tcp 10.0.0.9:5432: connection refused",
			Since: noon.Add(-5 * time.Minute)}}
	return o
}

// contention is a cluster in which one run holds a table for which others wait, one replica has
// died and one is late.
func contention() Options {
	rollup := running(10, "rollup-sales", "replica-1", 42*time.Minute+7*time.Second)
	merge := running(11, "merge-events", "replica-3", 4*time.Second)
	vacuum := running(12, "report/weekly", "replica-1", 75*time.Second)
	retrying := waiting(23, "sync-vendors", 8*time.Second, "", rollup)
	retrying.BlockedBy, retrying.Reason, retrying.Attempt, retrying.CreatedAt = nil,
		reasons.Retry, 2, ago(2*time.Minute)
	retrying.Error = "vendor api: 503 Service Unavailable"
	prune := waiting(20, "prune-orders", 40*time.Minute, "table:public/orders", rollup)
	older := waiting(22, "export-orders", 19*time.Second, "public/orders", prune)
	older.Reason, older.Key = reasons.OlderWaiter, "night-fix"
	skipped := done(30, "rollup-hourly", "replica-2", 95*time.Second, 0, jobs.Skipped)
	skipped.StartedAt, skipped.Attempt, skipped.Reason = nil, 0, reasons.LockHeld
	skipped.BlockedBy = &jobs.Blocker{Resource: "table:public/orders", Holder: owner(rollup)}
	failed := done(31, "sync-vendors", "replica-3", 3*time.Minute, 2300*time.Millisecond,
		jobs.Failed)
	failed.Error, failed.Attempt = "statement 2: ERROR: duplicate key value violates unique "+
		"constraint \"vendors_pkey\" (SQLSTATE 23505)", 3
	lost := done(32, "merge-events", "replica-4", 5*time.Minute, 31*time.Second, jobs.Lost)
	lost.Reason = reasons.SessionLost
	timedOut := done(33, "report/weekly", "replica-1", 3*time.Hour, 10*time.Minute, jobs.TimedOut)
	timedOut.Reason = reasons.Timeout
	missed := done(34, "prune-logs", "", 26*time.Hour, 0, jobs.Missed)
	missed.StartedAt, missed.FinishedAt, missed.Attempt, missed.Reason = nil, nil, 0,
		reasons.Misfire
	runs := []storage.Record{merge, retrying, older, vacuum,
		waiting(21, "rollup-hourly", 12*time.Minute+3*time.Second, "public/orders", rollup),
		waiting(24, "rollup-sales", 37*time.Minute+7*time.Second, "job:rollup-sales", rollup),
		prune,
		rollup,
	}
	for i, name := range []string{"merge-events", "sync-stock", "merge-events", "rollup-hourly",
		"sync-stock"} {
		runs = append(runs, done(40+i, name, fmt.Sprintf("replica-%d", i%3+1),
			time.Duration(8+i*9)*time.Second,
			time.Duration(212+i*731)*time.Millisecond, jobs.Succeeded))
	}
	runs = append(runs, skipped, failed, lost, timedOut, missed)
	read := lock("customers", vacuum, 75*time.Second)
	read.Mode = locking.Shared
	slot := lock("customers", merge, 4*time.Second)
	slot.Resource, _ = locking.Slot("vendor-api")
	slot.Mode, slot.Slots = locking.Slotted, 5
	own := lock("x", rollup, 42*time.Minute)
	own.Resource, _ = locking.Job("rollup-sales")
	dead := liveReplica(4, "replica-4", 6*time.Minute, 0)
	dead.EndedAt = pointer(dead.ExpiresAt.Add(3 * time.Second))
	h := &history{
		now: noon, quarters: quartersUntil(noon),
		locks: []storage.LockView{
			own, read, slot, lock("events", merge, 4*time.Second),
			lock("orders", rollup, 42*time.Minute), lock("sales_rollup", rollup, 42*time.Minute),
		},
		jobs: []storage.JobView{
			job("merge-events", "*/10 * * * * *", "events"), job("prune-logs", "@daily", "logs"),
			job("prune-orders", "30 2 * * *", "orders"),
			job("rollup-hourly", "0 * * * *", "orders", "orders_hourly"),
			job("rollup-sales", "*/5 * * * *", "orders", "sales_rollup"),
			job("sync-vendors", "*/5 * * * *", "vendors"),
			job("report/weekly", "0 3 * * 6", "customers"), job("sync-stock", "@every 9s"),
		},
		runs: runs,
		replicas: []storage.ReplicaView{
			liveReplica(1, "replica-1", 2*time.Second, 2),
			liveReplica(2, "replica-2", 11*time.Second, 0),
			liveReplica(3, "replica-3", 4*time.Second, 1), dead,
		},
	}
	o := options(h)
	o.WaitEnd = func(r storage.Record) (storage.WaitEnd, bool) {
		switch r.Job {
		case "rollup-sales": // behind its own run
			return storage.WaitEnd{}, true
		case "prune-orders":
			return storage.WaitEnd{At: ago(-50 * time.Minute), Estimated: true}, true
		case "export-orders":
			return storage.WaitEnd{At: ago(-3 * time.Minute)}, true
		}
		return storage.WaitEnd{At: noon.Truncate(time.Hour).Add(time.Hour), Next: true}, true
	}
	held := holders(h.locks)
	delete(held, table("events"))
	held[table("sales_rollup")] =
		locking.Holder{Owner: locking.Owner{Replica: "replica-2", Job: "prune-orders",
			Run: id(20).String()}}
	o.Advisory = &advisory{holders: held}
	o.Upcoming = upcoming(
		ScheduledFiring{Job: "merge-events", ScheduledAt: noon.Add(5 * time.Second),
			Resources: exclusive("events")},
		ScheduledFiring{Job: "rollup-sales", ScheduledAt: noon.Add(165 * time.Second),
			Resources: exclusive("orders", "sales_rollup")},
		ScheduledFiring{Job: "sync-vendors", ScheduledAt: noon.Add(165 * time.Second),
			Resources: exclusive("vendors")},
		ScheduledFiring{Job: "rollup-hourly", ScheduledAt: noon.Add(48 * time.Minute),
			Resources: exclusive("orders", "orders_hourly", "a", "b", "c")},
		ScheduledFiring{Job: "prune-orders", ScheduledAt: noon.Add(23 * time.Hour),
			Resources: exclusive("orders")},
	)
	o.Metrics, o.Trace = http.HandlerFunc(counted), traced
	return o
}

// counted replies to a scrape of the metrics.
func counted(w http.ResponseWriter, _ *http.Request) {
	pages.WritePlain(w, http.StatusOK, `holdfast_runs_total{job="rollup-sales",state="failed"} 3`)
}

// traceSite is the base address of links to traces.
const traceSite = "https://tempo.example.com/trace/"

// traced returns a trace for every run.
func traced(run uuid.UUID) Trace {
	id := engine.TraceID(run)
	return Trace{ID: id, Link: traceSite + id}
}

func upcoming(scheduledTimes ...ScheduledFiring) func(time.Time, int) []ScheduledFiring {
	return func(from time.Time, n int) []ScheduledFiring {
		later := slices.DeleteFunc(slices.Clone(scheduledTimes), func(d ScheduledFiring) bool {
			return !d.ScheduledAt.After(from)
		})
		return later[:min(n, len(later))]
	}
}

// fifty is a cluster with many tables, half of them locked, and many waiters.
func fifty() Options {
	h := &history{now: noon, quarters: quartersUntil(noon)}
	for i := range 50 {
		name := fmt.Sprintf("warehouse_%02d.fact_%c%02d", i%4, 'a'+i%7, i)
		h.jobs = append(h.jobs, job(fmt.Sprintf("load-%02d", i), "* * * * * *", name))
		if i%2 == 1 {
			continue
		}
		run := running(100+i, fmt.Sprintf("load-%02d", i), fmt.Sprintf("replica-%d", i%3+1),
			time.Duration(i)*time.Second)
		h.runs = append(h.runs, run)
		h.locks = append(h.locks, lock(name, run, time.Duration(i)*time.Second))
		if i%10 == 0 {
			for k := range i {
				h.runs = append(h.runs, waiting(1000+i*50+k, fmt.Sprintf("verify-%02d-%02d", i, k),
					time.Duration(k+1)*time.Second, table(name).Key(), run))
			}
		}
	}
	for i := range 3 {
		h.replicas = append(h.replicas,
			liveReplica(i, fmt.Sprintf("replica-%d", i+1), time.Duration(i)*time.Second, 8))
	}
	return options(h)
}

// reversing shows the text after it from right to left. Names cannot contain it, but messages can.
const reversing = "\u202Etxt.exe"

// hostile is a cluster whose names and errors an attacker has written.
func hostile() Options { return hostileTimes(1) }

// hostileTimes is hostile with messages that are several times as long.
func hostileTimes(times int) Options {
	script := `<script>alert(1)</script>`
	name := `"><img src=x onerror=alert(1)>txt.exe` + strings.Repeat("VeryLongName", 12)
	run := running(1, name, script+strings.Repeat("x", 200), 5*time.Minute)
	blocked := waiting(2, script, time.Minute, "public/"+script, run)
	blocked.Detail = script + reversing + strings.Repeat(" detail", 200*times)
	failed := done(3, name, script, time.Minute, time.Second, jobs.Failed)
	failed.Error = "javascript:alert(1)\n" + reversing + script + strings.Repeat("E", 5000*times)
	held := lock("x", run, 5*time.Minute)
	held.Resource, _ = locking.Path(script + "/" + strings.Repeat("deep/", 60) + "leaf")
	held.Holder.Run = `../../"><script>alert(1)</script>`
	h := &history{
		now: noon, locks: []storage.LockView{held}, runs: []storage.Record{run, blocked, failed},
		jobs: []storage.JobView{job("j", script,
			`"`+script[:8]+`"."`+strings.Repeat("t", 63)+`"`)},
		replicas: []storage.ReplicaView{liveReplica(1, script+strings.Repeat("y", 300), time.Second,
			1)},
	}
	h.replicas[0].Version = script
	evil := backfills()[0]
	evil.Job, evil.CreatedBy, evil.Reason = name, script+strings.Repeat("z", 200),
		script+reversing+strings.Repeat(" why", 200*times)
	gone := evil
	gone.ID, gone.State, gone.Detail = id(endedBackfill), storage.BackfillStopped, evil.Reason
	gone.EndedAt = pointer(noon)
	h.backfill = []storage.Backfill{evil, gone}
	o := options(h)
	o.Advisory = &advisory{err: errors.New("dial " + reversing + script)}
	o.Replica, o.Version = script, script
	server := troubled(script + strings.Repeat("z", 200))
	server.State, server.Error, server.Version = memcached.StateUnreachable,
		script+reversing+strings.Repeat("E", 2000*times), script
	server.Settings[0].Value = script
	o.Memcached = servers{server}
	o.Ready = func(context.Context) error { return errors.New("schema " + reversing + script) }
	o.Upcoming = upcoming(ScheduledFiring{Job: script, ScheduledAt: noon.Add(time.Minute),
		Resources: []locking.Request{{Resource: held.Resource, Mode: locking.Exclusive}}})
	return o
}

// layers is a cluster that locks schemas and tables below them.
func layers() Options {
	all := running(1, "reload-warehouse", "replica-1", 90*time.Second)
	one := running(2, "load-facts", "replica-1", 3*time.Second)
	schema := lock("x", all, 90*time.Second)
	schema.Resource = table("warehouse.*")
	h := &history{
		now: noon, runs: []storage.Record{one, all},
		locks: []storage.LockView{schema, lock("mart.facts", one, 3*time.Second)},
		jobs: []storage.JobView{
			job("reload-warehouse", "@hourly", "warehouse.*"),
			job("load-facts", "@hourly", "mart.facts"),
			job("load-orders", "@hourly", "warehouse.orders"),
			job("reload-mart", "@daily", "mart.*"),
		},
		replicas: []storage.ReplicaView{liveReplica(1, "replica-1", time.Second, 2)},
	}
	h.locks[0].Expires = ago(8 * time.Second)
	return options(h)
}

func empty() Options { return options(&history{now: noon}) }

func down() Options {
	return options(
		&history{err: fmt.Errorf("%w: dial tcp 10.0.3.7:5432: connect: connection refused",
			storage.ErrUnavailable)})
}

// TestStaleCopyShowsItsAge checks that a cached page says since when it is out of date.
func TestStaleCopyShowsItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := calm()
		handler := newServer(t, o).Handler()
		get(t, handler, "/")
		time.Sleep(90 * time.Second)
		o.Store.(*history).err = down().Store.(*history).err
		const want = "cached <strong>1 min 30 s ago</strong>"
		if body := flat(get(t, handler, "/").Body.String()); !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	})
}
