package admin

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// busy is a cluster with a history: jobs of all kinds in groups, runs with every final state, one
// paused job and one job that was added at run time.
func busy() Options {
	h := &history{now: noon, quarters: quartersUntil(noon), unlisted: []storage.Record{blocker()},
		replicas: []storage.ReplicaView{
			liveReplica(1, "replica-1", 2*time.Second, 1),
			liveReplica(2, "replica-2", 3*time.Second, 0),
			liveReplica(3, "replica-3", time.Second, 1),
		}}
	for _, d := range []struct{ name, cron, group, description, table string }{
		{"rollup-sales", "*/5 * * * *", "warehouse",
			"Sums up the sales of the last hours for the dashboards", "sales_rollup"},
		{"rollup-stock", "2/5 * * * *", "warehouse", "Sums up the stock", "stock_rollup"},
		{"prune-orders", "30 2 * * *", "night", "Deletes orders that are older than seven years",
			"orders"},
		{"report/weekly", "0 3 * * 1", "reports", "", "reports"},
		{"report/monthly", "quartz:0 0 4 L * ?", "reports", "Sends the month to accounting",
			"reports"},
		{"sync-vendors", "every 20m between 06:00 and 22:00 on mon-fri", "",
			"Fetches prices from the vendors' API", "vendors"},
		{"heartbeat", "*/10 * * * * *", "", "", ""},
		{"reindex", "", "night", "Builds the search index anew, when somebody asks for it",
			"search_index"},
	} {
		tables := []string{d.table}
		if d.table == "" {
			tables = nil
		}
		v := job(d.name, d.cron, tables...)
		v.Group, v.Description, v.Priority, v.Source, v.Recover = d.group, d.description, 5,
			storage.FromConfig, d.name == "rollup-sales"
		h.jobs = append(h.jobs, v)
	}
	h.jobs[5].Source, h.jobs[0].Priority = storage.FromStore, 8
	h.pauses = []storage.Pause{{ID: id(8000),
		Target: storage.Target{Kind: storage.TargetGroup, Name: "reports"}, At: ago(50 * time.Hour),
		By: "anna", Reason: "the quarter is being closed"}}
	h.runs = pastOf(h.jobs[:7])
	h.audit = pastActions()
	h.saved = map[string]json.RawMessage{
		"rollup-sales": json.RawMessage(`{"until":"2026-03-14T03:10:00Z","rows":81244}`)}
	return withTable(options(h), jobsOfTable())
}

// pastOf returns runs of the jobs, the newest first. They are the same in each test.
func pastOf(views []storage.JobView) (runs []storage.Record) {
	random := rand.New(rand.NewPCG(1, 2))
	n := 2000
	for i, v := range views {
		every := []time.Duration{5 * time.Minute, 5 * time.Minute, 24 * time.Hour,
			7 * 24 * time.Hour, 30 * 24 * time.Hour, 20 * time.Minute, 10 * time.Second}[i]
		for k := range 60 {
			n++
			state := jobs.Succeeded
			if i < 6 && random.IntN(9) == 0 {
				state = []jobs.State{jobs.Failed, jobs.Skipped, jobs.Skipped, jobs.TimedOut,
					jobs.Lost, jobs.Missed, jobs.Cancelled}[random.IntN(7)]
			}
			duration := time.Duration(800+random.IntN(4000)) * time.Millisecond * time.Duration(
				1+i%6)
			r := done(n, v.Name, fmt.Sprintf("replica-%d", random.IntN(3)+1),
				time.Duration(k+1)*every-duration, duration, state)
			r.ScheduledAt = r.CreatedAt.Truncate(time.Second)
			withReason(&r)
			runs = append(runs, r)
		}
	}
	first := running(1, "rollup-sales", "replica-1", 3*time.Second)
	second := running(2, "heartbeat", "replica-3", time.Second)
	runs = append(runs, first, second)
	slices.SortStableFunc(runs, func(a, b storage.Record) int {
		return b.CreatedAt.Compare(a.CreatedAt)
	})
	return runs
}

// blocker is the run behind which the skipped runs of busy waited.
func blocker() storage.Record { return running(7, "prune-orders", "replica-2", time.Hour) }

// withReason sets the reason of a failed run and clears the fields that such a run does not have.
func withReason(r *storage.Record) {
	switch r.State {
	case jobs.Skipped, jobs.Missed:
		r.StartedAt, r.Attempt, r.Token, r.Reason = nil, 0, 0, reasons.LockHeld
		r.BlockedBy = &jobs.Blocker{Resource: "table:public/orders",
			Holder: owner(blocker())}
		if r.State == jobs.Missed {
			r.FinishedAt, r.Replica, r.Reason, r.BlockedBy = nil, "", reasons.Misfire, nil
		}
	case jobs.Failed:
		r.Error = "statement 1: ERROR: deadlock detected (SQLSTATE 40P01)"
	case jobs.TimedOut:
		r.Reason = reasons.Timeout
	case jobs.Lost:
		r.Reason = reasons.SessionLost
	case jobs.Cancelled:
		r.Reason = reasons.Cancelled
	}
}

func pastActions() []storage.Audited {
	return []storage.Audited{
		{ID: id(8103), At: ago(20 * time.Minute), Actor: "anna", Via: "page",
			Proof: "password", Client: "2001:db8::17", RequestID: "3ZQ6A7QXJ2MBVJ5C5WFHYMTQ2E",
			Replica: "replica-1",
			Action:  "release", Target: "table public/orders",
			Reason: "rollup hangs on a dead vendor connection",
			Detail: json.RawMessage(`{"token":1810,"run":"` + id(10).String() + `"}`)},
		{ID: id(8102), At: ago(50 * time.Minute), Actor: "deploy", Via: "api",
			Proof: "token", Client: "192.0.2.7", RequestID: "release-4711", Replica: "replica-3",
			Action: "trigger", Target: "job reindex",
			Detail: json.RawMessage(`{"key":"release-4711","scheduled_at":"2026-03-14T05:00:00Z"}`)},
		{ID: id(8101), At: ago(5 * time.Hour), Actor: "olga@example.com", Via: "page",
			Replica: "replica-2", Action: "drain", Target: "replica replica-4",
			Reason: "new kernel"},
		{ID: id(8100), At: ago(50 * time.Hour), Actor: "anna", Via: "cli", Proof: "none",
			Action: "pause",
			Target: "group reports", Reason: "the quarter is being closed"},
	}
}

// tenThousand is a cluster with 10,000 jobs that have a few runs each.
func tenThousand() Options {
	made := madeTenThousand()
	h := &history{now: made.now, jobs: slices.Clone(made.jobs), runs: slices.Clone(made.runs),
		replicas: slices.Clone(made.replicas)}
	return options(h)
}

// madeTenThousand is created once, because that takes long under the race detector.
var madeTenThousand = sync.OnceValue(func() *history {
	h := &history{now: noon, replicas: []storage.ReplicaView{
		liveReplica(1, "replica-1", 2*time.Second, 0)}}
	for i := range 10_000 {
		v := job(fmt.Sprintf("tenant-%05d/load", i), "*/15 * * * *",
			fmt.Sprintf("tenant_%03d.orders", i%200))
		v.Group = fmt.Sprintf("region-%02d", i%20)
		h.jobs = append(h.jobs, v)
	}
	for i := range 5_000 {
		r := done(20_000+i, h.jobs[i%60].Name, "replica-1", time.Duration(i)*time.Second,
			700*time.Millisecond, jobs.Succeeded)
		if i%11 == 3 {
			r.State = jobs.Skipped
			withReason(&r)
		}
		h.runs = append(h.runs, r)
	}
	return h
})

// tenThousandLocks is a cluster with 10,000 tables. Tests share it and only read it.
var tenThousandLocks = sync.OnceValue(func() Options { return manyLocks(10_000) })

// manyLocks is a cluster with that many tables. Every 33rd table is locked.
func manyLocks(tables int) Options {
	h := &history{now: noon, replicas: []storage.ReplicaView{
		liveReplica(1, "replica-1", 2*time.Second, 0)}}
	for i := range tables {
		table := fmt.Sprintf("tenant_%03d.part_%05d", i%200, i)
		name := fmt.Sprintf("tenant-%05d/load", i)
		h.jobs = append(h.jobs, job(name, "*/15 * * * *", table))
		if i%33 != 0 {
			continue
		}
		run := running(20_000+i, name, "replica-1", time.Duration(i)*time.Second)
		h.runs = append(h.runs, run)
		h.locks = append(h.locks, lock(table, run, time.Duration(i)*time.Second))
		if i%99 == 0 {
			h.runs = append(h.runs, waiting(40_000+i, name+"/check", time.Duration(i/2)*time.Second,
				"table:"+strings.ReplaceAll(table, ".", "/"), run))
		}
	}
	return options(h)
}

// story is a cluster with runs that waited, failed and were retried.
func story() Options {
	h := contention().Store.(*history)
	lost := done(300, "merge-events", "replica-4", 25*time.Minute, 40*time.Second, jobs.Lost)
	lost.Reason, lost.Error = reasons.SessionLost, ""
	again := done(301, "merge-events", "replica-2", 24*time.Minute, 31*time.Second, jobs.Succeeded)
	again.ScheduledAt, again.Recovery = lost.ScheduledAt, 1
	failed := done(302, "sync-vendors", "replica-3", 3*time.Minute, 2300*time.Millisecond,
		jobs.Failed)
	failed.ScheduledAt, failed.Attempt = failed.ScheduledAt.Add(-20*time.Second), 3
	failed.Error = "vendor api: POST https://api.vendor.example/v2/prices: 503 Service " +
		"Unavailable\nretry-after: 120"
	for i := range 40 {
		failed.Output += fmt.Sprintf("03:09:%02d.%03d INF page %d of 40 fetched, %d prices\n", i%60,
			i*17%1000, i+1, 250-i)
	}
	failed.Output += "03:09:44.918 ERR vendor api answers 503, giving up after 3 attempts\n"
	h.runs = append(h.runs, lost, again, failed)
	h.attempts = map[uuid.UUID][]storage.RunAttempt{failed.ID: retried(&failed)}
	h.runs[len(h.runs)-1] = failed
	replayed := done(303, "prune-orders", "replica-1", 2*time.Hour, 14*time.Second, jobs.Succeeded)
	replayed.Key, replayed.Params, replayed.Result = "anna-4711",
		json.RawMessage(`{"before":"2019-01-01","dry_run":false}`),
		json.RawMessage(`{"rows":18240}`)
	h.runs = append(h.runs, replayed)
	o := options(h)
	o.Advisory, o.Upcoming = contention().Advisory, contention().Upcoming
	return o
}

// everRetried is a cluster with a run that waits for its 41st attempt.
func everRetried() Options {
	o := calm()
	h := o.Store.(*history)
	r := running(401, "rollup-sales", "replica-1", time.Hour)
	r.State, r.Attempt, r.Reason, r.Error = jobs.Waiting, 41, reasons.Retry, "no space left"
	r.Detail, r.WaitSince = "attempt 40 ended as failed", ago(20*time.Second)
	at := r.StartedAt
	h.attempts = map[uuid.UUID][]storage.RunAttempt{}
	for n := 1; n <= 40; n++ {
		end := at.Add(30 * time.Second)
		h.attempts[r.ID] = append(h.attempts[r.ID], storage.RunAttempt{Attempt: n,
			State: jobs.Failed, Error: r.Error, Replica: "replica-1", Token: jobs.Token(n),
			StartedAt: at, FinishedAt: &end,
			Output: strings.Repeat("half a line, and the end of it\n", 2000)})
		at = pointer(end.Add(time.Minute))
		r.RetryWaits = append(r.RetryWaits, storage.RetryWait{From: end, Until: at})
	}
	r.RetryWaits[39].Until = nil
	h.runs = append(h.runs, r)
	return o
}

// retried changes the run to one that ended with its third attempt, and returns its earlier
// attempts.
func retried(r *storage.Record) []storage.RunAttempt {
	end := *r.FinishedAt
	at := func(seconds time.Duration) *time.Time { return pointer(end.Add(-seconds * time.Second)) }
	r.CreatedAt, r.StartedAt = end.Add(-60*time.Second), at(50)
	r.RetryWaits = []storage.RetryWait{{From: *at(38), Until: at(33)},
		{From: *at(18), Until: at(8)}}
	waited := func(seconds time.Duration, job string) *storage.Wait {
		return &storage.Wait{Since: *at(seconds), Blocker: jobs.Blocker{
			Resource: "table:public/vendors",
			Holder:   owner(running(7, job, "replica-2", time.Hour))}}
	}
	r.Waited = waited(14, "load-prices")
	return []storage.RunAttempt{
		{Attempt: 1, State: jobs.Failed, Error: "vendor api: 502 Bad Gateway", Replica: "replica-1",
			Token: r.Token - 9, StartedAt: at(50), FinishedAt: at(38),
			Waited: waited(60, "report/weekly"),
			Output: "\x1b[32mINF\x1b[0m page 1 of 40 fetched\n" +
				"\x1b[1;31mERR\x1b[0m <b>502</b> \x1b]0;title\x07from the vendor\x1b[9\n"},
		{Attempt: 2, State: jobs.TimedOut, Reason: reasons.Timeout,
			Error:   "timeout: the attempt had not ended after 15s",
			Replica: "replica-3", Token: r.Token - 4, StartedAt: at(33), FinishedAt: at(18)},
	}
}

// drift is a cluster whose replicas have different definitions.
func drift() Options {
	o := watched()
	h := o.Store.(*history)
	h.replicas[1].Version = "0.3.0-rc.1"
	conflicts, level := int64(-1840), int64(3)
	for i := range h.replicas {
		r := &h.replicas[i]
		r.ConfigHash, r.ClockOffset, r.Workers, r.Busy = "9c41be02", &level, 16, i
	}
	h.replicas[1].ConfigHash, h.replicas[1].ClockOffset, h.replicas[2].Draining = "17aa03ff",
		&conflicts, true
	h.replicas[1].NotReady = "its clock is 1.8 s off, and 500 ms are allowed"
	h.drift = []storage.JobDrift{
		{Job: "merge-events", Newest: []string{"replica-3"},
			Older: []string{"replica-1", "replica-2"}},
		{Job: "rollup-sales", Newest: []string{"replica-1", "replica-2"},
			Without: []string{"replica-3"}},
	}
	return o
}

// absent returns busy with a job that no replica has had for ten minutes.
func absent() Options {
	o := busy()
	h := o.Store.(*history)
	since := noon.Add(-10 * time.Minute)
	for i := range h.jobs {
		if h.jobs[i].Name == "report/monthly" {
			h.jobs[i].AbsentSince = &since
		}
	}
	return o
}
