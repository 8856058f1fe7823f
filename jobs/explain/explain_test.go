package explain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// archive is a store whose contents a test sets.
type archive struct {
	storage.History
	now     time.Time
	views   map[string]storage.FiringView // by job: the active definition with its cursor
	runs    []storage.Record              // runs of all jobs
	up      bool                          // whether a replica is live
	drained bool                          // whether that replica is draining
	failing error
}

func (a *archive) Now(context.Context) (time.Time, error) { return a.now, nil }

func (a *archive) Firing(_ context.Context, job string,
	scheduledAt time.Time) (storage.FiringView, error) {
	v, known := a.views[job]
	if !known {
		return v, storage.ErrNotFound
	}
	v.Now = a.now
	for _, r := range a.runs {
		if r.Job == job && r.Key == "" && r.ScheduledAt.Equal(scheduledAt) {
			v.Runs = append(v.Runs, r)
		}
		if r.Job == job && r.Key != "" && r.ScheduledAt.Equal(scheduledAt) {
			v.Manual = append(v.Manual, r)
		}
	}
	return v, a.failing
}

func (a *archive) Runs(_ context.Context, f storage.RunFilter) ([]storage.Record, error) {
	var found []storage.Record
	for _, r := range a.runs {
		if r.Job == f.Job && r.CreatedAt.Before(f.Before.CreatedAt) {
			found = append(found, r)
		}
	}
	return found, nil
}

func (a *archive) Jobs(context.Context) ([]storage.JobView, error) {
	var views []storage.JobView
	for name := range a.views {
		views = append(views, storage.JobView{Definition: storage.Definition{Name: name}})
	}
	return views, nil
}

func (a *archive) Replicas(context.Context) ([]storage.ReplicaView, error) {
	if !a.up {
		return []storage.ReplicaView{{Name: "gone", ExpiresAt: a.now.Add(-time.Minute)}}, nil
	}
	return []storage.ReplicaView{{Name: "a", ExpiresAt: a.now.Add(time.Minute),
		Draining: a.drained}}, nil
}

var _ storage.History = (*archive)(nil)

func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func scheduled(t *testing.T, name, text string) jobs.Job {
	t.Helper()
	s, err := schedule.ParseText(text, berlin(t))
	if err != nil {
		t.Fatal(err)
	}
	return jobs.Job{Name: name, Schedule: s, Handler: "work", MisfireThreshold: 30 * time.Second,
		Misfire: jobs.MisfireRunOnce}
}

// explainTable is the cron table of these tests. The job nightly fires at 2:30.
func explainTable(t *testing.T) []jobs.Job {
	t.Helper()
	holidays, err := schedule.NewCalendar(schedule.CalendarSpec{Name: "holidays",
		Exclude: schedule.TimesSpec{Dates: []string{"2026-12-24"}}})
	if err != nil {
		t.Fatal(err)
	}
	closing, err := schedule.NewCalendar(schedule.CalendarSpec{Name: "closing",
		Exclude: schedule.TimesSpec{Dates: []string{"2026-06-08"}}})
	if err != nil {
		t.Fatal(err)
	}
	nightly := scheduled(t, "nightly", "30 2 * * *")
	nightly.Schedule = nightly.Schedule.WithCalendars(holidays)
	jittery := scheduled(t, "jittery", "30 2 * * *")
	jittery.Schedule = jittery.Schedule.WithJitter(time.Hour)
	quiet := scheduled(t, "quiet", "after:nightly")
	quiet.Schedule = quiet.Schedule.WithCalendars(holidays)
	closed := scheduled(t, "closed", "after:nightly")
	closed.Schedule = closed.Schedule.WithCalendars(closing)
	weekly := scheduled(t, "weekly", "30 2 * * mon")
	triggered := jobs.Job{Name: "triggered", Handler: "work", MisfireThreshold: time.Second}
	return []jobs.Job{nightly, jittery, quiet, closed, weekly,
		scheduled(t, "report", "after:nightly,weekly"), scheduled(t, "digest", "after:report"),
		triggered}
}

func instantOf(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.ParseInLocation("2006-01-02 15:04:05", text, berlin(t))
	if err != nil {
		t.Fatal(err)
	}
	return at.UTC()
}

// TestExplanations checks each verdict with its first sentence.
func TestExplanations(t *testing.T) {
	at := func(text string) time.Time { return instantOf(t, text) }
	ptr := func(text string) *time.Time { t := at(text); return &t }
	scheduledAt := at("2026-06-08 02:30:00") // a Monday
	run := func(job string, state jobs.State, change func(*storage.Record)) storage.Record {
		r := storage.Record{
			ID: uuid.MustParse("0197f000-0000-7000-8000-000000000001"), Job: job,
			ScheduledAt: scheduledAt, State: state, Attempt: 1, Replica: "a", Token: 17,
			CreatedAt: scheduledAt, StartedAt: ptr("2026-06-08 02:30:01"),
			FinishedAt: ptr("2026-06-08 02:31:11"),
		}
		if change != nil {
			change(&r)
		}
		return r
	}
	unstarted := func(reason jobs.Reason, detail string) func(*storage.Record) {
		return func(r *storage.Record) {
			r.StartedAt, r.Attempt, r.Token, r.Reason, r.Detail = nil, 0, 0, reason, detail
		}
	}
	pause := storage.Pause{Target: storage.Target{Kind: storage.TargetJob, Name: "nightly"},
		At: at("2026-06-07 12:00:00"), By: "alice", Reason: "migration"}
	over := pause
	over.ResumedAt, over.ResumedBy = ptr("2026-06-08 08:00:00"), "bob"
	for _, c := range []struct {
		name, job, at string
		// by default some time after the scheduled time, with all decisions made
		now     string
		checked string
		down    bool
		drained bool
		runs    []storage.Record
		pauses  []storage.Pause
		verdict explain.Verdict
		want    string
	}{
		{name: "ran", runs: []storage.Record{run("nightly", jobs.Succeeded, nil)},
			verdict: explain.VerdictRan,
			want: "It ran on replica a at 2026-06-08 02:30:01 CEST for 1m10s and succeeded, " +
				"with token 17."},
		{name: "failed in a further attempt", runs: []storage.Record{run("nightly", jobs.Failed, func(r *storage.Record) { r.Error, r.Attempt = "no such table\nat line 3", 3 })},
			verdict: explain.VerdictRan,
			want: "It ran on replica a at 2026-06-08 02:30:01 CEST for 1m10s and failed: no such " +
				"table, with token 17, in attempt 3."},
		{name: "recovered", runs: []storage.Record{
			run("nightly", jobs.Lost, func(r *storage.Record) { r.Replica, r.Token = "dead", 16 }),
			run("nightly", jobs.Succeeded, func(r *storage.Record) { r.Recovery = 1 }),
		}, verdict: explain.VerdictRan,
			want: "It ran on replica a at 2026-06-08 02:30:01 CEST for 1m10s and succeeded, with " +
				"token 17, as recovery 1 of a run that was lost on replica dead."},
		{name: "lost", runs: []storage.Record{run("nightly", jobs.Lost, func(r *storage.Record) {
			r.Detail = "its replica died"
		})}, verdict: explain.VerdictRan,
			want: "It ran on replica a at 2026-06-08 02:30:01 CEST for 1m10s and was lost: its " +
				"replica died, with token 17."},
		{name: "ran late", runs: []storage.Record{run("nightly", jobs.Succeeded, func(r *storage.Record) {
			r.CreatedAt = scheduledAt.Add(2 * time.Hour)
		})}, verdict: explain.VerdictRan,
			want: "It ran on replica a at 2026-06-08 02:30:01 CEST for 1m10s and succeeded, with " +
				"token 17, 2h late."},
		{name: "running", runs: []storage.Record{run("nightly", jobs.Running, func(r *storage.Record) {
			r.FinishedAt = nil
		})}, verdict: explain.VerdictRunning,
			want: "It has run on replica a since 2026-06-08 02:30:01 CEST, with token 17."},
		{name: "waiting", runs: []storage.Record{run("nightly", jobs.Waiting, func(r *storage.Record) {
			unstarted(reasons.LockHeld, "")(r)
			r.BlockedBy = &jobs.Blocker{Resource: "public/orders",
				Holder: locking.Owner{Job: "import", Replica: "b", Run: "4711"}}
		})}, verdict: explain.VerdictWaiting,
			want: "Its run has waited since 2026-06-08 02:30:00 CEST: public/orders is held by " +
				"job import (run 4711) on b."},
		{name: "waiting for a program", runs: []storage.Record{run("nightly", jobs.Waiting, func(r *storage.Record) {
			unstarted(reasons.LockHeld, "")(r)
			r.BlockedBy = &jobs.Blocker{Resource: "public/orders",
				Holder: locking.Owner{Replica: "b"}}
		})}, verdict: explain.VerdictWaiting,
			want: "Its run has waited since 2026-06-08 02:30:00 CEST: public/orders is held by a " +
				"program on b."},
		{name: "waiting for an attempt", runs: []storage.Record{run("nightly", jobs.Waiting, func(r *storage.Record) { r.Reason, r.Detail = reasons.Retry, "attempt 1 ended as failed" })},
			verdict: explain.VerdictWaiting,
			want: "Its run has waited since 2026-06-08 02:30:00 CEST: attempt 1 ended as failed, " +
				"and the next one follows."},
		{name: "waiting for a worker", runs: []storage.Record{run("nightly", jobs.Waiting, unstarted(reasons.NoWorker, ""))},
			verdict: explain.VerdictWaiting,
			want: "Its run has waited since 2026-06-08 02:30:00 CEST: replica a has no free " +
				"worker."},
		{name: "waiting for a replica", runs: []storage.Record{run("nightly", jobs.Waiting, func(r *storage.Record) {
			unstarted(reasons.NoWorker, "")(r)
			r.Replica = ""
		})}, verdict: explain.VerdictWaiting,
			want: "Its run has waited since 2026-06-08 02:30:00 CEST: no replica with a free " +
				"worker has adopted it yet."},
		{name: "waiting for a replica that does not drain", drained: true, runs: []storage.Record{run("nightly", jobs.Waiting, func(r *storage.Record) {
			unstarted(reasons.After, "after weekly")(r)
			r.Replica = ""
		})}, verdict: explain.VerdictWaiting,
			want: "Its run has waited since 2026-06-08 02:30:00 CEST: after weekly; every live " +
				"replica is draining."},
		{name: "skipped", runs: []storage.Record{run("nightly", jobs.Skipped, unstarted(reasons.LockHeld, "public/orders was held by job import on b; tried 5 times in 7.5s"))},
			verdict: explain.VerdictSkipped,
			want: "It was skipped (lock_held): public/orders was held by job import on b; tried " +
				"5 times in 7.5s."},
		{name: "missed", runs: []storage.Record{run("nightly", jobs.Missed, unstarted(reasons.Misfire, "no replica started it within 30s"))},
			verdict: explain.VerdictMissed,
			want:    "It was missed (misfire): no replica started it within 30s."},
		{name: "missed by a pause", runs: []storage.Record{run("nightly", jobs.Missed, unstarted(reasons.Paused, "it was paused"))}, pauses: []storage.Pause{over},
			verdict: explain.VerdictMissed, want: "It was missed (paused): it was paused; job " +
				"nightly was paused by alice from 2026-06-07 12:00:00 CEST until 2026-06-08 " +
				"08:00:00 CEST."},
		{name: "cancelled before it ran", runs: []storage.Record{run("nightly", jobs.Cancelled, unstarted(reasons.Cancelled, "by alice"))},
			verdict: explain.VerdictCancelled,
			want:    "It did not run, and ended as cancelled: by alice."},
		{name: "excluded", at: "2026-12-24 02:30", now: "2026-12-25 00:00:00", verdict: explain.VerdictExcluded, want: "It was not run, because calendar holidays excludes 2026-12-24 02:30:00 CET."},
		{name: "paused", checked: "2026-06-07 12:00:00", pauses: []storage.Pause{pause},
			verdict: explain.VerdictPaused,
			want: "It was to start at 2026-06-08 02:30:00 CEST, but job nightly has been " +
				"paused since 2026-06-07 12:00:00 CEST by alice (migration). When the pause " +
				"ends, the misfire policy decides."},
		{name: "late", now: "2026-06-08 02:30:04", checked: "2026-06-07 02:31:00",
			verdict: explain.VerdictLate,
			want: "It was to start at 2026-06-08 02:30:00 CEST, 4s ago, and no replica has " +
				"started it yet."},
		{name: "overdue", now: "2026-06-08 02:30:34", checked: "2026-06-07 02:31:00",
			verdict: explain.VerdictLate,
			want: "It was to start at 2026-06-08 02:30:00 CEST, 34s ago, and no replica has " +
				"started it. At the next check for misfires, the misfire policy " +
				"decides."},
		{name: "late and draining", now: "2026-06-08 02:30:04", checked: "2026-06-07 02:31:00",
			drained: true, verdict: explain.VerdictLate,
			want: "It was to start at 2026-06-08 02:30:00 CEST, 4s ago, and no replica has " +
				"started it yet: every live replica is draining."},
		{name: "overdue and draining", now: "2026-06-08 02:30:34", checked: "2026-06-07 02:31:00",
			drained: true, verdict: explain.VerdictLate,
			want: "It was to start at 2026-06-08 02:30:00 CEST, 34s ago, and no replica has " +
				"started it: every live replica is draining. At the next check for misfires, " +
				"the misfire policy decides."},
		{name: "no live replica", now: "2026-06-08 04:30:00", checked: "2026-06-07 02:31:00",
			down: true, verdict: explain.VerdictLate,
			want: "It was to start at 2026-06-08 02:30:00 CEST, 2h ago, but no replica is live. " +
				"When a replica starts, the misfire policy decides."},
		{name: "future", now: "2026-06-07 12:00:00", verdict: explain.VerdictFuture, want: "It is due in 14h30m, at 2026-06-08 02:30:00 CEST."},
		{name: "future and paused", now: "2026-06-07 12:00:00", pauses: []storage.Pause{pause},
			verdict: explain.VerdictFuture,
			want: "It is due in 14h30m, at 2026-06-08 02:30:00 CEST; job nightly has been " +
				"paused since 2026-06-07 12:00:00 CEST by alice (migration)."},
		{name: "not due", at: "2026-06-08 02:31", verdict: explain.VerdictNotScheduled,
			want: "It is not due at 2026-06-08 02:31:00 CEST: the scheduled time before is " +
				"2026-06-08 02:30:00 CEST, the next is 2026-06-09 02:30:00 CEST."},
		{name: "never due", job: "triggered", at: "2026-06-08T00:30:00Z", verdict: explain.VerdictNotScheduled, want: "It is never due: it has no schedule and runs only when triggered."},
		{name: "not counted", at: "2026-05-31 02:30", verdict: explain.VerdictNotCounted,
			want: "There is no record of it: the job's active definition is of 2026-06-01 " +
				"00:00:00 CEST. Before that time, the job did not exist, had another schedule, " +
				"or had an outage. Only the last scheduled times of an outage have one record " +
				"each."},
		{name: "not recorded", at: "2026-06-03 02:30", verdict: explain.VerdictNotCounted,
			want: "There is no record of it: it is one of the earlier scheduled times of an " +
				"outage. Only the last scheduled times of an outage have one record each."},
		{name: "forgotten", at: "2026-04-30 02:30", verdict: explain.VerdictForgotten,
			want: "Its outcome is no longer known: the history is kept for 30 days, and the " +
				"scheduled time was 39 days ago."},
		{name: "in a gap", at: "2027-03-28 02:30", verdict: explain.VerdictFuture, want: "It is due in 292 days, at 2027-03-28 03:00:00 CEST."},

		{name: "dependency is not due", job: "report", at: "2026-06-09 02:30",
			now: "2026-06-09 12:00:00", verdict: explain.VerdictNotScheduled,
			want: "It is not due at 2026-06-09 02:30:00 CEST, because it depends on weekly, " +
				"which has no run for that scheduled time: it is not due at 2026-06-09 02:30:00 " +
				"CEST: the scheduled time before is 2026-06-08 02:30:00 CEST, the next is " +
				"2026-06-15 02:30:00 CEST."},
		{name: "dependency runs", job: "report",
			runs: []storage.Record{run("nightly", jobs.Succeeded, nil),
				run("weekly", jobs.Running, nil)}, verdict: explain.VerdictAwaitingDependencies,
			want: "It waits for weekly to succeed: it has run on replica a since 2026-06-08 " +
				"02:30:01 CEST, with token 17."},
		{name: "dependency failed", job: "report",
			runs: []storage.Record{run("nightly", jobs.Failed, func(r *storage.Record) {
				r.Error = "boom"
			}), run("weekly", jobs.Running, nil)}, verdict: explain.VerdictDependencyFailed,
			want: "It was not run, because its dependency nightly did not succeed: it ran on " +
				"replica a at 2026-06-08 02:30:01 CEST for 1m10s and failed: boom, with token 17."},
		{name: "dependency of a dependency failed", job: "digest",
			runs: []storage.Record{run("nightly", jobs.Succeeded, nil),
				run("weekly", jobs.Skipped,
					unstarted(reasons.LockHeld, "held"))}, verdict: explain.VerdictDependencyFailed,
			want: "It was not run, because its dependency report did not succeed: it was not " +
				"run, because its dependency weekly did not succeed: it was skipped " +
				"(lock_held): held."},
		{name: "dependency is due later", job: "report", now: "2026-06-07 12:00:00",
			verdict: explain.VerdictFuture,
			want: "It is due when nightly and weekly have succeeded for 2026-06-08 02:30:00 " +
				"CEST."},
		{name: "dependency has just succeeded", job: "report", now: "2026-06-08 02:31:12",
			checked: "2026-06-01 02:31:00",
			runs: []storage.Record{run("nightly", jobs.Succeeded, nil),
				run("weekly", jobs.Succeeded, nil)}, verdict: explain.VerdictLate,
			want: "It was to start at 2026-06-08 02:31:11 CEST, 1s ago, and no replica has " +
				"started it yet."},
		{name: "dependent is excluded", job: "quiet", at: "2026-12-24 02:30",
			now: "2026-12-25 12:00:00", verdict: explain.VerdictNotScheduled,
			want: "It is not due at 2026-12-24 02:30:00 CET, because it depends on nightly, " +
				"which has no run for that scheduled time: it was not run, because calendar " +
				"holidays excludes 2026-12-24 02:30:00 CET."},
		{name: "dependent is excluded and its dependency is not", job: "closed",
			runs:    []storage.Record{run("nightly", jobs.Succeeded, nil)},
			verdict: explain.VerdictExcluded,
			want:    "It is not run, because calendar closing excludes 2026-06-08 02:30:00 CEST."},
		{name: "dependent ran", job: "report",
			runs: []storage.Record{run("nightly", jobs.Succeeded, nil),
				run("weekly", jobs.Succeeded, nil),
				run("report", jobs.Succeeded, nil)}, verdict: explain.VerdictRan,
			want: "It ran on replica a at 2026-06-08 02:30:01 CEST for 1m10s and succeeded, with " +
				"token 17."},
	} {
		t.Run(c.name, func(t *testing.T) {
			orElse := func(text, other string) string {
				if text == "" {
					return other
				}
				return text
			}
			table := explainTable(t)
			store := &archive{now: at(orElse(c.now, "2026-06-08 12:00:00")), up: !c.down,
				drained: c.drained,
				views:   map[string]storage.FiringView{}, runs: c.runs}
			for _, j := range table {
				store.views[j.Name] = storage.FiringView{Version: 1,
					UpdatedAt:    at("2026-06-01 00:00:00"),
					CheckedUntil: at(orElse(c.checked, "2026-06-08 11:59:00"))}
			}
			pauses := func(context.Context, string, string, time.Time, time.Time) ([]storage.Pause,
				error) {
				return c.pauses, nil
			}
			x := explain.New(explain.Options{Store: store, Table: explain.TableOf(table),
				Pauses: pauses})
			e, err := x.Explain(t.Context(), orElse(c.job, "nightly"),
				orElse(c.at, "2026-06-08 02:30"))
			if err != nil {
				t.Fatal(err)
			}
			if e.Verdict != c.verdict || e.Summary != c.want {
				t.Errorf("got %s\n%s\nwant %s\n%s", e.Verdict, e.Summary, c.verdict, c.want)
			}
			if !slices.Contains(explain.Verdicts(), e.Verdict) {
				t.Errorf("verdict %q is not listed", e.Verdict)
			}
			if encoded, err := json.Marshal(e); err != nil ||
				!strings.Contains(string(encoded), `"runs":[`) {
				t.Errorf("got %s (%v), want a list of runs", encoded, err)
			}
		})
	}
}

func TestExplanationDetails(t *testing.T) {
	table := explainTable(t)
	scheduledAt := instantOf(t, "2026-06-08 02:30:00")
	store := &archive{now: scheduledAt.Add(10 * time.Hour), up: true,
		views: map[string]storage.FiringView{}}
	for _, j := range table {
		store.views[j.Name] = storage.FiringView{Version: 3,
			CheckedUntil: scheduledAt.Add(9 * time.Hour), Hash: "another"}
	}
	store.views["removed"] = storage.FiringView{Version: 1, Removed: true, Schedule: "0 12 * * *",
		Zone: "Europe/Berlin", UpdatedAt: scheduledAt, CheckedUntil: scheduledAt}
	store.views["elsewhere"] = storage.FiringView{Version: 1, Schedule: "0 12 * * *",
		Zone: "Europe/Berlin", CheckedUntil: scheduledAt}
	triggeredAt := scheduledAt.Add(time.Minute)
	manual := storage.Record{ID: uuid.New(), Job: "nightly", ScheduledAt: triggeredAt,
		CreatedAt: triggeredAt, Key: "k", State: jobs.Succeeded}
	far := manual
	far.CreatedAt = scheduledAt.Add(-time.Hour)
	past := manual // by a backfill that runs at that time, for another time
	past.ID, past.Backfill = uuid.New(), uuid.New()
	past.ScheduledAt = scheduledAt.Add(-30 * 24 * time.Hour)
	again := past // by a backfill a month later
	again.ID, again.ScheduledAt = uuid.New(), scheduledAt
	again.CreatedAt = scheduledAt.Add(30 * 24 * time.Hour)
	store.runs = []storage.Record{manual, far, past, again}
	x := explain.New(explain.Options{Store: store, Table: explain.TableOf(table)})
	explained := func(job, at string) explain.Explanation {
		t.Helper()
		e, err := x.Explain(t.Context(), job, at)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	notes := func(e explain.Explanation, want ...string) {
		t.Helper()
		for _, text := range want {
			if !slices.ContainsFunc(e.Notes, func(note string) bool {
				return strings.Contains(note, text)
			}) {
				t.Errorf("notes %q, want one with %q", e.Notes, text)
			}
		}
	}
	e := explained("nightly", "2026-06-08T00:30:00Z")
	if len(e.ManualRuns) != 2 || e.ManualRuns[0].ID != again.ID ||
		e.ManualRuns[1].ID != manual.ID {
		t.Errorf("manual runs %+v, want %s and %s", e.ManualRuns, again.ID, manual.ID)
	}
	notes(e,
		"the active definition of the job is not the one of this configuration: it is version 3")
	if len(e.Notes) != 1 {
		t.Errorf("notes %q, want none about the manual runs, which have a list", e.Notes)
	}
	if e.ScheduledBefore == nil ||
		!e.ScheduledBefore.Equal(scheduledAt.Add(-24*time.Hour)) || e.ScheduledAfter == nil ||
		!e.ScheduledAfter.Equal(scheduledAt.Add(24*time.Hour)) {
		t.Errorf("nearest scheduled times %v and %v", e.ScheduledBefore, e.ScheduledAfter)
	}
	notes(explained("elsewhere", "2026-06-09 12:00"), "this configuration does not have the job")
	if got := explained("elsewhere", "2026-06-09 12:00").Verdict; got != explain.VerdictFuture {
		t.Errorf("by the store's schedule: %s", got)
	}
	if e := explained("removed", "2026-06-08 12:00"); e.Verdict != explain.VerdictNotScheduled ||
		e.Summary != "It is not due: the job was removed at 2026-06-08 02:30:00 CEST." {
		t.Errorf("of a removed job: %s %s", e.Verdict, e.Summary)
	}
	gap := explained("nightly", "2026-03-29 02:30")
	notes(gap, "2026-03-29 02:30:00 does not exist in Europe/Berlin")
	if gap.Clocks == "" || !gap.At.Equal(time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)) {
		t.Errorf("in a gap: %+v", gap)
	}
	twice := explained("nightly", "2026-10-25 02:30")
	notes(twice, "comes twice in Europe/Berlin", "this explanation is for 2026-10-25 02:30:00 CEST")
	if e := explained("nightly", "2026-10-25T01:30:00Z"); e.Verdict != explain.VerdictNotScheduled {
		t.Errorf("the second time: %s", e.Verdict)
	}
	late := explained("jittery", "2026-06-09 02:30")
	if want := late.At.Add(schedule.Jitter("jittery", late.At, time.Hour)); late.StartsAt == nil ||
		!late.StartsAt.Equal(want) || !strings.Contains(late.Summary, "later by its jitter") {
		t.Errorf("with jitter: %v, %s", late.StartsAt, late.Summary)
	}
	report := explained("report", "2026-06-08 02:31")
	if report.ScheduledBefore == nil || !report.ScheduledBefore.Equal(scheduledAt) ||
		report.ScheduledAfter == nil ||
		!report.ScheduledAfter.Equal(scheduledAt.Add(7*24*time.Hour)) || len(report.After) != 2 {
		t.Errorf("of a dependent: %+v", report)
	}
}

// TestExplainedPausesOfTheActiveGroup explains firings of jobs that this configuration does not
// have, or has with another group. Replicas obey pauses of the group of the active definition.
func TestExplainedPausesOfTheActiveGroup(t *testing.T) {
	at := instantOf(t, "2026-06-08 02:30:00")
	view := storage.FiringView{Version: 1, Group: "night", Schedule: "30 2 * * *",
		Zone: "Europe/Berlin", CheckedUntil: at.Add(-time.Hour)}
	store := &archive{now: at.Add(2 * time.Hour), up: true,
		views: map[string]storage.FiringView{"elsewhere": view, "nightly": view}}
	x := explain.New(explain.Options{Store: store, Table: explain.TableOf(explainTable(t)),
		Pauses: func(_ context.Context, _, group string, _, _ time.Time) ([]storage.Pause, error) {
			if group != "night" {
				return nil, nil
			}
			return []storage.Pause{{Target: storage.Target{Kind: storage.TargetGroup,
				Name: group}, At: at.Add(-time.Hour)}}, nil
		}})
	for _, job := range []string{"elsewhere", "nightly"} {
		e, err := x.Explain(t.Context(), job, "2026-06-08 02:30")
		if err != nil {
			t.Fatal(err)
		}
		if e.Verdict != explain.VerdictPaused || len(e.Pauses) != 1 {
			t.Errorf("%s: got %s with the pauses %v, want that its group was paused", job,
				e.Verdict, e.Pauses)
		}
	}
}

func TestExplainRefuses(t *testing.T) {
	store := &archive{views: map[string]storage.FiringView{"stored": {}}}
	x := explain.New(explain.Options{Store: store, Table: explain.TableOf(explainTable(t))})
	var unknown *explain.UnknownJobError
	_, err := x.Explain(t.Context(), "nightyl", "2026-06-08 02:30")
	if !errors.As(err, &unknown) || !errors.Is(err, storage.ErrNotFound) ||
		err.Error() != `unknown job "nightyl"; did you mean "nightly"?` {
		t.Errorf("unknown job: %v", err)
	}
	if _, err := x.Explain(t.Context(), "storde", "2026-06-08 02:30"); err == nil ||
		!strings.Contains(err.Error(), `did you mean "stored"?`) {
		t.Errorf("unknown job: %v", err)
	}
	if _, err := x.Explain(t.Context(), "nightly", "tomorrow"); !errors.Is(err,
		schedule.ErrTime) {
		t.Errorf("no instant: %v", err)
	}
	store.views["nightly"] = storage.FiringView{}
	store.failing = fmt.Errorf("firing: %w", storage.ErrUnavailable)
	if _, err := x.Explain(t.Context(), "nightly", "2026-06-08 02:30"); !errors.Is(err,
		storage.ErrUnavailable) {
		t.Errorf("unavailable: %v", err)
	}
}

// counted is a Store that counts the reads of firings.
type counted struct {
	*archive
	firings int
}

func (c *counted) Firing(ctx context.Context, job string,
	at time.Time) (storage.FiringView, error) {
	c.firings++
	return c.archive.Firing(ctx, job, at)
}

// layers returns jobs in layers of four. Each job runs after all jobs of the layer before.
func layers(t *testing.T, n int) []jobs.Job {
	t.Helper()
	table := []jobs.Job{}
	var before []string
	for layer := range n {
		var names []string
		for i := range 4 {
			name := fmt.Sprintf("layer-%02d-%d", layer, i)
			text := "30 2 * * *"
			if len(before) > 0 {
				text = "after:" + strings.Join(before, ",")
			}
			names, table = append(names, name), append(table, scheduled(t, name, text))
		}
		before = names
	}
	return table
}

// TestManyDependenciesAreExplainedOnce explains a job below twenty layers of four jobs. There are
// 4^20 paths to the first layer.
func TestManyDependenciesAreExplainedOnce(t *testing.T) {
	table := layers(t, 20)
	store := &counted{archive: &archive{now: instantOf(t, "2026-06-08 02:31:00"), up: true,
		views: map[string]storage.FiringView{}}}
	for _, j := range table {
		store.views[j.Name] = storage.FiringView{Version: 1,
			CheckedUntil: instantOf(t, "2026-06-07 23:00:00")}
	}
	x := explain.New(explain.Options{Store: store, Table: explain.TableOf(table)})
	at := instantOf(t, "2026-06-08 02:30:00")
	e, err := x.ExplainAt(t.Context(), "layer-19-0", at)
	if err != nil || e.Verdict != explain.VerdictAwaitingDependencies {
		t.Errorf("got %s (%v), want %s", e.Verdict, err, explain.VerdictAwaitingDependencies)
	}
	if next := instantOf(t, "2026-06-09 02:30:00"); e.ScheduledAfter == nil ||
		!e.ScheduledAfter.Equal(next) {
		t.Errorf("scheduled after %v, want %s", e.ScheduledAfter, next)
	}
	if store.firings > len(table) {
		t.Errorf("%d reads of firings for %d jobs", store.firings, len(table))
	}
}

// TestUnknownDependencyOfSeveral explains a job whose two dependencies both run after a job that no
// replica knows.
func TestUnknownDependencyOfSeveral(t *testing.T) {
	table := []jobs.Job{scheduled(t, "a", "after:x"), scheduled(t, "b", "after:x"),
		scheduled(t, "top", "after:a,b")}
	store := &archive{now: instantOf(t, "2026-06-08 02:31:00"), up: true,
		views: map[string]storage.FiringView{}}
	for _, j := range table {
		store.views[j.Name] = storage.FiringView{Version: 1,
			CheckedUntil: instantOf(t, "2026-06-07 23:00:00")}
	}
	x := explain.New(explain.Options{Store: store, Table: explain.TableOf(table)})
	e, err := x.ExplainAt(t.Context(), "top", instantOf(t, "2026-06-08 02:30:00"))
	if err != nil || len(e.After) != 2 {
		t.Fatalf("got %+v, %v", e, err)
	}
	for _, d := range e.After {
		if d.Verdict != explain.VerdictNotScheduled || !strings.Contains(d.Summary, "no replica") {
			t.Errorf("%s: got %s, %s", d.Job, d.Verdict, d.Summary)
		}
	}
}
