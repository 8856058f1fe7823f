package cluster

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/internal/test/jobstest"
	"github.com/holdfast-dev/holdfast/internal/test/simstore"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// A job whose past times fail in a backfill is not failing now, and its runs start in time.
func TestFactsLeaveOutRunsOfBackfills(t *testing.T) {
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	every, err := schedule.Parse(schedule.Spec{Every: time.Hour}, time.UTC)
	must(err)
	d, err := storage.Define(jobs.Job{Name: "a", Schedule: every, Handler: "work"}, nil)
	must(err)
	store, session := simstore.New(), uuid.New()
	must(store.Open(ctx, storage.Session{ID: session, Replica: "a", Version: "v", TTL: time.Hour}))
	versions, err := store.Register(ctx, session, []storage.Definition{d})
	must(err)
	now, err := store.Now(ctx)
	must(err)
	const failures = 3
	step := storage.BackfillStep{Version: versions["a"], Last: true}
	for n := range failures + 1 {
		at := now.Truncate(time.Hour).Add(time.Duration(n-90*24) * time.Hour)
		step.Times = append(step.Times,
			storage.BackfillTime{ScheduledAt: at, Run: uuid.New()})
	}
	ann := storage.Action{Actor: "ann", Via: "page"}
	b, err := store.AddBackfill(ctx, ann, storage.BackfillRequest{
		Job: "a", From: step.Times[0].ScheduledAt, To: step.Times[failures].ScheduledAt,
		Parallel: 1, Times: failures + 1, ScheduleKey: d.ScheduleKey()})
	must(err)
	for range failures {
		step.Backfill, step.After = b.ID, b.HandledUntil
		b, err = store.AdvanceBackfill(ctx, step)
		must(err)
		adopted, err := store.Adopt(ctx, session, jobstest.Adoption(nil, 1, "a"))
		must(err)
		if len(adopted) != 1 {
			t.Fatalf("adopted %+v, want the run of the backfill", adopted)
		}
		r := adopted[0]
		started, err := store.Start(ctx, session, []storage.StartRequest{{Run: r.ID, Attempt: 1,
			Firing: storage.Firing{Job: "a", ScheduledAt: r.ScheduledAt, Key: r.Key}}})
		must(err)
		_, err = store.Finish(ctx, []storage.FinishRequest{{Run: r.ID, Token: started[0].Token,
			State: jobs.Failed, Error: "old"}})
		must(err)
		step.Times = step.Times[1:]
	}
	step.After = b.HandledUntil
	b, err = store.AdvanceBackfill(ctx, step)
	must(err)
	if b.Unsuccessful != failures || b.Runs != failures+1 {
		t.Fatalf("backfill %+v, want %d failed runs and a waiting one", b, failures)
	}
	facts, err := NewReader(records.Reader{Store: store}, nil, nil, nil).facts(ctx, now)
	must(err)
	if n := newStreak(facts.Outcomes["a"], now).Failures; n > 0 || facts.errors["a"].text != "" {
		t.Errorf("%d failures with the error %q, want none", n, facts.errors["a"].text)
	}
	if delay := facts.Delays["a"]; delay.Runs > 0 {
		t.Errorf("start delays %+v of the runs of the backfill, want none", delay)
	}
}
