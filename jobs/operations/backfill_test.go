package operations

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/test/simstore"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// operator is the actor of the tests.
var operator = storage.Action{Actor: "ann"}

// nightly is a job at 02:30 in Berlin, except on 29 March 2025. On the next day that time does not
// exist.
func nightly(t *testing.T) jobs.Job {
	t.Helper()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	s, err := schedule.ParseText("30 2 * * *", berlin)
	if err != nil {
		t.Fatal(err)
	}
	stocktaking, err := schedule.NewCalendar(schedule.CalendarSpec{Name: "stocktaking",
		Exclude: schedule.TimesSpec{Dates: []string{"2025-03-29"}}})
	if err != nil {
		t.Fatal(err)
	}
	return jobs.Job{Name: "nightly", Schedule: s.WithCalendars(stocktaking), Handler: "work",
		Overlap: jobs.OverlapSkip}
}

// operate returns operations on a new store, in which a session has the jobs.
func operate(t *testing.T, table ...jobs.Job) (*Operations, *simstore.Store, uuid.UUID) {
	t.Helper()
	store, session := simstore.New(), uuid.New()
	if err := store.Open(t.Context(), storage.Session{ID: session, Replica: "a", Version: "v",
		TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	var definitions []storage.Definition
	for _, j := range table {
		d, err := storage.Define(j, nil)
		if err != nil {
			t.Fatal(err)
		}
		definitions = append(definitions, d)
	}
	if _, err := store.Register(t.Context(), session, definitions); err != nil {
		t.Fatal(err)
	}
	return New(Options{Control: store, Lookup: store,
		Configured: explain.TableOf(table).Job}), store, session
}

func march(day int) time.Time { return time.Date(2025, 3, day, 0, 0, 0, 0, time.UTC) }

func TestPlanOfABackfill(t *testing.T) {
	ops, store, session := operate(t, nightly(t))
	done := storage.StartRequest{Run: uuid.New(), Attempt: 1,
		Firing: storage.Firing{Job: "nightly", ScheduledAt: march(28).Add(90 * time.Minute)}}
	started, err := store.Start(t.Context(), session, []storage.StartRequest{done})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Finish(t.Context(), []storage.FinishRequest{{Run: done.Run,
		Token: started[0].Token, State: jobs.Succeeded}}); err != nil {
		t.Fatal(err)
	}
	request := BackfillRequest{Job: "nightly", From: march(27), To: march(31).Add(30 * time.Minute)}
	plan, err := ops.PlanBackfill(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range plan.Times {
		got = append(got, strings.TrimSpace(p.ScheduledAt.Format("02 15:04 ")+p.LeftOut))
		if ran := p.Run == done.Run; ran != (p.LeftOut == "succeeded") {
			t.Errorf("%s has run %s", p.ScheduledAt, p.Run)
		}
	}
	want := "27 01:30, 28 01:30 succeeded, 29 01:30 excluded by calendar stocktaking, " +
		"30 01:00, 31 00:30"
	if text := strings.Join(got, ", "); text != want || plan.Runs != 3 || plan.LeftOut != 2 ||
		plan.Parallel != 1 {
		t.Errorf("got %s with %d runs and %d left out, want %s", text, plan.Runs, plan.LeftOut,
			want)
	}
	b, err := ops.Backfill(t.Context(), operator, request)
	if err != nil || b.Times != 4 || b.CreatedBy != "ann" || b.Parallel != 1 {
		t.Errorf("got %+v, %v, want 4 scheduled times", b, err)
	}
	if read, err := ops.ReadBackfill(t.Context(), b.ID); err != nil || read.Times != 4 {
		t.Errorf("read %+v, %v", read, err)
	}
	if all, err := ops.Backfills(t.Context(), storage.BackfillFilter{}); err != nil ||
		len(all) != 1 {
		t.Errorf("listed %+v, %v", all, err)
	}
	if ended, err := ops.CancelBackfill(t.Context(), operator, b.ID); err != nil ||
		ended.State != storage.BackfillCancelled {
		t.Errorf("cancelled %+v, %v", ended, err)
	}
}

func TestRefusedBackfills(t *testing.T) {
	often := nightly(t)
	often.Name = "often"
	every, err := schedule.Parse(schedule.Spec{Every: time.Second}, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	often.Schedule, often.Overlap = every, jobs.OverlapAllow
	follows := nightly(t)
	follows.Name = "follows"
	if follows.Schedule, err = schedule.Parse(schedule.Spec{After: []string{"often"}},
		time.UTC); err != nil {
		t.Fatal(err)
	}
	ops, _, _ := operate(t, nightly(t), often, follows)
	for _, test := range []struct {
		request BackfillRequest
		field   string // of the *BadInputError
		text    string
	}{
		{BackfillRequest{Job: "nightly", From: march(27), To: time.Now().Add(time.Hour)}, "to", "in the future"},
		{BackfillRequest{Job: "nightly", From: time.Now().Add(time.Hour)}, "from", "in the future"},
		{BackfillRequest{Job: "nightly", From: march(28), To: march(27)}, "to", "not before"},
		{BackfillRequest{Job: "nightly", To: march(27)}, "from", "1970"},
		{BackfillRequest{Job: "nightly", From: march(27), To: march(27)}, "from", "no scheduled time"},
		{BackfillRequest{Job: "nightly", From: march(29), To: march(30)}, "from", "no scheduled time"},
		{BackfillRequest{Job: "nightly", From: march(1), To: march(9), Parallel: 2}, "parallel", "overlap: allow"},
		{BackfillRequest{Job: "nightly", From: march(1), To: march(9), Parallel: -1}, "parallel", "found -1"},
		{BackfillRequest{Job: "often", From: march(1), To: march(1), Parallel: 101}, "parallel",
			"expected 1 to 100"},
		{BackfillRequest{Job: "often", From: march(1), To: march(2)}, "from", "more than 10000 scheduled times"},
		{BackfillRequest{Job: "follows", From: march(1), To: march(2)}, "job", "runs after often"},
	} {
		_, err := ops.Backfill(t.Context(), operator, test.request)
		var bad *storage.BadInputError
		if !errors.As(err, &bad) || bad.Field != test.field ||
			!strings.Contains(bad.Problem, test.text) {
			t.Errorf("%+v: got %v, want %s: … %s …", test.request, err, test.field, test.text)
		}
		if _, planned := ops.PlanBackfill(t.Context(), test.request); fmt.Sprint(planned) !=
			fmt.Sprint(err) {
			t.Errorf("%+v: the plan returns %v, want %v", test.request, planned, err)
		}
	}
	_, err = ops.Backfill(t.Context(), operator, BackfillRequest{Job: "unknown", From: march(1)})
	if !errors.Is(err, storage.ErrNotFound) ||
		fmt.Sprint(err) != `job "unknown": not found in this configuration; use a replica that `+
			`has the job` {
		t.Errorf("got %v for an unknown job", err)
	}
	unregistered, _, _ := operate(t)
	unregistered.options.Configured = ops.options.Configured
	_, err = unregistered.Backfill(t.Context(), operator, BackfillRequest{Job: "nightly",
		From: march(1), To: march(9)})
	if !errors.Is(err, storage.ErrNotFound) || !strings.HasSuffix(fmt.Sprint(err), "job nightly: "+
		"not found in the store: no replica with this job has become ready yet") {
		t.Errorf("got %v for a job that no replica has registered", err)
	}
	last := BackfillRequest{Job: "often", From: march(1),
		To: march(1).Add(9_999 * time.Second)}
	if b, err := ops.Backfill(t.Context(), operator, last); err != nil || b.Times != 10_000 {
		t.Errorf("got %+v, %v, want 10,000 scheduled times", b, err)
	}
	other := nightly(t)
	other.Schedule = every
	ops.options.Configured = explain.TableOf([]jobs.Job{other}).Job
	_, err = ops.Backfill(t.Context(), operator, BackfillRequest{Job: "nightly", From: march(1),
		To: march(1).Add(time.Second)})
	if !errors.Is(err, storage.ErrConflict) {
		t.Errorf("got %v for another schedule than the active one", err)
	}
}

// Without To, the backfill ends when its request came. A repeated request comes later.
func TestRepeatedBackfillUntilNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ops, _, _ := operate(t, nightly(t))
		a, request := operator, BackfillRequest{Job: "nightly", From: time.Now().AddDate(0, 0, -9)}
		a.Key = "k"
		first, err := ops.Backfill(t.Context(), a, request)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(48 * time.Hour)
		again, err := ops.Backfill(t.Context(), a, request)
		if err != nil || again.ID != first.ID || !again.To.Equal(first.To) {
			t.Errorf("got %+v, %v, want the first backfill %+v", again, err, first)
		}
		request.To = first.To
		if _, err = ops.Backfill(t.Context(), a, request); !errors.Is(err, storage.ErrKeyUsed) {
			t.Errorf("got %v for another To with the same key, want %v", err, storage.ErrKeyUsed)
		}
	})
}
