package clustertest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// ownPostgres starts a server that only one test uses and may stop. It returns the URL of a
// prepared database.
func ownPostgres(t *testing.T) (*servertest.Postgres, string) {
	t.Helper()
	preparedServer(t)
	pg, err := servertest.StartPostgres(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := prepare(t.Context(), pg); err != nil {
		t.Fatal(err)
	}
	return pg, pg.URL(template)
}

const (
	// storedJob writes its rows and records its end in one transaction, as the stock handler does.
	storedJob = `  - {name: sql, schedule: {every: 1s}, handler: sql, tables: [s], params: {statement: "` +
		`INSERT INTO ledger (step, resource, job, scheduled_at, run, token) SELECT step, 's', r.job, r.scheduled_at, r.id, r.token ` +
		`FROM holdfast.runs r, (VALUES ('begin'), ('end')) v (step) WHERE r.job = 'sql' AND r.state = 'running'"}}` + "\n"
)

// PostgreSQL is unavailable for less than the TTL of a session. The runs continue and no record is
// lost.
func TestLossOfPostgreSQLInARun(t *testing.T) {
	for _, loss := range []struct {
		name   string
		quick  bool // runs in make test too
		befall func(ctx context.Context, pg *servertest.Postgres) error
	}{
		{"restarted", false, func(ctx context.Context, pg *servertest.Postgres) error { return pg.Restart(ctx) }},
		{"crashed", true, func(ctx context.Context, pg *servertest.Postgres) error {
			if err := pg.Kill(); err != nil {
				return err
			}
			return pg.Start(ctx)
		}},
		{"paused", false, func(ctx context.Context, pg *servertest.Postgres) error {
			if err := pg.Pause(); err != nil {
				return err
			}
			// The outage must be longer than the limit of a heartbeat, so that one heartbeat fails
			// without a reply.
			err := pause(ctx, 3*time.Second)
			if resumed := pg.Resume(); err == nil {
				err = resumed
			}
			return err
		}},
	} {
		t.Run(loss.name, func(t *testing.T) {
			if !loss.quick {
				soak.Only(t)
			}
			t.Parallel()
			pg, url := ownPostgres(t)
			c := newCluster(t, settings{url: url, expires: "30s", misfire: "2s",
				jobs: ledgerJob("hold", "t", "", "gate: hold") +
					ledgerJob("every", "u", "schedule: {every: 1s}", "") + storedJob})
			c.start("a", "b")
			c.trigger("hold")
			held := c.startedRun("hold", 0)
			c.awaitRuns(2, "job = 'sql' AND state = 'succeeded'")
			before := c.ended()
			if err := loss.befall(c.ctx, pg); err != nil {
				t.Fatal(err)
			}
			c.db.Reset() // the test's own queries need new connections
			c.awaitValue("an answer", `SELECT true`)
			c.expectKept(before)
			since := askOne[time.Time](c, `SELECT clock_timestamp()`)
			c.awaitRuns(2, "job = 'sql' AND state = 'succeeded' AND scheduled_at > $1", since)
			c.awaitRuns(2, "job = 'every' AND state = 'succeeded' AND scheduled_at > $1", since)
			c.open("hold")
			c.expect(c.awaitEnd(held.ID), "succeeded", "")
			c.expectNoGap("sql", "every")
			c.expectKept(before)
			c.audit()
		})
	}
}

// Replicas cancel runs whose session they cannot confirm. The runs are recorded as lost, and the
// replicas open new sessions.
func TestLossOfPostgreSQLForLongerThanASession(t *testing.T) {
	t.Parallel()
	pg, url := ownPostgres(t)
	c := newCluster(t, settings{url: url, misfire: "2s",
		jobs: ledgerJob("hold", "t", "", "gate: hold") +
			ledgerJob("every", "u", "schedule: {every: 1s}", "") + storedJob})
	c.start("a", "b")
	c.trigger("hold")
	held := c.startedRun("hold", 0)
	c.awaitRuns(2, "job = 'sql' AND state = 'succeeded'")
	before := c.ended()
	if err := pg.Pause(); err != nil {
		t.Fatal(err)
	}
	for _, p := range c.replicas {
		c.awaitLog(p, "session lost")
		c.expectNotReady(p, "it has no session in the store")
	}
	if err := pg.Resume(); err != nil {
		t.Fatal(err)
	}
	c.db.Reset()
	for _, p := range c.replicas {
		if err := p.Ready(c.ctx); err != nil {
			t.Error(err)
		}
	}
	lost := c.awaitEnd(held.ID)
	c.expect(lost, "lost", "session_lost")
	since := askOne[time.Time](c, `SELECT clock_timestamp()`)
	c.awaitRuns(2, "job = 'sql' AND state = 'succeeded' AND scheduled_at > $1", since)
	c.open("hold")
	c.trigger("hold")
	c.awaitRun("job = 'hold' AND state = 'succeeded' AND token > $1", held.Token)
	c.expectNoGap("sql", "every")
	c.expectKept(before)
	c.audit()
}

// ended returns the runs that have ended, by id.
func (c *cluster) ended() map[string]run {
	c.t.Helper()
	rows, err := ask[run](c.ctx, c, selectRuns+"WHERE finished_at IS NOT NULL")
	if err != nil {
		c.t.Fatal(err)
	}
	runs := make(map[string]run, len(rows))
	for _, r := range rows {
		runs[r.ID] = r
	}
	return runs
}

// expectKept fails the test unless the records of these runs are unchanged.
func (c *cluster) expectKept(before map[string]run) {
	c.t.Helper()
	now := c.ended()
	for id, r := range before {
		if difference := cmp.Diff(r, now[id]); difference != "" {
			c.t.Errorf("run %s of %s is recorded differently (- before, + now):\n%s", id, r.Job,
				difference)
		}
	}
}

// expectNoGap waits until all firings up to now have ended. The jobs fire every second. It fails
// the test unless each second since a job's first firing has exactly one first run or record.
func (c *cluster) expectNoGap(jobs ...string) {
	c.t.Helper()
	until := askOne[time.Time](c, `SELECT date_trunc('second', clock_timestamp())`)
	c.settle(until, jobs...)
	for _, job := range jobs {
		from := askOne[time.Time](c,
			`SELECT min(scheduled_at) FROM holdfast.runs WHERE job = $1 AND key = ''`, job)
		c.expectEachOnce(job, from, until)
	}
}
