package clustertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// A new release runs beside the old one. An old replica restarts meanwhile. Then the new replicas
// end, the last by SIGKILL. The replicas of the active definition fire each scheduled time once.
func TestDeployThatIsRolledBack(t *testing.T) {
	soak.Only(t)
	t.Parallel()
	const tick = "  - {name: tick, schedule: {every: 1s}, handler: sql, overlap: allow, timeout: " +
		"%s, params: {statement: SELECT 1}}\n"
	c := newCluster(t, settings{stock: true, misfire: "10s", jobs: fmt.Sprintf(tick, "10s")})
	fires := func(names ...string) time.Time {
		t.Helper()
		since := askOne[time.Time](c, "SELECT clock_timestamp()")
		for _, r := range c.awaitRuns(4,
			"job = 'tick' AND state = 'succeeded' AND scheduled_at > $1",
			since.Add(2*time.Second)) {
			if r.Replica != names[0] && r.Replica != names[len(names)-1] {
				t.Errorf("scheduled time %s: fired by %s, want %v", r.ScheduledAt, r.Replica, names)
			}
		}
		return since
	}
	stop := func(name string) {
		t.Helper()
		if err := c.replicas[name].Stop(c.ctx); err != nil {
			t.Fatal(err)
		}
	}
	c.start("old-1", "old-2")
	from := fires("old-1", "old-2").Truncate(time.Second).Add(2 * time.Second)
	before := c.settings.jobs
	c.settings.jobs = fmt.Sprintf(tick, "20s")
	c.start("new-1", "new-2")
	fires("new-1", "new-2")
	for _, name := range []string{"old-1", "old-2"} {
		c.expectLine(c.replicas[name],
			"job has a newer definition on other replicas", `"job":"tick"`)
	}
	stop("old-1")
	c.settings.jobs = before
	c.start("old-1")
	fires("new-1", "new-2")
	stop("new-1")
	fires("new-2")
	if err := c.replicas["new-2"].Kill(); err != nil {
		t.Fatal(err)
	}
	c.awaitLog(c.replicas["old-2"], "job definition is active again")
	until := fires("old-1", "old-2").Truncate(time.Second).Add(2 * time.Second)
	c.settle(until, "tick")
	for state, n := range c.expectEachOnce("tick", from, until) {
		if state != "succeeded" && state != "lost" {
			t.Errorf("%d firings are %s", n, state)
		}
	}
	if n := askOne[int](c, "SELECT version FROM holdfast.jobs WHERE name = 'tick'"); n != 1 {
		t.Errorf("version %d is active", n)
	}
}
