package engine

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/simstore"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	dispatchedJobs = 100_000
	spreadSeconds  = 10 // how long a spread load is measured
)

// BenchmarkDispatch measures how late firings of 100,000 jobs are handed over: by the dispatcher to
// the queue, and by robfig/cron to the function of the job. Each job fires once a minute. In burst
// all jobs fire at the same second. In spread they are spread evenly over the minute.
func BenchmarkDispatch(b *testing.B) {
	for _, load := range []struct {
		name    string
		seconds int // over which the jobs are spread
	}{{"burst", 1}, {"spread", 60}} {
		for _, by := range []struct {
			name    string
			measure func(b *testing.B, seconds []int, from, until time.Time) []time.Duration
		}{{"holdfast", dispatchByHoldfast}, {"cron", dispatchByCron}} {
			b.Run(load.name+"/"+by.name, func(b *testing.B) {
				var delays []time.Duration
				for b.Loop() {
					const startup = 10 * time.Second // more than both take to plan all jobs
					from := time.Now().UTC().Truncate(time.Second).Add(startup)
					seconds := make([]int, dispatchedJobs)
					for i := range seconds {
						seconds[i] = (from.Second() + i%load.seconds) % 60
					}
					delays = append(delays, by.measure(b, seconds, from,
						from.Add(time.Duration(min(load.seconds, spreadSeconds))*time.Second))...)
				}
				reportDelays(b, delays)
			})
		}
	}
}

// reportDelays reports the percentiles of delays, in milliseconds.
func reportDelays(b *testing.B, delays []time.Duration) {
	b.Helper()
	if len(delays) == 0 {
		b.Fatal("found no firings: this machine was too slow to plan all jobs in time")
	}
	slices.Sort(delays)
	for _, percent := range []int{50, 99} {
		delay := delays[len(delays)*percent/100]
		b.ReportMetric(float64(delay.Microseconds())/1000, fmt.Sprintf("p%d-ms", percent))
	}
	b.ReportMetric(float64(len(delays))/float64(b.N), "firings")
	b.ReportMetric(0, "ns/op") // the time is that of the schedules
}

// dispatchByHoldfast returns the delays of all firings between two times, of jobs that fire at
// these seconds of each minute. The firings of one tick count as handed over at its end, because
// workers get them only then.
func dispatchByHoldfast(b *testing.B, seconds []int, from, until time.Time) []time.Duration {
	b.Helper()
	registry, err := jobs.NewRegistry(jobs.Handle("nothing",
		func(context.Context, *jobs.Run, struct{}) error { return nil }))
	if err != nil {
		b.Fatal(err)
	}
	table := make([]jobs.Job, len(seconds))
	for i, second := range seconds {
		parsed, err := schedule.Parse(schedule.Cron(fmt.Sprintf("%d * * * * *", second)), time.UTC)
		if err != nil {
			b.Fatal(err)
		}
		table[i] = jobs.Job{Name: fmt.Sprintf("job-%05d", i), Schedule: parsed,
			Handler: "nothing", MisfireThreshold: time.Minute}
	}
	store := simstore.New()
	s, err := New(Options{Store: store, RunStore: simstore.WithoutSQL(store), Registry: registry,
		Replica: "a", Workers: 100, Heartbeat: 5 * time.Second, SessionTTL: 15 * time.Second,
		Log: zerolog.Nop(), Jobs: table})
	if err != nil {
		b.Fatal(err)
	}
	d, now := s.dispatcher, time.Now()
	for _, e := range d.table.all() {
		e.activeVersion.register(1)
		e.activeVersion.update(storage.ActiveDefinition{Version: 1, CheckedUntil: now})
		d.plan(e, now)
	}
	ctx, stop := context.WithDeadline(b.Context(), until)
	defer stop()
	var delays []time.Duration
	for ctx.Err() == nil {
		d.sleep(ctx)
		d.tick()
		handed := time.Now()
		for _, p := range d.ready.takeAll() {
			if !p.ScheduledAt.Before(from) {
				delays = append(delays, handed.Sub(p.ScheduledAt))
			}
		}
	}
	return delays
}

// dispatchByCron is dispatchByHoldfast for robfig/cron.
func dispatchByCron(b *testing.B, seconds []int, from, until time.Time) []time.Duration {
	b.Helper()
	parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month |
		cron.Dow)
	c := cron.New(cron.WithLocation(time.UTC))
	delays := make([]time.Duration, 2*len(seconds))
	var n atomic.Int64
	for _, second := range seconds {
		parsed, err := parser.Parse(fmt.Sprintf("%d * * * * *", second))
		if err != nil {
			b.Fatal(err)
		}
		c.Schedule(parsed, cron.FuncJob(func() {
			handed := time.Now()
			scheduledAt := handed.Truncate(time.Minute).Add(time.Duration(second) * time.Second)
			if scheduledAt.After(handed) {
				scheduledAt = scheduledAt.Add(-time.Minute)
			}
			if !scheduledAt.Before(from) {
				delays[n.Add(1)-1] = handed.Sub(scheduledAt)
			}
		}))
	}
	c.Start()
	time.Sleep(time.Until(until))
	<-c.Stop().Done()
	return delays[:n.Load()]
}

// BenchmarkTick measures what a firing costs one of 48 replicas that does not try it: 1,000 quick
// jobs with one schedule are due at the same time, and this replica is not in their subset.
func BenchmarkTick(b *testing.B) {
	const firings = 1000
	due := time.Now().Truncate(time.Second)
	hourly, err := schedule.Parse(schedule.Spec{Every: time.Hour}, time.UTC)
	if err != nil {
		b.Fatal(err)
	}
	table := make([]*entry, firings)
	for i := range table {
		table[i] = &entry{Job: jobs.Job{Name: fmt.Sprintf("job-%04d", i), Schedule: hourly,
			MisfireThreshold: time.Hour}}
		table[i].activeVersion.register(1)
		table[i].activeVersion.decide(due.Add(-time.Hour))
	}
	d := &dispatcher{clock: &clusterClock{}, controlState: &controlState{}, ready: newReady("a", 1),
		table: tableOf(table...), workers: newWorkers(100), revised: make(chan struct{})}
	for _, e := range table {
		e.quickness.add(time.Microsecond)
	}
	sessions := liveSessions(48)
	for _, s := range sessions {
		d.ranking = rankingOf(sessions, s.Session)
		var now, next subset
		members, period := d.ranking.at(due), periodOf(due)
		if now.choose(members, sharedRank, period) == nil &&
			next.choose(members, sharedRank, period+1) == nil {
			break
		}
	}
	for _, e := range table {
		d.timetable.plan(e, due)
	}
	for b.Loop() {
		d.lookout = newLookout(nil, nil, d.ranking, d.ready, d.workers, d.clock, zerolog.Nop())
		d.subsets = subsets{}
		d.timetable.planCohort(d.timetable.pop().cohort, time.Now())
		d.tick()
	}
	if n := d.ready.len(); n > 0 {
		b.Fatalf("this replica tries %d firings", n)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/firings, "ns/firing")
}
