package clustertest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The test removes the advisory locks of a running job. The run continues, no other run starts on
// its table, and other jobs fire as before.
func TestLossOfMemcachedInARun(t *testing.T) {
	for i, loss := range []struct {
		name   string
		befall func(c *cluster) error
		back   bool
	}{
		// make test has the first two
		{"restarted", func(c *cluster) error { return c.memcached.Restart(c.ctx) }, true},
		{"killed for good", func(c *cluster) error { return c.memcached.Kill() }, false},
		{"flushed", (*cluster).flush, true},
		{"paused for good", func(c *cluster) error { return c.memcached.Pause() }, false},
	} {
		t.Run(loss.name, func(t *testing.T) {
			if i > 1 {
				soak.Only(t)
			}
			t.Parallel()
			// The job waits for the table without a limit. Slow runs of other jobs may hold it at
			// each of a few tries.
			c := newCluster(t, settings{expires: "30s",
				jobs: ledgerJob("hold", "t",
					"wait: {attempts: 0, elapsed: 2m, delay: 50ms, backoff: constant}",
					"gate: hold") +
					ledgerJob("waiter", "t", "schedule: {every: 1s}", "") +
					ledgerJob("other", "u", "schedule: {every: 1s}", "")})
			c.start("a", "b")
			c.awaitRun("job = 'waiter' AND state = 'succeeded'")
			c.trigger("hold")
			held := c.startedRun("hold", 0)
			if err := loss.befall(c); err != nil {
				t.Fatal(err)
			}
			since := askOne[string](c, `SELECT clock_timestamp()::text`)
			waiters := c.awaitRuns(3, "job = 'waiter' AND state = 'skipped' AND scheduled_at > "+
				"$1::timestamptz", since)
			for _, r := range waiters {
				c.expect(r, "skipped", "lock_held")
				if !strings.Contains(r.Detail, "public/t was held by job hold") {
					t.Errorf("a waiter was skipped because %q, want it to name table and holder",
						r.Detail)
				}
			}
			c.awaitRuns(2, "job = 'other' AND state = 'succeeded' AND scheduled_at > "+
				"$1::timestamptz", since)
			if loss.name == "restarted" {
				c.awaitRestartShown(c.memcached.Addr())
			}
			if loss.back {
				c.awaitAdvisory(held, admin.AdvisoryHeld)
			} else {
				c.awaitAdvisory(held, admin.AdvisoryUnknown)
				c.awaitLog(c.replicas["a"], "advisory locks not available, the store decides alone")
			}
			if n := askOne[int](c,
				`SELECT count(*) FROM holdfast.runs WHERE job = 'waiter' AND token > $1`,
				held.Token); n != 0 {
				t.Errorf("got %d waiters started while the table was held, want none", n)
			}
			c.open("hold")
			c.expect(c.awaitEnd(held.ID), "succeeded", "")
			c.awaitRun("job = 'waiter' AND state = 'succeeded' AND token > $1", held.Token)
			c.audit()
		})
	}
}

// awaitRestartShown waits until each replica's timeline shows a restart of the server.
func (c *cluster) awaitRestartShown(server string) {
	c.t.Helper()
	for name, p := range c.replicas {
		c.await("the restart is on the timeline of "+name, func(ctx context.Context) (bool, error) {
			var timeline struct {
				Restarts []storage.Restart `json:"restarts"`
			}
			err := p.Get(ctx, "/api/v1/locks/timeline", &timeline)
			return err == nil && len(timeline.Restarts) == 1 &&
				timeline.Restarts[0].Server == server, err
		})
	}
}

// awaitAdvisory waits until each replica reports this state of the advisory lock of a run.
func (c *cluster) awaitAdvisory(r run, state admin.AdvisoryState) {
	c.t.Helper()
	for name, p := range c.replicas {
		c.await(fmt.Sprintf("replica %s shows the advisory lock of the run as %s", name, state),
			func(ctx context.Context) (bool, error) {
				var locks []admin.Lock
				if err := p.Get(ctx, "/api/v1/locks", &locks); err != nil {
					return false, err
				}
				for _, lock := range locks {
					if lock.Holder.Run == r.ID {
						return lock.Advisory == state, nil
					}
				}
				return false, fmt.Errorf("run %s holds nothing, says %s", r.ID, name)
			})
	}
}

// flush removes all keys from memcached.
func (c *cluster) flush() error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(c.ctx, "tcp", c.memcached.Addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("flush_all\r\n")); err != nil {
		return err
	}
	answer := make([]byte, 100)
	n, err := conn.Read(answer)
	if err != nil || string(answer[:n]) != "OK\r\n" {
		return fmt.Errorf("flush_all: %q, %w", answer[:n], err)
	}
	return nil
}

// With when_unavailable: skip, replicas skip firings during the outage and record the reason.
func TestFiringsAreSkippedWithoutMemcachedIfConfigured(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{more: "  when_unavailable: skip",
		jobs: ledgerJob("every", "t", "schedule: {every: 1s}", "")})
	c.start("a", "b")
	c.awaitRun("job = 'every' AND state = 'succeeded'")
	if err := c.memcached.Kill(); err != nil {
		t.Fatal(err)
	}
	// On a busy machine a firing may also be skipped because the run before it has not ended.
	skipped := c.awaitRun("job = 'every' AND state = 'skipped' AND reason <> 'overlap'")
	c.expect(skipped, "skipped", "locks_unavailable")
	if err := c.memcached.Start(c.ctx); err != nil {
		t.Fatal(err)
	}
	c.awaitRun("job = 'every' AND state = 'succeeded' AND scheduled_at > $1", skipped.ScheduledAt)
	c.audit()
}
