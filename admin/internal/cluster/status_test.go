package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// night is the time of the store's clock in the tests of the status.
var night = time.Date(2026, 3, 17, 2, 41, 17, 0, time.UTC)

func before(d time.Duration) time.Time { return night.Add(-d) }

func liveReplica(name string) Replica {
	return Replica{State: ReplicaLive, ReplicaView: storage.ReplicaView{
		Session: uuid.NewSHA1(uuid.Nil, []byte(name)), Name: name, Version: "1.4.0",
		StartedAt: before(26 * time.Hour), LastHeartbeat: before(2 * time.Second),
		ExpiresAt: night.Add(13 * time.Second), ConfigHash: "5f3a", LockServers: "77b0",
	}}
}

func lost(name string) Replica {
	r := liveReplica(name)
	r.State, r.LastHeartbeat, r.ExpiresAt = ReplicaLost, before(6*time.Minute),
		before(5*time.Minute)
	r.Session = uuid.NewSHA1(uuid.Nil, []byte(name+" lost"))
	ended := before(5*time.Minute - time.Second)
	r.EndedAt = &ended
	return r
}

// ran returns outcomes a minute apart, the newest first. The newest ended since before the store's
// time.
func ran(since time.Duration, states ...jobs.State) (outcomes []storage.Outcome) {
	for i, state := range states {
		at := before(since + time.Duration(i)*time.Minute)
		outcomes = append(outcomes, storage.Outcome{ScheduledAt: at, State: state, FinishedAt: &at})
	}
	return outcomes
}

func waiter(n byte, job string, since time.Duration, b *jobs.Blocker) storage.Record {
	return storage.Record{ID: uuid.UUID{15: n}, Job: job, State: jobs.Waiting,
		CreatedAt: before(since), WaitSince: before(since), BlockedBy: b, Reason: reasons.LockHeld}
}

// healthyEvidence has two live replicas, available memcached and no problem.
func healthyEvidence() Evidence {
	return Evidence{StoreName: "PostgreSQL", ServedBy: ServedBy{Replica: "a", Ready: true,
		Session: liveReplica("a").Session.String()},
		Rules: Rules{MaxOffset: 10 * time.Second},
		Memcached: &MemcachedView{SeenBy: "a", Servers: []memcached.Health{
			{Server: "m:1", State: memcached.StateSafe}}},
		Snapshot: Snapshot{Now: night, Replicas: []Replica{liveReplica("a"), liveReplica("b")},
			Facts: Facts{Outcomes: map[string][]storage.Outcome{},
				Delays: map[string]storage.Typical{}}}}
}

func TestStatus(t *testing.T) {
	const fail, ok = jobs.Failed, jobs.Succeeded
	holder := locking.Owner{Job: "extract-crm", Replica: "a", Run: uuid.UUID{15: 99}.String()}
	backup := waiter(1, "backup", 41*time.Minute, &jobs.Blocker{Resource: "public/customers",
		Holder: holder})
	behind := waiter(2, "archive", 31*time.Minute, &jobs.Blocker{Resource: "public/orders",
		Waiting: true, Holder: locking.Owner{Job: "backup", Run: backup.ID.String()}})
	failing := func(outcomes ...storage.Outcome) func(*Evidence) {
		return func(e *Evidence) { e.Outcomes["invoices"] = outcomes }
	}
	replica := func(change func(*Replica)) func(*Evidence) {
		return func(e *Evidence) { change(&e.Replicas[1]) }
	}
	both := func(change func(*Replica)) func(*Evidence) {
		return func(e *Evidence) {
			for i := range e.Replicas {
				change(&e.Replicas[i])
			}
		}
	}
	drains := func(r *Replica) {
		r.Draining, r.NotReady = true, "replica is not ready: it was drained by an operator"
	}
	wait := func(delay time.Duration, waiting ...storage.Record) func(*Evidence) {
		return func(e *Evidence) {
			e.Waiting, e.Delays["backup"] = waiting, storage.NewTypical([]time.Duration{delay})
		}
	}
	offset := func(ms int64) func(*Evidence) {
		return replica(func(r *Replica) {
			if r.ClockOffset = &ms; ms > 10_000 {
				r.NotReady = "its clock is off"
			}
		})
	}
	server := func(h memcached.Health) func(*Evidence) {
		return func(e *Evidence) { h.Server = "m:1"; e.Memcached.Servers[0] = h }
	}
	const skip = jobs.Skipped
	nights := func(states ...jobs.State) (outcomes []storage.Outcome) {
		for i, state := range states {
			at := before(time.Duration(24*i+3) * time.Hour)
			outcomes = append(outcomes, storage.Outcome{ScheduledAt: at, State: state,
				FinishedAt: &at})
		}
		return outcomes
	}
	runs := func(n int, usual, took time.Duration) func(*Evidence) {
		return func(e *Evidence) {
			at := before(took)
			e.Running = []storage.Record{{ID: uuid.UUID{15: 99}, Job: "extract-crm",
				State: jobs.Running, StartedAt: &at}}
			e.Usual = map[string]storage.Typical{
				"extract-crm": {Runs: n, Median: usual, Long: usual}}
		}
	}
	skips := func(blocker *jobs.Blocker, outcomes ...storage.Outcome) func(*Evidence) {
		return func(e *Evidence) {
			e.Outcomes["rollup"] = slices.Clone(outcomes)
			e.Skipped = map[string]storage.Record{"rollup": {Job: "rollup", State: jobs.Skipped,
				Reason: reasons.LockHeld}}
			if blocker != nil {
				copied := *blocker
				e.Skipped["rollup"] = storage.Record{Job: "rollup", State: jobs.Skipped,
					Reason: reasons.LockHeld, BlockedBy: &copied}
			}
		}
	}
	missed := func(ago time.Duration) func(*Evidence) {
		return func(e *Evidence) {
			for _, job := range []string{"rollup", "backup"} {
				e.Missed = append(e.Missed, storage.EndCount{Job: job, State: jobs.Missed, Runs: 2,
					Reason: reasons.Misfire, Last: before(ago)})
			}
		}
	}
	gaveUp := before(time.Hour)
	const severed = "Replica b is lost and not back. Its runs are recorded as lost."
	for name, c := range map[string]struct {
		change   func(*Evidence)
		severity Severity
		headline string
		texts    string // texts of all problems, separated by |
	}{
		"healthy": {func(*Evidence) {}, Neutral, "Healthy", ""},
		"store": {func(e *Evidence) { e.StoreError = "timeout" }, Red, "PostgreSQL does not answer",
			"PostgreSQL does not answer. No run starts, and active runs end when their replica " +
				"cannot confirm its session."},
		"only the store while it does not answer": {func(e *Evidence) {
			e.StoreError = "timeout"
			drains(&e.Replicas[1])
		}, Red, "PostgreSQL does not answer", "PostgreSQL does not answer. No run starts, and " +
			"active runs end when their replica cannot confirm its session."},
		"no replica": {func(e *Evidence) { e.Replicas = nil }, Red, "No replica can start runs",
			"No replica is live. No run starts."},
		"all drain": {both(drains), Red, "No replica can start runs",
			"Every live replica is stopping, draining or cannot start runs. No run starts.|" +
				"Replica a is draining. It starts no new runs.|" +
				"Replica b is draining. It starts no new runs."},
		"one replica stops": {func(e *Evidence) { e.Replicas[1].Stopping = true }, Neutral,
			"Healthy", ""},
		"all stop": {both(func(r *Replica) { r.Stopping = true }), Red,
			"No replica can start runs",
			"Every live replica is stopping, draining or cannot start runs. No run starts."},
		"three failures": {failing(ran(time.Hour, fail, jobs.TimedOut, jobs.Lost, ok)...), Red,
			"1 job fails repeatedly", "Job invoices failed 3 times in a row."},
		"two failures": {failing(ran(time.Hour, fail, fail, ok, fail)...), Amber,
			"1 job failed in its last run", "The last run of job invoices failed."},
		"one failure of a frequent job": {failing(ran(time.Minute, fail, ok, ok)...), Neutral,
			"Healthy", ""},
		"one failure of a job of the night": {failing(nights(fail, ok, ok)...), Amber,
			"1 job failed in its last run", "The last run of job invoices failed."},
		"failure of a job of the night after a trigger": {
			failing(append(ran(3*time.Hour-time.Minute, fail), nights(ok, ok, ok)...)...), Amber,
			"1 job failed in its last run", "The last run of job invoices failed."},
		"first run": {failing(nights(fail)...), Amber, "1 job failed in its last run",
			"The last run of job invoices failed."},
		"first run lately": {failing(ran(time.Minute, fail)...), Neutral, "Healthy", ""},
		"job of the night with a success since": {failing(nights(ok, fail, fail)...), Neutral,
			"Healthy", ""},
		"last failed long ago": {failing(ran(maxFailureAge+time.Second, fail)...), Neutral,
			"Healthy", ""},
		"several last runs": {func(e *Evidence) {
			for _, job := range []string{"a", "b", "c", "d", "e", "f"} {
				e.Outcomes[job] = nights(fail, ok)
			}
		}, Amber, "6 jobs failed in their last runs",
			"The last runs of these jobs failed: a, b, c, d and two more."},
		"limit of rules": {func(e *Evidence) {
			e.Rules.FailingAfter = 2
			e.Outcomes["invoices"] = ran(time.Hour, fail, fail, ok, fail)
		}, Red, "1 job fails repeatedly", "Job invoices failed 2 times in a row."},
		"firings that did not run do not end a streak": {failing(ran(time.Second, jobs.Running,
			fail, jobs.Skipped, fail, jobs.Cancelled, jobs.Missed, fail, ok)...), Red,
			"1 job fails repeatedly", "Job invoices failed 3 times in a row."},
		"recovered lately": {failing(ran(HoldTime-time.Second, ok, fail, fail, fail)...), Red,
			"1 job failed repeatedly", "Job invoices failed 3 times in a row. Its last run succeeded."},
		"recovered": {failing(ran(HoldTime, ok, fail, fail, fail)...), Neutral, "Healthy", ""},
		"fails again after a success": {failing(ran(time.Second, fail, ok, fail, fail, fail)...),
			Neutral, "Healthy", ""},
		"long run": {runs(20, 20*time.Minute, 62*time.Minute), Amber,
			"1 run takes longer than usual", "A run of job extract-crm takes longer than three " +
				"times as long as usual. 95% of its last 20 runs took at most 20 min."},
		"run of three times the usual": {runs(20, 20*time.Minute, time.Hour), Neutral, "Healthy",
			""},
		"run below a minute": {runs(20, time.Second, 59*time.Second), Neutral, "Healthy", ""},
		"run of an unknown job": {runs(usualRuns-1, time.Second, time.Hour), Neutral, "Healthy",
			""},
		"long wait behind a long run": {func(e *Evidence) {
			runs(20, 20*time.Minute, 62*time.Minute)(e)
			wait(time.Minute, backup)(e)
		}, Amber, "Runs wait longer than usual", "1 run waits longer than usual behind " +
			"extract-crm, which holds public/customers. Job extract-crm usually takes 20 min."},
		"skipped five times": {skips(nil, ran(time.Minute, skip, skip, skip, skip, skip, ok)...),
			Amber, "1 job is skipped repeatedly", "Job rollup was skipped 5 times in a row. " +
				"Reason: a resource is held."},
		"skipped four times": {skips(nil, ran(time.Minute, skip, skip, skip, skip, ok)...),
			Neutral, "Healthy", ""},
		"skipped since the list begins": {skips(nil, ran(time.Minute, slices.Repeat(
			[]jobs.State{skip}, outcomesOfJob)...)...), Amber, "1 job is skipped repeatedly",
			"Job rollup was skipped at least 20 times in a row. Reason: a resource is held."},
		"skipped before it runs": {skips(nil, ran(time.Minute, jobs.Running, skip, skip, skip,
			skip, skip)...), Neutral, "Healthy", ""},
		"skipped two nights": {skips(backup.BlockedBy, nights(jobs.Waiting, skip, skip, ok)...),
			Amber, "1 job is skipped repeatedly", "Job rollup was skipped 2 times in a row. " +
				"Root blocker: extract-crm."},
		"skipped one night": {skips(nil, nights(skip, ok)...), Neutral, "Healthy", ""},
		"skipped by operators": {func(e *Evidence) {
			skips(nil, nights(skip, skip, skip)...)(e)
			for i := range e.Outcomes["rollup"] {
				e.Outcomes["rollup"][i].Reason = []jobs.Reason{reasons.Paused,
					reasons.Overlap}[i%2]
			}
		}, Neutral, "Healthy", ""},
		"skipped because the job was removed": {func(e *Evidence) {
			skips(nil, nights(skip, skip)...)(e)
			for i := range e.Outcomes["rollup"] {
				e.Outcomes["rollup"][i].Reason = reasons.JobGone
			}
		}, Neutral, "Healthy", ""},
		"skips because of a long wait": {func(e *Evidence) {
			skips(behind.BlockedBy, nights(skip, skip)...)(e)
			skipped := e.Skipped["rollup"]
			skipped.BlockedBy.Root = jobs.Root{Resource: "public/customers", Holder: holder}
			e.Skipped["rollup"] = skipped
			wait(time.Minute, backup)(e)
		}, Amber, "Runs wait longer than usual", "1 run waits longer than usual behind " +
			"extract-crm, which holds public/customers. Firings of rollup are skipped because " +
			"of it."},
		"misfires": {missed(missedWithin - time.Second), Amber, "Firings were missed",
			"Firings of backup, rollup were missed within the last hour."},
		"misfires of earlier": {missed(missedWithin), Neutral, "Healthy", ""},
		"misfires of a pause": {func(e *Evidence) {
			missed(time.Minute)(e)
			for i := range e.Missed {
				e.Missed[i].Reason = reasons.Paused
			}
		}, Neutral, "Healthy", ""},
		"failed long ago": {failing(ran(maxFailureAge+time.Second, fail, fail, fail)...), Neutral,
			"Healthy", ""},
		"lost": {func(e *Evidence) { e.Replicas[1] = lost("b") }, Amber, "1 replica is lost",
			severed},
		"lost with its runs": {func(e *Evidence) {
			e.Replicas[1] = lost("b")
			e.Outcomes["invoices"] = []storage.Outcome{{ScheduledAt: before(7 * time.Minute),
				State: jobs.Lost, FinishedAt: e.Replicas[1].EndedAt}}
			e.Outcomes["invoices"] = append(e.Outcomes["invoices"], nights(ok, ok)...)
		}, Amber, "1 replica is lost", strings.Replace(severed, "as lost.",
			"as lost: invoices.", 1)},
		"lost run of another time": {func(e *Evidence) {
			e.Replicas[1] = lost("b")
			e.Outcomes["invoices"] = nights(jobs.Lost, ok)
		}, Amber, "1 replica is lost and 1 job failed in its last run",
			severed + "|The last run of job invoices failed."},
		"expired": {replica(func(r *Replica) { r.State = ReplicaExpired }), Amber,
			"1 replica is lost", "Replica b sends no heartbeats. The next sweep records its runs " +
				"as lost and releases its locks."},
		"lost and back lately": {func(e *Evidence) {
			e.Replicas = append(e.Replicas, lost("b"))
			e.Replicas[1].StartedAt = before(HoldTime - time.Second)
		}, Amber, "1 replica was lost", "Replica b was lost and is back."},
		"lost and back": {func(e *Evidence) {
			e.Replicas = append(e.Replicas, lost("b"))
			e.Replicas[1].StartedAt = before(HoldTime)
		}, Neutral, "Healthy", ""},
		"stopped": {replica(func(r *Replica) { r.State = ReplicaStopped }), Neutral, "Healthy", ""},
		"late":    {replica(func(r *Replica) { r.State = ReplicaLate }), Neutral, "Healthy", ""},
		"draining": {replica(drains), Amber, "1 replica is draining",
			"Replica b is draining. It starts no new runs."},
		"not ready": {replica(func(r *Replica) { r.NotReady = "it has no session" }), Amber,
			"1 replica cannot start runs", "Replica b cannot start runs: it has no session."},
		"this one has no session": {func(e *Evidence) {
			e.ServedBy = ServedBy{Replica: "c", NotReady: "it has no session"}
		}, Amber, "1 replica cannot start runs", "Replica c cannot start runs: it has no session."},
		"clock": {offset(61_250), Amber, "1 clock is off",
			"The clock of replica b is 1m1.25s off. " +
				"The replica starts no runs while the offset is more than 10s."},
		"clock within the limit": {offset(10_000), Neutral, "Healthy", ""},
		"long wait": {wait(time.Minute, backup, behind), Amber, "Runs wait longer than usual",
			"2 runs wait longer than usual behind extract-crm, which holds public/customers."},
		"long wait as usual": {wait(42*time.Minute, backup), Neutral, "Healthy", ""},
		"short wait": {wait(0, waiter(1, "backup", time.Minute, backup.BlockedBy)), Neutral,
			"Healthy", ""},
		"retry wait": {func(e *Evidence) {
			rests := waiter(1, "backup", time.Hour, nil)
			rests.Reason = reasons.Retry
			e.Waiting = []storage.Record{rests}
		}, Neutral, "Healthy", ""},
		"deliveries": {func(e *Evidence) {
			e.GivenUp = []storage.Undelivered{{Webhook: "billing", GaveUpAt: &gaveUp},
				{Webhook: "billing", GaveUpAt: &gaveUp}, {Webhook: "ops", GaveUpAt: &gaveUp}}
		}, Amber, "Webhook deliveries were given up", "2 deliveries of webhook billing were " +
			"given up in the last 24 h.|1 delivery of webhook ops was given up in the last 24 h."},
		"failing deliveries": {func(e *Evidence) {
			e.Undelivered = []storage.Undelivered{
				{Webhook: "billing", CreatedAt: before(11 * time.Minute), Error: "503"},
				{Webhook: "ops", CreatedAt: before(12 * time.Minute)},
				{Webhook: "billing", CreatedAt: before(time.Hour), Error: "refused"}}
		}, Amber, "Webhook deliveries fail", "1 delivery of webhook ops has failed for more " +
			"than 10 min.|2 deliveries of webhook billing have failed for more than 10 min. " +
			"Last error: 503."},
		"drift": {replica(func(r *Replica) { r.ConfigHash = "17aa" }), Amber,
			"Configurations of replicas differ", "The replicas have two different cron tables " +
				"(a / b). Replicas with the newest definition of a job fire it."},
		"versions": {replica(func(r *Replica) { r.Version = "1.5.0" }), Amber,
			"Configurations of replicas differ", "The replicas run two different versions."},
		"deploy": {replica(func(r *Replica) {
			r.Version, r.ConfigHash, r.StartedAt = "1.5.0", "17aa", before(deployTime-time.Second)
		}), Neutral, "Healthy", ""},
		"memcached": {server(memcached.Health{State: memcached.StateUnreachable,
			Error: "memcached m:1: i/o timeout"}), Amber, "Memcached needs attention",
			"memcached m:1 does not answer a: i/o timeout. Locks rely on the store alone."},
		"several": {func(e *Evidence) {
			failing(ran(time.Hour, fail, fail, fail)...)(e)
			e.Outcomes["reminders"] = ran(time.Minute, fail, fail, fail, fail)
			e.Replicas = append(e.Replicas, lost("c"))
			drains(&e.Replicas[1])
		}, Red, "2 jobs fail repeatedly", "Job reminders failed 4 times in a row.|" +
			"Job invoices failed 3 times in a row.|" + strings.ReplaceAll(severed, " b ", " c ") +
			"|Replica b is draining. It starts no new runs."},
	} {
		e := healthyEvidence()
		c.change(&e)
		v := NewStatus(e)
		var texts []string
		for _, p := range v.Problems {
			texts = append(texts, p.Text)
			if p.Link == "" || p.Severity == Neutral || !strings.HasPrefix(p.Link, "/") {
				t.Errorf("%s: %+v has no link or severity", name, p)
			}
		}
		if got := strings.Join(texts, "|"); v.Severity != c.severity || v.Headline != c.headline ||
			got != c.texts {
			t.Errorf("%s: %s, %q\n%s\nwant %s, %q\n%s", name, v.Severity, v.Headline,
				got, c.severity, c.headline, c.texts)
		}
	}
}

// TestProblemsThatMayBeOlderAreLast checks that the order of two failing jobs stays while the
// first of the failures that were read grows younger.
func TestProblemsThatMayBeOlderAreLast(t *testing.T) {
	const fail = jobs.Failed
	for _, since := range []time.Duration{time.Second, time.Hour} {
		e := healthyEvidence()
		all := slices.Repeat([]jobs.State{fail}, outcomesOfJob)
		e.Outcomes["invoices"] = ran(since, all...)
		e.Outcomes["mails"] = ran(10*time.Minute, all...)
		e.Outcomes["reminders"] = ran(20*time.Minute, fail, fail, fail, jobs.Succeeded)
		var order []string
		for _, p := range NewStatus(e).Problems {
			order = append(order, p.Subject)
			if want := p.Subject != "reminders"; p.AtLeast != want {
				t.Errorf("%s: at least is %v, want %v", p.Subject, p.AtLeast, want)
			}
		}
		if want := []string{"reminders", "invoices", "mails"}; !slices.Equal(order, want) {
			t.Errorf("the last failure was %v ago: got %v, want %v", since, order, want)
		}
	}
}

// TestOldEventsDuringAnOutage checks that the status ignores old events of memcached while the
// store does not answer, whether or not a time of the store is known.
func TestOldEventsDuringAnOutage(t *testing.T) {
	now := time.Now()
	for name, storeNow := range map[string]time.Time{"no cached page": {},
		"an old cached page": now.Add(-time.Hour)} {
		for age, want := range map[time.Duration]int{time.Minute: 1, recentEventAge + 1: 0} {
			e := healthyEvidence()
			e.Now, e.StoreError = storeNow, "timeout"
			e.Memcached.Servers[0].Events = []memcached.Event{
				{Kind: memcached.EventRestarted, At: now.Add(-age)}}
			got := slices.DeleteFunc(NewStatus(e).Problems,
				func(p Problem) bool { return p.Kind != KindMemcached })
			if len(got) != want {
				t.Errorf("%s, event %v ago: got %v, want %d", name, age, got, want)
			}
		}
	}
}

// TestHeadlineIsShort checks a cluster with more kinds of problems than a headline names.
func TestHeadlineIsShort(t *testing.T) {
	e := healthyEvidence()
	e.Replicas[1].Draining, e.Replicas[1].Version = true, "2"
	e.Replicas = append(e.Replicas, lost("c"), lost("d"))
	e.Memcached.Servers[0].State = memcached.StateUnsafe
	const want = "2 replicas are lost, 1 replica is draining and 2 other problems"
	if got := NewStatus(e).Headline; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestEveryKindHasAPhrase checks that each kind of problem has its own phrase and does not use that
// of memcached.
func TestEveryKindHasAPhrase(t *testing.T) {
	seen := make(map[string]Kind)
	for _, kind := range Kinds() {
		text := fmt.Sprint(phrase([]Problem{{Kind: kind, Subject: "x"}}))
		if other, twice := seen[text]; twice {
			t.Errorf("%s and %s: %s", kind, other, text)
		}
		seen[text] = kind
	}
}

// BenchmarkProblems judges a cluster in which 300 runs wait for one long run each, beside 1,000
// other long runs, and in which all firings of 1,000 jobs were skipped.
func BenchmarkProblems(b *testing.B) {
	e := healthyEvidence()
	e.Usual, e.Skipped = map[string]storage.Typical{}, map[string]storage.Record{}
	minute := storage.NewTypical(slices.Repeat([]time.Duration{time.Minute}, usualRuns))
	const waits, others = 300, 1000
	for i := range waits + others {
		run := storage.Record{ID: uuid.NewSHA1(uuid.Nil, []byte{byte(i), byte(i >> 8)}),
			Job: fmt.Sprintf("job-%d", i), State: jobs.Running, CreatedAt: before(time.Hour)}
		e.Running, e.Usual[run.Job] = append(e.Running, run), minute
		if i >= waits {
			skipped := fmt.Sprintf("skipped-%d", i)
			e.Outcomes[skipped] = ran(time.Minute, slices.Repeat([]jobs.State{jobs.Skipped}, 20)...)
			e.Skipped[skipped] = storage.Record{Job: skipped}
			continue
		}
		waiting := waiter(0, "waits-"+run.Job, time.Hour, &jobs.Blocker{Resource: "public/t",
			Holder: locking.Owner{Job: run.Job, Run: run.ID.String()}})
		waiting.ID = uuid.NewSHA1(uuid.Nil, []byte{byte(i), byte(i >> 8), 1})
		e.Waiting = append(e.Waiting, waiting)
	}
	for b.Loop() {
		waits := waitFactsOf(e)
		found := 0
		add := func(Problem) { found++ }
		waitProblems(e, waits, add)
		longRunProblems(e, waits, add)
		skippedProblems(e, waits, add)
		if found < len(e.Running) {
			b.Fatalf("%d problems", found)
		}
	}
}
