package cluster

import (
	"slices"
	"testing"
	"testing/synctest"
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

// TestLongStreaksAreCounted checks the number and the begin of more failures in a row than the
// outcomes of a job have.
func TestLongStreaksAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		store, session := simstore.New(), uuid.New()
		must(store.Open(t.Context(), storage.Session{ID: session, Replica: "a", Version: "v",
			TTL: 24 * time.Hour}))
		every, err := schedule.Parse(schedule.Spec{Every: time.Minute}, time.UTC)
		must(err)
		d, err := storage.Define(jobs.Job{Name: "a", Schedule: every, Handler: "work"}, nil)
		must(err)
		versions, err := store.Register(t.Context(), session, []storage.Definition{d})
		must(err)
		var first time.Time // the end of the first failure after a success
		states := append([]jobs.State{jobs.Failed, jobs.Succeeded},
			slices.Repeat([]jobs.State{jobs.Failed}, outcomesOfJob+5)...)
		for i, state := range states {
			time.Sleep(time.Minute)
			run, at := uuid.New(), time.Now()
			started, err := store.Start(t.Context(), session, []storage.StartRequest{{Run: run,
				New: true, Version: versions["a"], Attempt: 1,
				Firing: storage.Firing{Job: "a", ScheduledAt: at}}})
			must(err)
			_, err = store.Finish(t.Context(), []storage.FinishRequest{{Run: run,
				Token: started[0].Token, State: state, Error: "exit status 1"}})
			must(err)
			if i == 2 {
				first = at
			}
		}
		now := time.Now()
		facts, err := NewReader(records.Reader{Store: store}, nil, nil, nil).facts(t.Context(), now)
		must(err)
		s := facts.streak("a", now)
		if s.Failures != outcomesOfJob+5 || !s.Since.Truncate(time.Second).Equal(first) || s.Open {
			t.Errorf("got %d failures since %v, open: %v; want %d since %v", s.Failures, s.Since,
				s.Open, outcomesOfJob+5, first)
		}
	})
}
