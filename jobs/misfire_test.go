package jobs

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

func entryEvery(t *testing.T, d time.Duration, policy Misfire) *entry {
	t.Helper()
	s, err := schedule.Parse(schedule.Spec{Every: d}, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return &entry{Job: Job{Name: "job", Schedule: s, Misfire: policy, MisfireThreshold: 30 * time.Second}}
}

func TestLongOutageIsRecordedWithinBounds(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		interval, outage time.Duration
		policy           Misfire
		records, late    int
		dropped          bool
	}{
		{time.Minute, time.Hour, MisfireSkip, 60, 0, false},
		{time.Minute, time.Hour, MisfireRunAll, 60, 60, false},
		{time.Minute, 100 * time.Minute, MisfireSkip, 100, 0, false},
		{time.Minute, 101 * time.Minute, MisfireSkip, 100, 0, true},
		{time.Minute, 10 * time.Hour, MisfireRunAll, 100, 100, true},
		{time.Second, 10 * time.Hour, MisfireRunOnce, 100, 1, true},
		{time.Second, 400 * 24 * time.Hour, MisfireRunOnce, 100, 1, true},
		{24 * time.Hour, 90 * 24 * time.Hour, MisfireRunOnce, 90, 1, false},
	} {
		until := from.Add(c.outage)
		got := misfires(entryEvery(t, c.interval, c.policy), Cursor{CheckedUntil: from, Until: until}, until.Add(30*time.Second))
		late := 0
		for i, m := range got {
			if m.State == Waiting {
				late++
			}
			if i > 0 && !m.Firing.Due.After(got[i-1].Firing.Due) {
				t.Errorf("due %s twice", m.Firing.Due)
			}
		}
		if len(got) != c.records || late != c.late || got[len(got)-1].Firing.Due != until {
			t.Errorf("every %s for %s: %d records, %d late, the last for %s", c.interval, c.outage, len(got), late, got[len(got)-1].Firing.Due)
		}
		if told := strings.Contains(got[0].Detail, "not recorded one by one"); told != c.dropped {
			t.Errorf("every %s for %s: first says %q", c.interval, c.outage, got[0].Detail)
		}
	}
}

func TestStartedDuesAreNoMisfires(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	started := []time.Time{from.Add(time.Minute), from.Add(3 * time.Minute)}
	got := misfires(entryEvery(t, time.Minute, MisfireRunOnce), Cursor{CheckedUntil: from, Until: from.Add(3 * time.Minute), Started: started}, from.Add(4*time.Minute))
	if len(got) != 1 || got[0].Firing.Due != from.Add(2*time.Minute) || got[0].State != Waiting {
		t.Errorf("%+v", got)
	}
}

func TestReadyQueueIsByDueThenByAnOrderOfTheReplicasOwn(t *testing.T) {
	order := func(replica string) string {
		r := newReady(replica, 1)
		due := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			r.push(pending{entry: &entry{}, firing: Firing{Job: name, Due: due}})
		}
		r.push(pending{entry: &entry{}, firing: Firing{Job: "early", Due: due.Add(-time.Second)}})
		var names strings.Builder
		for p, ok := r.pop(); ok; p, ok = r.pop() {
			names.WriteString(p.firing.Job)
		}
		return names.String()
	}
	one, two := order("replica-1"), order("replica-2")
	if !strings.HasPrefix(one, "early") || !strings.HasPrefix(two, "early") || len(one) != len("early")+8 {
		t.Errorf("not by due: %s, %s", one, two)
	}
	if one == two || one != order("replica-1") {
		t.Errorf("orders %s and %s: want each replica its own, always the same", one, two)
	}
}
