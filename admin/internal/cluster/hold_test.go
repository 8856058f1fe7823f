package cluster

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// TestProblemsAreHeld lets a problem of each kind begin and end. The status must show it after the
// time of its kind, and for HoldTime after its end, with its text in the past tense.
func TestProblemsAreHeld(t *testing.T) {
	hour := before(time.Hour)
	ms := int64(61_000)
	cases := map[Kind]struct {
		change func(*Evidence)
		past   string
	}{
		KindStore: {func(e *Evidence) { e.StoreError = "timeout" }, "PostgreSQL did not answer."},
		KindNoReplica: {func(e *Evidence) { e.Replicas = nil },
			"No replica could start runs."},
		KindJobFailing: {func(e *Evidence) {
			e.Outcomes = map[string][]storage.Outcome{
				"invoices": ran(time.Hour, jobs.Failed, jobs.Failed, jobs.Failed)}
		}, "Job invoices failed 3 times in a row."},
		KindReplicaLost: {func(e *Evidence) { e.Replicas = append(e.Replicas, lost("c")) },
			"Replica c was lost."},
		KindNotReady: {func(e *Evidence) { e.Replicas[1].NotReady = "it has no session" },
			"Replica b could not start runs: it has no session."},
		KindClock: {func(e *Evidence) { e.Replicas[1].ClockOffset = &ms },
			"The clock of replica b was 1m1s off."},
		KindDraining: {func(e *Evidence) { e.Replicas[1].Draining = true },
			"Replica b was draining."},
		KindJobFailed: {func(e *Evidence) {
			e.Outcomes = map[string][]storage.Outcome{"invoices": ran(time.Hour, jobs.Failed)}
		}, "The last run of 1 job had failed."},
		KindLongRun: {func(e *Evidence) {
			e.Running = []storage.Record{{Job: "backup", State: jobs.Running, StartedAt: &hour}}
			e.Usual = map[string]storage.Typical{"backup": {Runs: 20, Long: time.Minute}}
		}, "A run of job backup took much longer than usual."},
		KindSkipped: {func(e *Evidence) {
			e.Outcomes = map[string][]storage.Outcome{"rollup": ran(time.Hour, jobs.Skipped,
				jobs.Skipped, jobs.Skipped, jobs.Skipped, jobs.Skipped)}
			e.Skipped = map[string]storage.Record{"rollup": {Job: "rollup"}}
		}, "Job rollup was skipped several times in a row."},
		KindMissed: {func(e *Evidence) {
			e.Missed = []storage.EndCount{{Job: "rollup", Runs: 1, Last: e.Now}}
		}, "Firings of 1 job were missed."},
		KindLongWait: {func(e *Evidence) {
			e.Waiting = []storage.Record{waiter(1, "backup", time.Hour, &jobs.Blocker{})}
		}, "1 run waited longer than usual."},
		KindGivenUp: {func(e *Evidence) {
			e.GivenUp = []storage.Undelivered{{Webhook: "ops", GaveUpAt: &hour}}
		}, "Webhook ops had deliveries that were given up."},
		KindUndelivered: {func(e *Evidence) {
			e.Undelivered = []storage.Undelivered{{Webhook: "ops", CreatedAt: hour}}
		}, "Deliveries of webhook ops failed."},
		KindDrift: {func(e *Evidence) { e.Replicas[1].Version = "2" },
			"The replicas ran different versions."},
		KindMemcached: {func(e *Evidence) {
			e.Memcached.Servers[0].State, e.Memcached.Servers[0].Since =
				memcached.StateUnreachable, e.Now
		}, "memcached m:1 did not answer and is back."},
		KindDatabase: {func(e *Evidence) {
			e.Databases = []JobDatabase{{Name: "marts", Err: errors.New("refused"), Since: e.Now}}
		}, "Database marts was not available to a."},
	}
	for _, kind := range Kinds() {
		c, known := cases[kind]
		if kind == KindSignIns { // depends on the viewer, so it is not held
			continue
		} else if !known {
			t.Errorf("no case for %s", kind)
			continue
		}
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkHeld(t, kind, c.change, c.past) })
		})
	}
}

// checkHeld changes a healthy cluster and changes it back.
func checkHeld(t *testing.T, kind Kind, change func(*Evidence), past string) {
	var hold Hold
	began := time.Now()
	changed := healthyEvidence()
	change(&changed)
	read := func(e Evidence) []Problem {
		e.Now = night.Add(time.Since(began))
		return hold.status(e).Of(kind)
	}
	check := func(when string, got []Problem, want bool) {
		t.Helper()
		if len(got) > 1 || (len(got) == 1) != want {
			t.Fatalf("%s: got %+v, want a problem: %t", when, got, want)
		}
	}
	check("before it", read(healthyEvidence()), false)
	if after := (Problem{Kind: kind}).appearsAfter(); after > 0 {
		time.Sleep(after - time.Millisecond)
		check("just before it appears", read(changed), false)
		time.Sleep(time.Millisecond)
	}
	got := read(changed)
	check("when it appears", got, true)
	text := got[0].Text
	time.Sleep(time.Second)
	got = read(healthyEvidence())
	check("at its end", got, true)
	if got[0].EndedAt == nil || !got[0].EndedAt.Equal(night.Add(time.Since(began))) ||
		got[0].Text != past {
		t.Errorf("at its end: got %+v, want %q with the time of its end", got[0], past)
	}
	time.Sleep(HoldTime - time.Millisecond)
	if got = read(changed); len(got) != 1 || got[0].Text != text || got[0].EndedAt != nil {
		t.Errorf("again within the time: got %+v, want %q", got, text)
	}
	read(healthyEvidence())
	time.Sleep(HoldTime - time.Millisecond)
	check("just before it disappears", read(healthyEvidence()), true)
	time.Sleep(time.Millisecond)
	check("after it", read(healthyEvidence()), false)
}

// TestLostLocksAreShownAtOnce checks that a past event of memcached need not last.
func TestLostLocksAreShownAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hold Hold
		hold.status(healthyEvidence())
		time.Sleep(time.Second)
		e := healthyEvidence()
		e.Memcached.Servers[0].Events = []memcached.Event{
			{Kind: memcached.EventRestarted, At: e.Now}}
		got := hold.status(e).Of(KindMemcached)
		if len(got) != 1 || got[0].Text != "memcached m:1 restarted and lost its locks." {
			t.Errorf("got %+v, want the restart", got)
		}
	})
}

// TestHoldWithoutEarlierStatuses checks that a problem is shown at once, or not at all, if nobody
// read the status before.
func TestHoldWithoutEarlierStatuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hold Hold
		e := healthyEvidence()
		e.Replicas[1].NotReady = "it has no session"
		if got := hold.status(e).Problems; len(got) != 1 {
			t.Errorf("the first status has %+v, want the problem at once", got)
		}
		time.Sleep(2 * HoldTime) // nobody reads the status
		if got := hold.status(healthyEvidence()).Problems; len(got) != 0 {
			t.Errorf("long after: got %+v, want none", got)
		}
		e.Replicas[1].Session = uuid.New()
		time.Sleep(settleTime)
		if got := hold.status(e).Problems; len(got) != 1 {
			t.Errorf("%s after the last status: got %+v, want the problem", settleTime, got)
		}
	})
}

// TestHoldDuringAnOutage checks that problems that cannot be checked while the store does not
// answer neither end nor begin.
func TestHoldDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hold Hold
		e := healthyEvidence()
		e.Replicas[1].Draining = true
		hold.status(e)
		down := e
		down.StoreError = "timeout"
		for range 10 {
			time.Sleep(HoldTime / 20)
			if got := hold.status(down); len(got.Problems) != 1 || len(got.Of(KindStore)) != 1 {
				t.Fatalf("during the outage: got %+v, want only the store", got.Problems)
			}
		}
		v := hold.status(e)
		var texts []string
		for _, p := range v.Problems {
			texts = append(texts, p.Text)
		}
		const headline = "PostgreSQL did not answer"
		want := headline + ".|Replica b is draining. It starts no new runs."
		if got := strings.Join(texts, "|"); got != want || v.Headline != headline {
			t.Errorf("after it: got %q and %q, want %q", v.Headline, got, want)
		}
	})
}

// TestPartsDoNotFlicker checks that the parts of the status bar have the severities of the problems
// that are shown, with current texts.
func TestPartsDoNotFlicker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hold Hold
		began := time.Now()
		check := func(state memcached.State, want Severity, text string) {
			t.Helper()
			e := healthyEvidence()
			e.Now = night.Add(time.Since(began))
			e.Memcached.Servers[0].State, e.Memcached.Servers[0].Since = state, night
			parts := hold.status(e).Parts
			got := parts[len(parts)-1]
			if got.Name != "memcached" || got.Severity != want || got.Text != text {
				t.Errorf("after %s: got %+v, want %s, %q", time.Since(began), got, want, text)
			}
		}
		const gone = "1 of 1 does not answer"
		check(memcached.StateUnreachable, Neutral, gone)
		time.Sleep(settleTime)
		check(memcached.StateUnreachable, Amber, gone)
		check(memcached.StateSafe, Amber, "1 server")
		time.Sleep(HoldTime)
		check(memcached.StateSafe, Neutral, "1 server")
	})
}
