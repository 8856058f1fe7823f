package engine

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func entryEvery(t *testing.T, d time.Duration, policy jobs.Misfire) *entry {
	t.Helper()
	s, err := schedule.Parse(schedule.Spec{Every: d}, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return &entry{Job: jobs.Job{Name: "job", Schedule: s, Misfire: policy,
		MisfireThreshold: 30 * time.Second}}
}

func TestLongOutageIsRecordedWithinBounds(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		interval, outage time.Duration
		policy           jobs.Misfire
		records, late    int
		dropped          string // what the first record says of scheduled times without records
	}{
		{time.Minute, time.Hour, jobs.MisfireSkip, 60, 0, ""},
		{time.Minute, time.Hour, jobs.MisfireRunAll, 60, 60, ""},
		{time.Minute, 100 * time.Minute, jobs.MisfireSkip, 100, 0, ""},
		{time.Minute, 101 * time.Minute, jobs.MisfireSkip, 100, 0,
			"; 1 earlier scheduled time since 2026-01-01T00:00:00Z has no record of its own"},
		{time.Minute, 10 * time.Hour, jobs.MisfireRunAll, 101, 100,
			"; 499 earlier scheduled times since 2026-01-01T00:00:00Z have no records of their own"},
		{time.Second, 10 * time.Hour, jobs.MisfireRunOnce, 100, 1, "have no records of their own"},
		{time.Second, 400 * 24 * time.Hour, jobs.MisfireRunOnce, 100, 1,
			"have no records of their own"},
		{24 * time.Hour, 90 * 24 * time.Hour, jobs.MisfireRunOnce, 90, 1, ""},
	} {
		until := from.Add(c.outage)
		got := misfires(entryEvery(t, c.interval, c.policy),
			storage.Cursor{CheckedUntil: from, Until: until}, until.Add(30*time.Second))
		late := 0
		for i, m := range got {
			if m.State == jobs.Waiting {
				late++
			}
			if i > 0 && !m.Firing.ScheduledAt.After(got[i-1].Firing.ScheduledAt) {
				t.Errorf("scheduled time %s occurs twice", m.Firing.ScheduledAt)
			}
			if i > 0 && bytes.Compare(m.Run[:], got[i-1].Run[:]) <= 0 {
				t.Errorf("the id of %s is not above that before it", m.Firing.ScheduledAt)
			}
		}
		if len(got) != c.records || late != c.late || got[len(got)-1].Firing.ScheduledAt != until {
			t.Errorf("every %s for %s: %d records, %d late, the last for %s", c.interval, c.outage,
				len(got), late, got[len(got)-1].Firing.ScheduledAt)
		}
		if jumped := c.interval == time.Second &&
			c.outage > 24*time.Hour; jumped != strings.Contains(got[0].Detail, "at least") {
			t.Errorf("every %s for %s: first says %q", c.interval, c.outage, got[0].Detail)
		}
		if reported := strings.Contains(got[0].Detail, "earlier scheduled time"); reported !=
			(c.dropped != "") || !strings.HasSuffix(got[0].Detail, c.dropped) ||
			reported && got[0].State != jobs.Missed {
			t.Errorf("every %s for %s: first says %q", c.interval, c.outage, got[0].Detail)
		}
	}
}

// The last day before a check may have no scheduled times at all, or few.
func TestMisfiresBeforeADayWithoutScheduledTimes(t *testing.T) {
	wednesday := time.Date(2026, 1, 7, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		outage time.Duration
		last   time.Time
	}{
		"until a Sunday": {4*24*time.Hour + 12*time.Hour,
			time.Date(2026, 1, 9, 23, 59, 59, 0, time.UTC)},
		"until a Monday": {5*24*time.Hour + 2*time.Second,
			time.Date(2026, 1, 12, 0, 0, 2, 0, time.UTC)},
	} {
		weekdays, err := schedule.Parse(schedule.Cron("* * * * * MON-FRI"), time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		e := entryEvery(t, time.Second, jobs.MisfireRunOnce)
		e.Schedule = weekdays
		until := wednesday.Add(c.outage)
		got := misfires(e, storage.Cursor{CheckedUntil: wednesday, Until: until},
			until.Add(30*time.Second))
		if len(got) != maxMisfireRecords {
			t.Errorf("%s: got %d records, want %d", name, len(got), maxMisfireRecords)
			continue
		}
		last := got[len(got)-1]
		if !last.Firing.ScheduledAt.Equal(c.last) || last.State != jobs.Waiting ||
			!strings.Contains(got[0].Detail, "at least") || got[0].State != jobs.Missed {
			t.Errorf("%s: got %+v first and %+v last, want a late run for %s", name, got[0], last,
				c.last)
		}
	}
}

// All scheduled times of the last day may have been started.
func TestMisfiresBeforeADayWithoutMisfires(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	until := from.Add(3 * 24 * time.Hour)
	var started []time.Time
	for at := from.Add(2 * 24 * time.Hour); !at.After(until); at = at.Add(time.Second) {
		started = append(started, at)
	}
	got := misfires(entryEvery(t, time.Second, jobs.MisfireRunOnce),
		storage.Cursor{CheckedUntil: from, Until: until, Started: started},
		until.Add(30*time.Second))
	if len(got) != maxMisfireRecords || got[len(got)-1].State != jobs.Waiting ||
		!got[len(got)-1].Firing.ScheduledAt.Before(started[0]) {
		t.Errorf("got %d records %+v, want %d before %s", len(got), got, maxMisfireRecords,
			started[0])
	}
}

func TestStartedScheduledTimesAreNotMisfires(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	started := []time.Time{from.Add(time.Minute), from.Add(3 * time.Minute)}
	got := misfires(entryEvery(t, time.Minute, jobs.MisfireRunOnce),
		storage.Cursor{CheckedUntil: from, Until: from.Add(3 * time.Minute), Started: started},
		from.Add(4*time.Minute))
	if len(got) != 1 || got[0].Firing.ScheduledAt != from.Add(2*time.Minute) ||
		got[0].State != jobs.Waiting {
		t.Errorf("got %+v, want one waiting run of the second scheduled time", got)
	}
}

// An overdue firing of a dependent is decided once: it gets a record, or the cursor passes it.
func TestOverdueFiringsAreDecidedOnce(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(minute int) time.Time { return from.Add(time.Duration(minute) * time.Minute) }
	for _, test := range []struct {
		overdue, open int // overdue firings, and how many of them are before an open one
		decided       int
	}{
		{maxMisfireRecords, 0, maxMisfireRecords},
		{maxMisfireRecords + 1, 0, 0},
		{maxMisfireRecords + 1, 1, maxMisfireRecords + 1},
		{maxMisfireRecords + 50, 50, maxMisfireRecords + 50},
		{maxMisfireRecords + 50, 49, 49},
		{maxMisfireRecords + 50, maxMisfireRecords + 50, maxMisfireRecords + 50},
	} {
		e := entryEvery(t, time.Minute, jobs.MisfireRunOnce)
		open := storage.OpenFirings{CheckedUntil: from}
		for i := range test.overdue + 1 {
			f := storage.OpenFiring{ScheduledAt: at(i + 1), Ready: at(i + 1)}
			if i == test.open {
				f.Ready = time.Time{}
			}
			open.ScheduledTimes = append(open.ScheduledTimes, f)
		}
		now := at(test.overdue + 10)
		decision := e.decideDependent(open, true, now, now)
		if want := at(test.open + 1).Add(-time.Microsecond); !decision.until.Equal(want) {
			t.Errorf("%+v: the cursor moves to %s, want %s", test, decision.until, want)
		}
		if got := len(decision.overdue); got != test.decided {
			t.Errorf("%+v: got %d decided firings", test, got)
			continue
		}
		if test.decided == 0 {
			continue
		}
		got := e.missedDependents(decision, storage.Cursor{CheckedUntil: from,
			Until: decision.until, Last: decision.overdue[test.decided-1]}, now)
		for _, scheduledAt := range decision.overdue {
			if scheduledAt.After(decision.until) &&
				!slices.ContainsFunc(got, func(m storage.Misfired) bool {
					return m.Firing.ScheduledAt.Equal(scheduledAt)
				}) {
				t.Errorf("%+v: %s is after the cursor and has no record", test, scheduledAt)
			}
		}
	}
}

// A pause or a fast clock may leave overdue firings of a dependent to a later check.
func TestOverdueFiringsAfterTheCheckAreLeft(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first, second := from.Add(time.Minute), from.Add(2*time.Minute)
	e := entryEvery(t, time.Minute, jobs.MisfireRunOnce)
	got := e.missedDependents(dependentDecision{overdue: []time.Time{first, second},
		ready: map[time.Time]time.Time{first: first, second: second}},
		storage.Cursor{CheckedUntil: from, Until: from, Last: first}, from.Add(time.Hour))
	if len(got) != 1 || !got[0].Firing.ScheduledAt.Equal(first) || got[0].State != jobs.Waiting {
		t.Errorf("got %+v, want a late run for %s alone", got, first)
	}
}

// If not all open firings of a dependent were read, the cursor passes the others only together with
// a record that mentions them.
func TestOpenFiringsThatWereNotReadAreMentioned(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	e := entryEvery(t, time.Minute, jobs.MisfireRunOnce)
	for _, n := range []int{0, 1, maxMisfireRecords, maxMisfireRecords + 1} {
		open := storage.OpenFirings{CheckedUntil: from, Older: true}
		var at time.Time
		for i := range n {
			at = from.Add(time.Duration(1000+i) * time.Minute)
			open.ScheduledTimes = append(open.ScheduledTimes,
				storage.OpenFiring{ScheduledAt: at, Ready: at})
		}
		now := from.Add(100 * time.Hour)
		if d := e.decideDependent(open, false, now, now); d.jumped || !d.until.Equal(from) {
			t.Errorf("%d late firings: the cursor passes firings that could not be read", n)
		}
		decision := e.decideDependent(open, true, now, now)
		got := e.missedDependents(decision,
			storage.Cursor{CheckedUntil: from, Until: decision.until, Last: at}, now)
		if want := min(n, maxMisfireRecords); len(got) != want {
			t.Errorf("%d late firings: got %d records, want %d", n, len(got), want)
			continue
		}
		if n <= maxMisfireRecords {
			if !decision.until.Equal(from) {
				t.Errorf("%d late firings: the cursor moves to %s", n, decision.until)
			}
			continue
		}
		if !decision.until.Equal(now) ||
			!strings.Contains(got[0].Detail, "at least 1 earlier scheduled time since") {
			t.Errorf("%d late firings: the cursor moves to %s, with the record %q", n,
				decision.until, got[0].Detail)
		}
	}
}

func TestReadyQueueOrdersByScheduledTimeThenByReplica(t *testing.T) {
	order := func(replica string) string {
		r := newReady(replica, 1)
		scheduledAt := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			r.push(pending{entry: &entry{},
				Firing: storage.Firing{Job: name, ScheduledAt: scheduledAt}})
		}
		r.push(pending{entry: &entry{},
			Firing: storage.Firing{Job: "early", ScheduledAt: scheduledAt.Add(-time.Second)}})
		var names strings.Builder
		for p, ok := r.pop(); ok; p, ok = r.pop() {
			names.WriteString(p.Job)
		}
		return names.String()
	}
	one, two := order("replica-1"), order("replica-2")
	if !strings.HasPrefix(one, "early") || !strings.HasPrefix(two, "early") ||
		len(one) != len("early")+8 {
		t.Errorf("not sorted by scheduled time: %s, %s", one, two)
	}
	if one == two || one != order("replica-1") {
		t.Errorf("orders %s and %s: want each replica its own, always the same", one, two)
	}
}

func TestMisfirePolicyDependsOnTheCause(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(minutes float64) time.Time {
		return from.Add(time.Duration(minutes * float64(time.Minute)))
	}
	resumed := at(6.5)
	paused := storage.Pause{Target: storage.Target{Kind: storage.TargetGroup, Name: "night"},
		At: at(4), By: "alice", Reason: "deploy", ResumedAt: &resumed, ResumedBy: "bob"}
	// The replica is up until just after the first two scheduled times, the job is paused for 4 to
	// 6, and the replica is up again from 8 on.
	cursor := storage.Cursor{
		CheckedUntil: from, Until: at(9), Pauses: []storage.Pause{paused},
		Spans: []storage.Span{{From: at(-10), Until: at(2.6)}, {From: at(-20), Until: at(1.2)},
			{From: at(7.5), Until: at(100)}},
	}
	const missed, runsLate = "missed ", "waiting "
	for name, c := range map[string]struct {
		set  func(e *entry)
		want []string // outcomes of the scheduled times at 1 to 9 minutes
	}{
		"the defaults": {func(*entry) {}, []string{
			missed + "superseded", missed + "superseded", missed + "superseded", missed + "paused",
			missed + "paused", missed + "paused",
			missed + "superseded", missed + "superseded", runsLate + "no_worker",
		}},
		"skip misfires of an outage": {func(e *entry) { e.Misfire = jobs.MisfireSkip }, []string{
			missed + "superseded", missed + "superseded", missed + "misfire", missed + "paused",
			missed + "paused", missed + "paused",
			missed + "misfire", missed + "superseded", runsLate + "no_worker",
		}},
		"run all misfires of a pause": {func(e *entry) {
			e.Misfire, e.MisfireBy.NoWorker, e.MisfireBy.Paused = jobs.MisfireSkip,
				jobs.MisfireSkip, jobs.MisfireRunAll
		}, []string{
			missed + "no_worker", missed + "no_worker", missed + "misfire", runsLate + "paused",
			runsLate + "paused", runsLate + "paused",
			missed + "misfire", missed + "no_worker", missed + "no_worker",
		}},
		"run the last misfire of a pause": {func(e *entry) {
			e.MisfireBy = jobs.MisfireRules{NoWorker: jobs.MisfireSkip, Paused: jobs.MisfireRunOnce}
			e.Misfire = jobs.MisfireSkip
		}, []string{
			missed + "no_worker", missed + "no_worker", missed + "misfire", missed + "superseded",
			missed + "superseded", runsLate + "paused",
			missed + "misfire", missed + "no_worker", missed + "no_worker",
		}},
		"at most two": {func(e *entry) {
			e.Misfire, e.MisfireBy = jobs.MisfireRunAll,
				jobs.MisfireRules{NoWorker: jobs.MisfireRunAll, Limit: 2}
		}, []string{
			missed + "no_worker", missed + "no_worker", missed + "misfire", missed + "paused",
			missed + "paused", missed + "paused",
			missed + "misfire", runsLate + "no_worker", runsLate + "no_worker",
		}},
		"limit of three minutes": {func(e *entry) {
			e.Misfire, e.MisfireBy = jobs.MisfireRunAll,
				jobs.MisfireRules{NoWorker: jobs.MisfireRunAll, MaxAge: 3 * time.Minute}
		}, []string{
			missed + "no_worker", missed + "no_worker", missed + "misfire", missed + "paused",
			missed + "paused", missed + "paused",
			runsLate + "misfire", runsLate + "no_worker", runsLate + "no_worker",
		}},
		"deadline of two minutes": {func(e *entry) {
			e.Misfire, e.MisfireBy.NoWorker, e.Deadline = jobs.MisfireRunAll, jobs.MisfireRunAll,
				2*time.Minute
		}, []string{
			"skipped deadline", "skipped deadline", "skipped deadline", missed + "paused",
			missed + "paused", missed + "paused",
			"skipped deadline", runsLate + "no_worker", runsLate + "no_worker",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e := entryEvery(t, time.Minute, jobs.MisfireRunOnce)
			c.set(e)
			var got []string
			found := misfires(e, cursor, at(9.6))
			for _, m := range found {
				got = append(got, string(m.State)+" "+string(m.Reason))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%v, want\n%v", got, c.want)
			}
			for i, words := range map[int]string{
				2: "no replica was up since 2026-01-01T00:02:36Z",
				0: "replicas were up, but none could start it within 30s: no free worker, a full " +
					"group, a drain or a wrong clock",
				4: "group night was paused by alice at 2026-01-01T00:04:00Z and resumed by bob " +
					"at 2026-01-01T00:06:30Z: deploy",
			} {
				if !strings.Contains(found[i].Detail, words) {
					t.Errorf("scheduled time %d: got detail %q, want %q", i+1, found[i].Detail,
						words)
				}
			}
		})
	}
}

// While a late run waits for a worker, further misfires add no runs.
func TestWaitingRunReplacesMisfires(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cursor := storage.Cursor{CheckedUntil: from, Until: from.Add(2 * time.Minute),
		Waits: from.Add(-time.Minute)}
	for policy, want := range map[jobs.Misfire]jobs.State{jobs.MisfireRunOnce: jobs.Missed,
		jobs.MisfireRunAll: jobs.Waiting} {
		for _, m := range misfires(entryEvery(t, time.Minute, policy), cursor,
			from.Add(3*time.Minute)) {
			if m.State != want || want == jobs.Missed &&
				!strings.Contains(m.Detail,
					"the scheduled time 2025-12-31T23:59:00Z is run late in its place") {
				t.Errorf("%s: got %+v, want the scheduled time that is run late", policy, m)
			}
		}
	}
}
