package admin

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// night is a cluster whose jobs waited for each other for an hour while memcached restarted twice.
// It is the same in each test.
func night() Options {
	h := contention().Store.(*history)
	random := rand.New(rand.NewPCG(3, 4))
	n := 3000
	past := func(job string, before, waited, ran time.Duration, state jobs.State,
		blocker storage.Record, resource string) {
		n++
		r := done(n, job, fmt.Sprintf("replica-%d", n%3+1), before, ran, state)
		r.CreatedAt = r.CreatedAt.Add(-waited)
		r.ScheduledAt = r.CreatedAt.Truncate(time.Second)
		if state == jobs.Skipped {
			r.FinishedAt = pointer(ago(before))
			r.CreatedAt, r.StartedAt, r.Attempt, r.Token = ago(before+waited), nil, 0, 0
			r.Reason, r.BlockedBy = reasons.LockHeld,
				&jobs.Blocker{Resource: resource, Holder: owner(blocker)}
		} else {
			withReason(&r)
		}
		h.runs = append(h.runs, r)
	}
	rollup := running(10, "rollup-sales", "replica-1", 42*time.Minute)
	for i := range 8 { // the hours before the run that hangs
		past("rollup-sales", time.Duration(44+i*5)*time.Minute, 0,
			time.Duration(60+random.IntN(90))*time.Second, jobs.Succeeded, rollup, "")
	}
	for i := range 12 {
		before := time.Duration(2+i*5) * time.Minute
		if before < 40*time.Minute {
			past("rollup-hourly", before, 90*time.Second, 0, jobs.Skipped, rollup, "public/orders")
		} else {
			past("rollup-hourly", before-30*time.Second, 40*time.Second, 70*time.Second,
				jobs.Succeeded, rollup, "")
		}
	}
	for i := range 340 {
		state := jobs.Succeeded
		if i%41 == 7 {
			state = jobs.Failed
		}
		past("merge-events", time.Duration(15+i*10)*time.Second, 0,
			time.Duration(1500+random.IntN(6000))*time.Millisecond, state, rollup, "")
	}
	for i := range 12 {
		past("sync-vendors", time.Duration(4+i*5)*time.Minute,
			time.Duration(random.IntN(40))*time.Second,
			time.Duration(20+random.IntN(100))*time.Second,
			[]jobs.State{jobs.Succeeded, jobs.Succeeded, jobs.TimedOut, jobs.Succeeded, jobs.Lost,
				jobs.Cancelled}[i%6], rollup, "")
	}
	slices.SortStableFunc(h.runs, func(a, b storage.Record) int {
		return b.CreatedAt.Compare(a.CreatedAt)
	})
	h.restart = []storage.Restart{
		{Server: "10.0.3.9:11211", StartedAt: ago(33 * time.Minute),
			NoticedAt: ago(33*time.Minute - 3*time.Second), NoticedBy: "replica-2"},
		{Server: "10.0.3.9:11211", StartedAt: ago(18 * time.Minute),
			NoticedAt: ago(18*time.Minute - 2*time.Second), NoticedBy: "replica-1"},
	}
	h.blocked = []storage.WaitSummary{
		{Job: "rollup-hourly", Holder: "rollup-sales", Resource: "public/orders", Times: 11,
			NotRun: 8, Waited: 16 * time.Minute, Longest: 95 * time.Second,
			Last: ago(95 * time.Second)},
		{Job: "prune-orders", Holder: "rollup-sales", Resource: "public/orders", Times: 1,
			Waited: 4 * time.Minute, Longest: 4 * time.Minute, Last: ago(50 * time.Minute)},
		{Job: "rollup-sales", Holder: "rollup-hourly", Resource: "public/orders", Times: 5,
			Waited: 3 * time.Minute, Longest: 70 * time.Second, Last: ago(46 * time.Minute)},
		{Job: "rollup-sales", Holder: "rollup-sales", Resource: "job:rollup-sales", Times: 4,
			NotRun: 4, Last: ago(20 * time.Minute)},
		{Job: "export-orders", Holder: "prune-orders", Resource: "public/orders", Times: 2,
			Waited: 41 * time.Second, Longest: 30 * time.Second, Last: ago(52 * time.Minute)},
		{Job: "sync-vendors", Holder: "", Resource: "public/vendors", Times: 3, NotRun: 1,
			Waited: 82 * time.Second, Longest: 40 * time.Second, Last: ago(30 * time.Minute)},
	}
	h.typical = map[string]storage.Typical{
		"rollup-sales":  {Runs: 20, Median: 95 * time.Second, Long: 160 * time.Second},
		"rollup-hourly": {Runs: 20, Median: 70 * time.Second, Long: 9 * time.Minute},
		"prune-orders":  {Runs: 12, Median: 14 * time.Second, Long: 4 * time.Minute},
		"merge-events":  {Runs: 20, Median: 4 * time.Second, Long: 12 * time.Second},
		"sync-vendors":  {Runs: 20, Median: 40 * time.Second, Long: 2 * time.Minute},
		"report/weekly": {Runs: 3, Median: 8 * time.Minute, Long: 10 * time.Minute},
	}
	o := options(h)
	o.Advisory = contention().Advisory
	return o
}

// crowd is a cluster in which 40 runs hold slots of one semaphore at the same time, and one job
// runs each second.
func crowd() Options {
	h := &history{now: noon,
		replicas: []storage.ReplicaView{liveReplica(1, "replica-1", time.Second, 40)}}
	api, err := locking.Slot("vendor-api")
	if err != nil {
		panic(err)
	}
	for i := range 40 {
		v := job(fmt.Sprintf("call-%02d", i), "*/5 * * * *")
		v.Resources = append(v.Resources,
			locking.Request{Resource: api, Mode: locking.Slotted, Slots: 40})
		h.jobs = append(h.jobs, v)
		run := running(100+i, v.Name, "replica-1", time.Duration(i+20)*time.Minute)
		held := lock("x", run, time.Duration(i+20)*time.Minute)
		held.Resource, held.Mode, held.Slots = api, locking.Slotted, 40
		h.runs, h.locks = append(h.runs, run), append(h.locks, held)
	}
	h.jobs = append(h.jobs, job("tick", "* * * * * *", "ticks"))
	for i := range 8000 {
		h.runs = append(h.runs, done(5000+i, "tick", "replica-1", time.Duration(i)*time.Second,
			300*time.Millisecond, jobs.Succeeded))
	}
	return options(h)
}

// manyWaits is a cluster in which 200 jobs waited for 40 others.
func manyWaits() Options {
	h := tenThousand().Store.(*history)
	for i := range 200 {
		for k := range 5 {
			h.blocked = append(h.blocked, storage.WaitSummary{
				Job: h.jobs[i].Name, Holder: h.jobs[200+(i*7+k)%40].Name,
				Resource: "tenant_000/orders", Times: 101, NotRun: k,
				Waited: time.Duration(1+i*k%50) * time.Minute, Longest: time.Minute,
				Last: ago(time.Duration(i+1) * time.Minute),
			})
		}
	}
	return options(h)
}

// rush is a cluster with 10,000 jobs in groups of 50. Each group locks one table every quarter of
// an hour.
func rush() Options {
	o := tenThousand()
	h := o.Store.(*history)
	h.typical = make(map[string]storage.Typical)
	for i, v := range h.jobs {
		h.typical[v.Name] = storage.Typical{Runs: 20, Median: time.Duration(i%7) * 10 * time.Second,
			Long: time.Duration(i%7) * time.Minute}
	}
	o.ScheduledTimes = func(job string, from time.Time, n int) []time.Time {
		// This is faster than parsing each schedule.
		scheduledTimes := make([]time.Time, n)
		for i := range scheduledTimes {
			scheduledTimes[i] = from.Truncate(15 * time.Minute).
				Add(time.Duration(i+1) * 15 * time.Minute)
		}
		return scheduledTimes
	}
	o.LongestWait = func(string, time.Duration) (time.Duration, bool) { return time.Minute, true }
	return o
}
