package clustertest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// A backfill goes on although the replica of its run is killed, and although no replica is up for a
// while. Each scheduled time has one run that succeeds.
func TestBackfillSurvivesKilledReplicas(t *testing.T) {
	t.Parallel()
	const hours = 12
	c := newCluster(t, settings{
		jobs: ledgerJob("rollup", "t", "recover: true, schedule: {every: 1h}", "gate: past")})
	c.start("a", "b")
	to := time.Now().UTC().Truncate(time.Hour)
	from := to.Add(-(hours - 1) * time.Hour)
	flags := []string{"rollup", "--from", from.Format(time.RFC3339), "--to",
		to.Format(time.RFC3339)}
	var plan operations.BackfillPlan
	c.commandJSON(&plan, append([]string{"backfill", "--dry-run"}, flags...)...)
	if len(plan.Times) != hours || plan.Runs+plan.LeftOut != hours {
		t.Errorf("planned %+v, want %d scheduled times", plan, hours)
	}
	var b storage.Backfill
	c.commandJSON(&b, append([]string{"backfill", "--reason", "new prices"}, flags...)...)
	if s := c.command(append([]string{"backfill"}, flags...)...); s.code != 1 ||
		!strings.Contains(s.err, b.ID.String()) {
		t.Errorf("a second backfill: %+v, want a refusal with the id of the first", s)
	}
	first := c.startedRun("rollup", 0)
	if err := c.replicas[first.Replica].Kill(); err != nil {
		t.Fatal(err)
	}
	second := c.startedRun("rollup", first.Token)
	if second.Replica == first.Replica || !second.ScheduledAt.Equal(first.ScheduledAt) {
		t.Errorf("%+v is no recovery of %+v on the other replica", second, first)
	}
	if err := c.replicas[second.Replica].Kill(); err != nil {
		t.Fatal(err)
	}
	c.open("past")
	c.start("c")
	c.await("the backfill is completed", func(context.Context) (bool, error) {
		c.commandJSON(&b, "backfills", b.ID.String())
		return b.State == storage.BackfillCompleted, nil
	})
	if b.Unsuccessful != 0 || b.Succeeded+b.LeftOut != hours || b.Succeeded != b.Runs {
		t.Errorf("completed as %+v", b)
	}
	if n := askOne[int](c, `SELECT count(*) FROM (SELECT FROM holdfast.runs
		WHERE backfill = $1 AND state = 'succeeded' GROUP BY scheduled_at HAVING count(*) = 1) r`,
		b.ID); n != b.Runs {
		t.Errorf("%d scheduled times have one run that succeeded, want %d", n, b.Runs)
	}
	if n := askOne[int](c, `SELECT count(*) FROM holdfast.runs WHERE backfill = $1
		AND state NOT IN ('succeeded', 'lost')`, b.ID); n != 0 {
		t.Errorf("%d other runs ended in another state", n)
	}
	c.audit()
}
