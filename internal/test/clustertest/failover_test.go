package clustertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// The URL names two servers. The primary dies, and its synchronous standby is promoted. Sessions
// and runs continue, no record is lost, and a replica that starts later raises the tokens.
func TestStandbyIsPromoted(t *testing.T) {
	soak.Only(t)
	t.Parallel()
	primary, _ := ownPostgres(t)
	standby, err := primary.StartStandby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Stop(); err != nil {
			t.Error(err)
		}
	})
	url := fmt.Sprintf("postgres://postgres@%s,%s/%s?sslmode=disable&target_session_attrs="+
		"read-write", primary.Addr(), standby.Addr(), template)
	c := newCluster(t, settings{url: url, expires: "60s", misfire: "2s",
		jobs: ledgerJob("hold", "t", "", "gate: hold") +
			ledgerJob("every", "u", "schedule: {every: 1s}", "") + storedJob})
	c.start("a", "b")
	c.trigger("hold")
	held := c.startedRun("hold", 0)
	c.awaitRuns(2, "job = 'sql' AND state = 'succeeded'")
	before := c.ended()

	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(c.ctx); err != nil {
		t.Fatal(err)
	}
	c.db.Reset() // the test's own queries need new connections
	c.awaitValue("an answer", `SELECT true`)
	since := askOne[time.Time](c, `SELECT clock_timestamp()`)
	c.awaitRuns(2, "job = 'sql' AND state = 'succeeded' AND scheduled_at > $1", since)
	c.awaitRuns(2, "job = 'every' AND state = 'succeeded' AND scheduled_at > $1", since)
	c.open("hold")
	c.expect(c.awaitEnd(held.ID), "succeeded", "")
	c.expectNoGap("sql", "every")
	c.expectKept(before)

	// The cluster cannot know whether the promoted standby had all commits.
	c.start("c")
	c.expectLine(c.replicas["c"], "fencing tokens raised", `"level":"warn"`)
	later := askOne[time.Time](c, `SELECT clock_timestamp()`)
	c.awaitRun("job = 'sql' AND state = 'succeeded' AND scheduled_at > $1 AND token > 1e11", later)
	c.audit()
}
