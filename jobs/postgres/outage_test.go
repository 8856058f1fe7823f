package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/retry"
)

// TestOutageOfADayIsRecordedInOneCall checks a replica that starts after a day, with many jobs that
// had a firing every minute.
func TestOutageOfADayIsRecordedInOneCall(t *testing.T) {
	t.Parallel()
	n := soak.Pick(60, 300)
	s := newHarness(t)
	minutely, err := schedule.Parse(schedule.Spec{Every: time.Minute}, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := jobs.NewRegistry(jobs.Handle("work",
		func(context.Context, *jobs.Run, struct{}) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	table := make([]jobs.Job, n)
	for i := range table {
		table[i] = jobs.Job{
			Name: fmt.Sprintf("job-%03d", i), Schedule: minutely, Handler: "work",
			Wait:    retry.Policy{Attempts: 1},
			Overlap: jobs.OverlapSkip, Misfire: jobs.MisfireRunOnce,
			MisfireThreshold: 30 * time.Second,
		}
	}
	run := func(until func() bool) time.Duration {
		t.Helper()
		scheduler, err := engine.New(engine.Options{
			Store: s.a, RunStore: s.a, Registry: registry, Jobs: table, Replica: "a",
			Version: "test", Workers: 8, Heartbeat: time.Second, SessionTTL: 10 * time.Second,
			ShutdownGrace: 10 * time.Second, Log: zerolog.Nop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		start := time.Now()
		go func() { ended <- scheduler.Run(ctx) }()
		for !until() {
			select {
			case err := <-ended:
				t.Fatalf("the replica ended: %v", err)
			case <-time.After(10 * time.Millisecond):
			}
		}
		took := time.Since(start)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		return took
	}
	run(func() bool { return query[int](s, "SELECT count(*) FROM holdfast.jobs") == n })
	s.exec("UPDATE holdfast.jobs SET checked_until = checked_until - interval '1 day'")
	took := run(func() bool {
		return query[bool](s, "SELECT min(checked_until) > clock_timestamp() - interval '2 "+
			"minutes' FROM holdfast.jobs")
	})
	t.Logf("%d scheduled times of %d jobs recorded %s after the replica began",
		query[int](s, "SELECT count(*) FROM holdfast.runs WHERE reason = 'superseded'"), n, took)
	if took > time.Minute {
		t.Errorf("it took %s", took)
	}
	for what, sql := range map[string]string{
		"jobs without a record of their first scheduled times": "SELECT count(*) FROM " +
			"holdfast.jobs j WHERE NOT EXISTS (SELECT FROM holdfast.runs WHERE job = j.name AND " +
			"detail LIKE '% earlier scheduled_times since %')",
		"late runs of scheduled times before the last": "SELECT count(*) FROM holdfast.runs " +
			"WHERE state <> 'missed' AND scheduled_at < clock_timestamp() - interval '5 minutes'",
		"jobs with more or fewer records than 100": "SELECT count(*) FROM (SELECT FROM " +
			"holdfast.runs WHERE scheduled_at <= (SELECT min(checked_until) FROM holdfast.jobs) " +
			"GROUP BY job HAVING count(*) NOT BETWEEN 99 AND 102) l",
	} {
		if n := query[int](s, sql); n != 0 {
			t.Errorf("got %d %s, want none", n, what)
		}
	}
}
