package clustertest

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The state does not change during the test. One run holds tables, one waits for them, and others
// have ended in different ways. One replica is dead and one is stopped.
func TestEveryReplicaGivesTheSameAnswer(t *testing.T) {
	t.Parallel()
	const nightly = `schedule: {cron: "0 3 * * *"}, timezone: Europe/Berlin`
	c := newCluster(t, settings{heartbeat: "1m", expires: "1h", grace: "100ms",
		jobs: ledgerJob("hold", "t, u", "", "gate: hold") +
			ledgerJob("wait", "t", "wait: {attempts: 0, elapsed: 1h, delay: 50ms, backoff: "+
				"constant}", "") +
			ledgerJob("nightly", "v", nightly, "") + ledgerJob("burning", "w", "", "panics: true")})
	c.start("a", "b", "c", "d")
	c.trigger("burning")
	c.awaitRun("job = 'burning' AND state = 'failed'")
	if err := c.replicas["d"].Stop(c.ctx); err != nil {
		t.Fatal(err)
	}
	c.trigger("hold")
	held := c.startedRun("hold", 0)
	c.trigger("wait")
	waiting := c.awaitRun("job = 'wait' AND state = 'waiting' AND blocker IS NOT NULL")

	answers := map[string]string{}
	for _, path := range []string{
		"/api/v1/locks", "/api/v1/runs", "/api/v1/runs?state=waiting&limit=1",
		"/api/v1/runs/" + held.ID, "/api/v1/jobs", "/api/v1/jobs/nightly", "/api/v1/replicas",
	} {
		answers[path] = c.sameAnswer(path, "a", "b", "c")
	}
	c.expectAnswers(answers, held, waiting)
	var overview admin.Overview
	c.decode(c.sameAnswer("/api/v1/overview", "a"), &overview)
	for _, p := range overview.Status.Problems {
		if p.Kind == "replica_lost" {
			t.Errorf("a replica that was stopped is shown as %q", p.Text)
		}
	}
	c.open("hold")
	c.expect(c.awaitEnd(waiting.ID), "succeeded", "")
	c.sameAnswer("/api/v1/runs", "a", "b", "c")
	c.audit()
}

// sameAnswer returns the JSON that all replicas serve, and fails the test if two differ.
func (c *cluster) sameAnswer(path string, names ...string) string {
	c.t.Helper()
	var first string
	for i, name := range names {
		var answer json.RawMessage
		if err := c.replicas[name].Get(c.ctx, path, &answer); err != nil {
			c.t.Fatal(err)
		}
		if i == 0 {
			first = string(answer)
		} else if difference := cmp.Diff(first, string(answer)); difference != "" {
			c.t.Errorf("%s: - %s, + %s:\n%s", path, names[0], name, difference)
		}
	}
	return first
}

// expectAnswers checks the content of the answers.
func (c *cluster) expectAnswers(answers map[string]string, held, waiting run) {
	c.t.Helper()
	var locks []admin.Lock
	c.decode(answers["/api/v1/locks"], &locks)
	if len(locks) != 2 {
		c.t.Fatalf("%d locks, want two: %s", len(locks), answers["/api/v1/locks"])
	}
	for i, resource := range []string{"public/t", "public/u"} {
		l := locks[i]
		if l.Resource != resource || l.Mode != "exclusive" || l.Holder.Run != held.ID ||
			l.Holder.Job != "hold" || l.Holder.Replica != held.Replica ||
			int64(l.Token) != held.Token || l.Advisory != admin.AdvisoryHeld {
			c.t.Errorf("lock %+v, want %s held by %+v", l, resource, held)
		}
	}
	var waits []storage.Record
	c.decode(answers["/api/v1/runs?state=waiting&limit=1"], &waits)
	if len(waits) != 1 || waits[0].ID.String() != waiting.ID || waits[0].BlockedBy == nil ||
		waits[0].BlockedBy.Resource != "public/t" || waits[0].BlockedBy.Holder.Run != held.ID {
		c.t.Errorf("waiting runs %s, want %s blocked on public/t by %s",
			answers["/api/v1/runs?state=waiting&limit=1"], waiting.ID, held.ID)
	}
	var replicas []admin.Replica
	c.decode(answers["/api/v1/replicas"], &replicas)
	if len(replicas) != 4 || replicas[3].Name != "d" || replicas[3].State != admin.ReplicaStopped ||
		replicas[0].State != admin.ReplicaLive {
		c.t.Errorf("replicas %s, want a, b, c and a stopped d", answers["/api/v1/replicas"])
	}
	var nightly admin.Job
	c.decode(answers["/api/v1/jobs/nightly"], &nightly)
	if nightly.NextScheduledAt == nil || nightly.Timezone != "Europe/Berlin" {
		c.t.Errorf("job %s, want it to be due", answers["/api/v1/jobs/nightly"])
	}
}

func (c *cluster) decode(text string, value any) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(text), value); err != nil {
		c.t.Fatalf("%v in %s", err, text)
	}
}
