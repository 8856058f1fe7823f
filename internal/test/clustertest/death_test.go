package clustertest

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/replicas"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// SIGKILL ends the replica of a run. The run becomes lost when its session expires, and not before.
// Its table is then free, long before the lease in memcached ends. The next firing runs on the
// other replica.
func TestKillOfAReplica(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{lease: "10m",
		jobs: ledgerJob("hold", "t", "schedule: {every: 1s}", "gate: hold") +
			ledgerJob("other", "u", "schedule: {every: 1s}", "")})
	c.start("a", "b")
	first := c.startedRun("hold", 0)
	if err := c.replicas[first.Replica].Kill(); err != nil {
		t.Fatal(err)
	}
	session := c.sessionOf(first.Token)
	lost := c.awaitEnd(first.ID)
	c.expect(lost, "lost", "session_lost")
	if expires := c.expiry(session); lost.EndedAt.Before(expires) {
		t.Errorf("lost at %s, before its session expired at %s", lost.EndedAt, expires)
	}
	c.expectLine(c.other(first.Replica), "run lost with its replica", first.ID,
		`"dead_replica":"`+first.Replica)
	second := c.startedRun("hold", first.Token)
	if alive := c.other(first.Replica).Name; second.Replica != alive {
		t.Errorf("the next firing ran on %s, want %s", second.Replica, alive)
	}
	if second.ScheduledAt.Equal(first.ScheduledAt) {
		t.Error("the lost firing was run again, which its job does not ask for")
	}
	c.open("hold")
	c.expect(c.awaitEnd(second.ID), "succeeded", "")
	// Now the other replica also fires the job that the dead one fired.
	c.awaitRuns(3, "job = 'other' AND state = 'succeeded' AND scheduled_at > $1", lost.EndedAt)
	if n := askOne[int](c,
		`SELECT count(*) FROM holdfast.runs WHERE state = 'lost' AND replica <> $1`,
		first.Replica); n != 0 {
		t.Errorf("%d runs of the other replica are lost too", n)
	}
	c.audit()
}

// A replica with a configured name ends the session of its predecessor at its start. Other runs
// need not wait until that session expires.
func TestRestartedReplicaTakesOverItsRuns(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{expires: "10m", heartbeat: "10s", lease: "10m",
		jobs: ledgerJob("hold", "t", "", "gate: hold") + ledgerJob("next", "t", "", "")})
	c.start("a")
	c.trigger("hold")
	first := c.startedRun("hold", 0)
	if err := c.replicas["a"].Kill(); err != nil {
		t.Fatal(err)
	}
	c.start("a")
	c.trigger("next")
	c.expect(c.awaitRun("job = 'next' AND finished_at IS NOT NULL"), "succeeded", "")
	lost := c.awaitEnd(first.ID)
	c.expect(lost, "lost", "session_lost")
	opened := askOne[time.Time](c, `SELECT max(started_at) FROM holdfast.sessions`)
	if took := lost.EndedAt.Sub(opened); took > 30*time.Second {
		t.Errorf("its table was free %s after its session was opened", took)
	}
	c.audit()
}

// If the job asks for recovery, another replica runs the same firing again.
func TestRecoveryOfALostRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{jobs: ledgerJob("hold", "t", "recover: true", "gate: hold")})
	c.start("a", "b")
	id := c.trigger("hold")
	first := c.startedRun("hold", 0)
	if first.ID != id {
		t.Errorf("run %s began, not the triggered %s", first.ID, id)
	}
	if err := c.replicas[first.Replica].Kill(); err != nil {
		t.Fatal(err)
	}
	second := c.startedRun("hold", first.Token)
	c.open("hold")
	second = c.awaitEnd(second.ID)
	c.expect(second, "succeeded", "")
	c.expect(c.awaitEnd(first.ID), "lost", "session_lost")
	if second.Recovery != 1 || !second.ScheduledAt.Equal(first.ScheduledAt) ||
		second.Replica != c.other(first.Replica).Name {
		t.Errorf("%+v is no recovery of %+v on the other replica", second, first)
	}
	c.audit()
}

// A killed replica is noticed by its closed connections, long before its session expires. Its run
// is recovered on another replica. This is a hint, which a busy machine may miss, and then the
// session expires. So one of three tries must be early, and nine of ten of the 50 tries in a soak.
func TestKilledReplicaIsReplacedBeforeItsSessionExpires(t *testing.T) {
	const tries, early = 3, 12 * time.Second // less than the session lasts
	c := newCluster(t, settings{heartbeat: "1s", expires: "30s", lease: "10m",
		limit: 15 * time.Minute,
		jobs:  ledgerJob("hold", "t", "recover: true", "gate: hold")})
	c.start("a", "b")
	var took []time.Duration
	isEarly := func(d time.Duration) bool { return d < early }
	for range soak.Pick(tries, 50) {
		victim, d := c.replaced((*replicas.Process).Kill)
		took = append(took, d)
		if !soak.Running() && slices.ContainsFunc(took, isEarly) {
			break
		}
		c.start(victim)
	}
	n := 0
	for _, d := range took {
		if isEarly(d) {
			n++
		}
	}
	slices.Sort(took)
	t.Logf("from the kill to the start elsewhere, %d tries, %d early: p50 %s, p99 %s", len(took), n,
		took[len(took)/2], took[len(took)*99/100])
	if n == 0 || soak.Running() && n*10 < len(took)*9 {
		t.Errorf("%d of %d tries took less than %s", n, len(took), early)
	}
	c.audit()
}

// A frozen replica keeps its connections, so only the expiry of its session shows that it does not
// live. With the default session, another replica runs its job within 20 s.
func TestFrozenReplicaIsReplaced(t *testing.T) {
	soak.Only(t)
	const clusters, tries, limit = 5, 10, 20 * time.Second
	times := make(chan time.Duration, clusters*tries)
	t.Run("clusters", func(t *testing.T) {
		for n := range clusters {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				c := newCluster(t, settings{heartbeat: "5s", expires: "15s", lease: "10m",
					limit: 15 * time.Minute,
					jobs:  ledgerJob("hold", "t", "recover: true", "gate: hold")})
				c.start("a", "b")
				for range tries {
					victim, took := c.replaced(func(p *replicas.Process) error {
						return p.Signal(syscall.SIGSTOP)
					})
					times <- took
					if err := c.replicas[victim].Kill(); err != nil {
						t.Fatal(err)
					}
					c.start(victim)
				}
				c.audit()
			})
		}
	})
	close(times)
	var took []time.Duration
	for d := range times {
		took = append(took, d)
	}
	slices.Sort(took)
	t.Logf("from the freeze to the start elsewhere, %d tries: p50 %s, p99 %s", len(took),
		took[len(took)/2], took[len(took)*99/100])
	if longest := took[len(took)-1]; longest >= limit {
		t.Errorf("the job started elsewhere after %s, want less than %s", longest, limit)
	}
}

// replaced stops the replica that runs the job, and waits until the other replica runs the same
// firing. It returns the name of the stopped replica, and the time from the stop to the start of
// the other run, which then ends.
func (c *cluster) replaced(stop func(*replicas.Process) error) (victim string,
	took time.Duration) {
	c.t.Helper()
	c.awaitSearch()
	id := c.trigger("hold")
	first := c.startedRun("hold", c.lastToken())
	if first.ID != id {
		c.t.Fatalf("run %s began, not the triggered %s", first.ID, id)
	}
	stopped := time.Now()
	if err := stop(c.replicas[first.Replica]); err != nil {
		c.t.Fatal(err)
	}
	second := c.startedRun("hold", first.Token)
	took = time.Since(stopped)
	if second.Recovery != 1 || second.Replica != c.other(first.Replica).Name {
		c.t.Errorf("%+v is no recovery of %+v on the other replica", second, first)
	}
	c.open("hold")
	c.expect(c.awaitEnd(second.ID), "succeeded", "")
	c.exec(`DELETE FROM gates`)
	return first.Replica, took
}

// awaitSearch waits until each live replica has renewed its session after all of them have recorded
// their connections: now each of them can tell that another one is gone.
func (c *cluster) awaitSearch() {
	c.t.Helper()
	c.awaitValue("the connections of all replicas", `
SELECT count(*) = 2 AND count(backend) = 2 FROM holdfast.sessions
WHERE ended_at IS NULL AND expires_at > clock_timestamp()`)
	now := askOne[time.Time](c, `SELECT clock_timestamp()`)
	c.awaitValue("a heartbeat of each replica", `
SELECT coalesce(bool_and(renewed_at > $1), false) FROM holdfast.sessions
WHERE ended_at IS NULL AND expires_at > clock_timestamp()`, now)
}

// lastToken returns the largest token so far.
func (c *cluster) lastToken() int64 {
	c.t.Helper()
	return askOne[int64](c, `SELECT coalesce(max(token), 0) FROM holdfast.runs
		WHERE state <> 'running'`)
}

// The test freezes a replica during a run. Its session ends and another replica gets the table.
// Then the frozen replica continues: its write is refused, the other replica's write is not, and it
// opens a new session. The test ends the session in the store. A TTL that is short enough to wait
// for would be too short for the live replicas on a busy machine.
func TestFreezeOfAReplica(t *testing.T) {
	for _, frozen := range []struct {
		name, params string
		outcome      func(outcome string) bool
	}{
		// The next transaction finds no claim.
		{"between transactions", "gate: frozen, deaf: true, apart: true", func(outcome string) bool { return outcome == "superseded" }},
		// The sweep ends the transaction that holds the claim.
		{"inside a transaction", "gate: frozen, inside: true, deaf: true", func(outcome string) bool {
			return strings.Contains(outcome, "terminating connection") ||
				strings.Contains(outcome, "conn closed") ||
				strings.Contains(outcome, "unexpected EOF") ||
				strings.Contains(outcome, "connection reset") || outcome == "superseded"
		}},
	} {
		t.Run(frozen.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, settings{expires: "5m",
				jobs: ledgerJob("frozen", "t", "", frozen.params) +
					ledgerJob("next", "t", "wait: {attempts: 0, elapsed: 2m, delay: 50ms, "+
						"backoff: constant}", "gate: next")})
			c.start("a", "b")
			c.trigger("frozen")
			first := c.awaitRun("job = 'frozen' AND state = 'running'")
			c.awaitWriting(first.Token, strings.Contains(frozen.params, "inside"))
			victim := c.replicas[first.Replica]
			if err := victim.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			session := c.sessionOf(first.Token)
			c.expire(session)
			c.trigger("next")
			second := c.startedRun("next", first.Token)
			c.expect(c.awaitEnd(first.ID), "lost", "session_lost")

			// Both runs now use the table. The frozen replica continues and writes first.
			c.open("frozen")
			if err := victim.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if outcome := c.awaitOutcome(first.Token); !frozen.outcome(outcome) {
				t.Errorf("got outcome %q of its last write, want superseded or broken", outcome)
			}
			c.open("next")
			c.expect(c.awaitEnd(second.ID), "succeeded", "")
			c.expect(c.awaitEnd(first.ID), "lost", "session_lost")
			if n := askOne[int](c, `SELECT count(*) FROM ledger WHERE token = $1 AND step = 'end'`,
				first.Token); n != 0 {
				t.Error("the write of the superseded run was committed")
			}
			c.awaitValue("another session of the replica", `
SELECT EXISTS (SELECT FROM holdfast.sessions WHERE replica = $1 AND id <> $2 AND ended_at IS NULL AND expires_at > clock_timestamp())`, first.Replica, session)
			if err := victim.Ready(c.ctx); err != nil {
				t.Errorf("it did not become a replica again: %v", err)
			}
			c.audit()
		})
	}
}

// awaitWriting waits until a run has written its first row. The row is committed, or its open
// transaction holds the claim.
func (c *cluster) awaitWriting(token int64, inside bool) {
	c.t.Helper()
	if !inside {
		c.begunToken(token)
		return
	}
	c.awaitValue("a transaction that holds the claim and has written", `
SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction' AND query LIKE '%INTO ledger%'`)
}

func (c *cluster) sessionOf(token int64) string {
	c.t.Helper()
	return askOne[string](c, `SELECT session::text FROM holdfast.runs WHERE token = $1`, token)
}

// expire makes a session expire now, by the store's clock. Its frozen replica does not notice.
func (c *cluster) expire(session string) {
	c.t.Helper()
	if _, err := c.db.Exec(c.ctx,
		`UPDATE holdfast.sessions SET expires_at = clock_timestamp() WHERE id = $1`,
		session); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) expiry(session string) time.Time {
	c.t.Helper()
	return askOne[time.Time](c, `SELECT expires_at FROM holdfast.sessions WHERE id = $1`, session)
}
