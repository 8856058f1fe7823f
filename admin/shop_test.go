package admin

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// shopJob is a job of the shop, with its usual duration and how far back its history reaches.
type shopJob struct {
	name, schedule, group, description string
	writes, reads                      []string // tables
	usual, long, past                  time.Duration
}

// The runs of the shop that pictures and tests name.
const (
	shopArchive  = 1 // holds the table orders
	shopInvoices = 5 // failed in its third attempt
)

const day = 24 * time.Hour

func shopJobs() []shopJob {
	names := func(all ...string) []string { return all }
	return []shopJob{
		{"archive-orders", "5 2 * * *", "night", "Moves orders of earlier years to the archive",
			names("orders", "orders_archive"), nil, 9 * time.Minute, 14 * time.Minute, 30 * day},
		{"backup-customers", "0 4 * * *", "night", "Writes a backup of the customers",
			nil, names("customers"), 4 * time.Minute, 5 * time.Minute, 30 * day},
		{"export-orders", "5 3 * * *", "reports", "Sends the orders of the day to accounting",
			nil, names("orders"), time.Minute, 90 * time.Second, 30 * day},
		{"import-prices", "*/20 * * * *", "warehouse", "Reads the prices of the vendors",
			names("prices"), nil, 8 * time.Second, 20 * time.Second, 7 * day},
		{"load-events", "* * * * *", "warehouse", "Copies the events of the last minute",
			names("events"), nil, 5 * time.Second, 20 * time.Second, 26 * time.Hour},
		{"load-payments", "*/10 * * * *", "warehouse", "Copies the payments of the last minutes",
			names("payments"), nil, 30 * time.Second, 70 * time.Second, 3 * day},
		{"prune-orders", "0 3 * * *", "night", "Deletes orders that are older than ten years",
			names("orders"), nil, 2 * time.Minute, 3 * time.Minute, 30 * day},
		{"report-sales", "30 1 * * *", "reports", "Computes the report of the day",
			names("reports"), names("sales_rollup"), 4 * time.Minute, 6 * time.Minute, 30 * day},
		{"rollup-sales", "*/30 * * * *", "warehouse", "Sums up the sales for the dashboards",
			names("sales_rollup"), names("orders"), 80 * time.Second, 2 * time.Minute, 30 * day},
		{"send-invoices", "0 1 * * *", "reports", "Sends the invoices of the day by mail",
			names("invoices"), nil, 90 * time.Second, 2 * time.Minute, 30 * day},
		{"sync-stock", "*/5 * * * *", "warehouse", "Compares the stock with the warehouses",
			names("stock"), nil, 2 * time.Minute, 3 * time.Minute, 3 * day},
	}
}

// defined returns the job, and how a store shows it.
func (d shopJob) defined() (jobs.Job, storage.JobView) {
	parsed, err := schedule.ParseText(d.schedule, time.UTC)
	if err != nil {
		panic(err)
	}
	j := jobs.Job{Name: d.name, Description: d.description, Schedule: parsed, Handler: "sql",
		Group: d.group, Resources: exclusive(d.writes...)}
	for _, name := range d.reads {
		j.Resources = append(j.Resources,
			locking.Request{Resource: table(name), Mode: locking.Shared})
	}
	requests, err := j.Requests()
	if err != nil {
		panic(err)
	}
	v := storage.JobView{Version: 3, UpdatedAt: ago(30 * day)}
	if v.Definition, err = storage.Define(j, requests); err != nil {
		panic(err)
	}
	v.Source = storage.FromConfig
	return j, v
}

// shop is a cluster of a shop in the night: one job has held a table for an hour while others wait
// for it, one job fails, and one replica is lost. Documents show pictures of it.
func shop() Options {
	h := &history{now: noon, typical: make(map[string]storage.Typical),
		backfill: []storage.Backfill{}}
	var cronTable []jobs.Job
	for _, d := range shopJobs() {
		j, v := d.defined()
		cronTable, h.jobs = append(cronTable, j), append(h.jobs, v)
		h.typical[d.name] = storage.Typical{Runs: 20, Median: d.usual, Long: d.long}
	}
	night := shopNight(h)
	h.runs = append(shopPast(h, night), night...)
	slices.SortStableFunc(h.runs, func(a, b storage.Record) int {
		return b.CreatedAt.Compare(a.CreatedAt)
	})
	h.quarters = quartersOf(h.runs, noon.Add(-day))
	for n, name := range []string{"replica-1", "replica-2", "replica-3"} {
		r := liveReplica(n+1, name, time.Duration(n+1)*time.Second, 1)
		r.Workers, r.Busy, r.ConfigHash = 8, 1, "3f9a0c17"
		offset := int64(n*3 - 2) // ms
		r.ClockOffset = &offset
		h.replicas = append(h.replicas, r)
	}
	lost := liveReplica(4, "replica-4", 25*time.Minute, 0)
	lost.EndedAt = pointer(lost.ExpiresAt.Add(2 * time.Second))
	h.replicas = append(h.replicas, lost)
	h.saved = map[string]json.RawMessage{
		"rollup-sales": json.RawMessage(`{"until":"2026-03-14T02:00:00Z","rows":81244}`)}
	o := options(h)
	o.Memcached = servers{healthy("10.0.3.9:11211"), healthy("10.0.3.10:11211")}
	o.LongestWait = func(job string, limit time.Duration) (time.Duration, bool) {
		switch job {
		case "prune-orders", "export-orders":
			return min(limit, 2*time.Hour), true
		}
		return min(limit, 5*time.Minute), true
	}
	o.WaitEnd = func(r storage.Record) (storage.WaitEnd, bool) {
		switch r.Job {
		case "prune-orders":
			return storage.WaitEnd{At: r.WaitSince.Add(2 * time.Hour), Estimated: true}, true
		case "export-orders":
			return storage.WaitEnd{At: r.ScheduledAt.Add(day), Next: true}, true
		}
		return storage.WaitEnd{}, false
	}
	o.Explain = explain.New(explain.Options{Store: h, Table: explain.TableOf(cronTable)}).Explain
	return withUpcoming(o)
}

// shopNight returns the runs of the night that did not succeed or have not ended, and sets the
// locks and attempts of the history.
func shopNight(h *history) []storage.Record {
	at := func(clock string) time.Duration { // how long ago this time of the night was
		t, err := time.Parse(time.TimeOnly, clock)
		if err != nil {
			panic(err)
		}
		return noon.Sub(time.Date(2026, 3, 14, t.Hour(), t.Minute(), t.Second(), 0, time.UTC))
	}
	archive := running(shopArchive, "archive-orders", "replica-2", at("02:05:00"))
	archive.Output = "02:05:00 INF orders before 2024-01-01 are moved in steps of 10000\n"
	events := running(2, "load-events", "replica-1", at("03:12:00"))
	stock := running(3, "sync-stock", "replica-3", at("03:10:00"))
	prune := waiting(4, "prune-orders", at("03:00:00"), "public/orders", archive)
	export := waiting(6, "export-orders", at("03:05:00"), "public/orders", prune)
	export.Reason, export.BlockedBy.Waiting = reasons.OlderWaiter, true
	export.BlockedBy.Root = jobs.Root{Resource: "public/orders", Holder: owner(archive)}
	h.locks = []storage.LockView{
		lock("events", events, at("03:12:00")), lock("orders", archive, at("02:05:00")),
		lock("orders_archive", archive, at("02:05:00")), lock("stock", stock, at("03:10:00")),
	}
	failed := func(n int, job, replica, clock string, took time.Duration,
		state jobs.State) storage.Record {
		return done(n, job, replica, at(clock)-took, took, state)
	}
	invoices := failed(shopInvoices, "send-invoices", "replica-3", "01:00:00", 92*time.Second,
		jobs.Failed)
	invoices.Error = "mail.example.com:587: 454 4.7.0 TLS is not available"
	h.attempts = map[uuid.UUID][]storage.RunAttempt{invoices.ID: shopAttempts(&invoices)}
	report := failed(7, "report-sales", "replica-1", "01:30:00", 10*time.Minute, jobs.TimedOut)
	report.Reason, report.Error = reasons.Timeout, "timeout: the attempt had not ended after 10m"
	gone := failed(8, "load-events", "replica-4", "02:47:00", 17*time.Second, jobs.Lost)
	gone.Reason = reasons.SessionLost
	night := []storage.Record{archive, events, stock, prune, export, invoices, report, gone}
	for i, clock := range []string{"01:40:00", "02:00:00", "02:20:00", "02:40:00", "03:00:00"} {
		prices := failed(10+i, "import-prices", fmt.Sprintf("replica-%d", i%3+1), clock,
			2*time.Second, jobs.Failed)
		prices.Error = `prices.csv: line 4127: price "12,90" is not a number`
		night = append(night, prices)
	}
	for i, clock := range []string{"02:30:00", "03:00:00"} {
		skipped := failed(20+i, "rollup-sales", "replica-1", clock, 5*time.Minute, jobs.Skipped)
		skipped.StartedAt, skipped.Attempt, skipped.Token = nil, 0, 0
		skipped.Reason = reasons.LockHeld
		skipped.BlockedBy = &jobs.Blocker{Resource: "public/orders", Holder: owner(archive)}
		skipped.Detail = skipped.BlockedBy.Words(skipped.Reason.Relation()) +
			"; tried 34 times in 5m0.012s"
		night = append(night, skipped)
	}
	return night
}

// shopAttempts changes the run to one that ended with its third attempt, and returns its earlier
// attempts.
func shopAttempts(r *storage.Record) []storage.RunAttempt {
	begin := *r.StartedAt
	after := func(seconds int) *time.Time {
		return pointer(begin.Add(time.Duration(seconds) * time.Second))
	}
	// log returns the output of an attempt of 12 s that sends 12 invoices.
	log := func(start *time.Time, first int) string {
		var b strings.Builder
		line := func(ms, color int, level, text string) {
			fmt.Fprintf(&b, "%s \x1b[%dm%s\x1b[0m %s\n",
				start.Add(time.Duration(ms)*time.Millisecond).Format("15:04:05.000"), color,
				level, text)
		}
		line(14, 32, "INF", fmt.Sprintf("%d invoices are to be sent", 212-first))
		for i := range 12 {
			line(31+i*600, 32, "INF", fmt.Sprintf("invoice %d sent", 88120+first+i))
		}
		line(8402, 33, "WRN", "mail.example.com:587 does not answer, trying again")
		line(11990, 31, "ERR",
			fmt.Sprintf("invoice %d: 454 4.7.0 TLS is not available", 88132+first))
		return b.String()
	}
	r.Attempt, r.Output = 3, log(after(80), 24)
	r.RetryWaits = []storage.RetryWait{{From: *after(12), Until: after(30)},
		{From: *after(42), Until: after(80)}}
	return []storage.RunAttempt{
		{Attempt: 1, State: jobs.Failed, Error: r.Error, Replica: "replica-1", Token: r.Token - 9,
			StartedAt: after(0), FinishedAt: after(12), Output: log(after(0), 0)},
		{Attempt: 2, State: jobs.Failed, Error: r.Error, Replica: "replica-2", Token: r.Token - 4,
			StartedAt: after(30), FinishedAt: after(42), Output: log(after(30), 12)},
	}
}

// shopPast returns a succeeded run for each scheduled time in the past that the night does not
// have. They are the same in each test.
func shopPast(h *history, night []storage.Record) (runs []storage.Record) {
	type firing struct {
		job string
		at  time.Time
	}
	known := make(map[firing]bool)
	for _, r := range night {
		known[firing{r.Job, r.ScheduledAt}] = true
	}
	random := rand.New(rand.NewPCG(5, 6))
	n := 1000
	for _, d := range shopJobs() {
		for _, at := range h.scheduledTimes(d.name, noon.Add(-d.past), int(d.past/time.Minute)) {
			if at.After(noon) {
				break
			}
			if known[firing{d.name, at}] {
				continue
			}
			n++
			took := d.usual*7/10 + time.Duration(random.Int64N(int64(d.usual*6/10)))
			r := done(n, d.name, fmt.Sprintf("replica-%d", random.IntN(3)+1),
				max(0, noon.Sub(at)-took), took, jobs.Succeeded)
			r.ScheduledAt, r.CreatedAt = at, at.Add(4*time.Millisecond)
			r.StartedAt = pointer(at.Add(time.Duration(6+random.IntN(40)) * time.Millisecond))
			runs = append(runs, r)
		}
	}
	return runs
}

// quartersOf counts the ended runs since a time by quarters of an hour.
func quartersOf(runs []storage.Record, since time.Time) (quarters []storage.Quarter) {
	for at := storage.QuarterOf(since); !at.After(noon); at = at.Add(storage.QuarterLength) {
		quarters = append(quarters, storage.Quarter{From: at, Runs: make(map[jobs.State]int)})
	}
	for _, r := range runs {
		i := int(r.CreatedAt.Sub(quarters[0].From) / storage.QuarterLength)
		if r.CreatedAt.Before(quarters[0].From) || !r.State.Final() {
			continue
		}
		quarters[i].Runs[r.State]++
		if r.StartedAt != nil {
			quarters[i].Delays[storage.DelayBucket(r.StartedAt.Sub(r.ScheduledAt))]++
		}
	}
	return quarters
}
