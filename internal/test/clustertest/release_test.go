package clustertest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// An operator releases a table whose holder has an open fenced transaction with locked rows. While
// that transaction may commit, the HTTP API and the CLI refuse the release and change nothing. When
// the operator asks to end the transaction too, nothing of it commits. Its rows become unlocked and
// the next job gets the table.
func TestReleaseOfARunInATransaction(t *testing.T) {
	t.Parallel()
	c := newCluster(t, settings{wait: "{attempts: 1}", jobs: `
  - {name: stuck, handler: sql, tables: [t], recover: true, retry: {attempts: 3, delay: 1s}, params: {statements: ["UPDATE balances SET n = n + 1", "SELECT pg_sleep(600)"]}}
  - {name: next, handler: sql, tables: [t], params: {statement: "UPDATE balances SET n = n + 10"}}
`})
	c.exec(`CREATE TABLE balances (n int NOT NULL)`)
	c.exec(`INSERT INTO balances VALUES (0)`)
	c.start("a", "b")
	id := c.trigger("stuck")
	held := c.awaitRun("r.id = $1 AND state = 'running'", id)
	c.awaitValue("the job's transaction has its row", `
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query LIKE 'SELECT pg\_sleep%')`)

	release := fmt.Sprintf(`{"resource": "public/t", "token": %d, "reason": "it hangs"`, held.Token)
	for name, p := range c.replicas {
		status, answer := c.post(p, "/api/v1/locks/release", release+"}")
		if status != http.StatusConflict || !strings.Contains(answer, "inside a transaction") ||
			!strings.Contains(answer, "end_transaction") {
			t.Errorf("release through %s: %d %s", name, status, answer)
		}
	}
	s := c.command("release", "public/t")
	if line := s.line(t); s.code != 1 ||
		!strings.Contains(line,
			"in a transaction that can still commit; use --end-transaction to end it") {
		t.Errorf("release: %+v", s)
	}
	c.awaitRun("r.id = $1 AND state = 'running' AND token = $2", id, held.Token)
	if n := askOne[int](c, `SELECT count(*) FROM holdfast.audit WHERE action = 'release'`); n != 0 {
		t.Errorf("%d lines of releases that were refused", n)
	}

	var released struct {
		Token     jobs.Token `json:"token"`
		Resources []any      `json:"resources"`
	}
	c.action(c.replicas["b"], &released, "/api/v1/locks/release",
		release+`, "end_transaction": true}`)
	if int64(released.Token) != held.Token || len(released.Resources) == 0 {
		t.Errorf("released %+v", released)
	}
	ended := c.awaitEnd(id)
	c.expect(ended, "lost", "released")
	if n := askOne[int](c, `SELECT n FROM balances FOR UPDATE NOWAIT`); n != 0 {
		t.Errorf("%d was committed by a run whose lock was taken away", n)
	}
	next := c.trigger("next")
	c.expect(c.awaitEnd(next), "succeeded", "")
	if n := askOne[int](c, `SELECT n FROM balances`); n != 10 {
		t.Errorf("n is %d, want what the next job committed", n)
	}
	// The replica learns that the run has ended, and neither retries nor recovers it. It learns it
	// when it records the end of the attempt or, if it did that before the release, at the retry.
	c.heard(c.replicas[held.Replica], id, "run ended by the store, or adopted by another replica")
	if n := askOne[int](c, `SELECT count(*) FROM holdfast.runs WHERE job = 'stuck'`); n != 1 {
		t.Errorf("%d runs of the job, want the one that was lost", n)
	}
	c.expect(c.awaitEnd(id), "lost", "released")
	var lines []storage.Audited
	c.commandJSON(&lines, "audit", "--action", "release")
	if len(lines) != 1 || lines[0].Via != "api" || lines[0].Reason != "it hangs" ||
		!strings.Contains(string(lines[0].Detail), `"ended_transactions": 1`) {
		t.Errorf("audit: %+v (%s)", lines, lines[0].Detail)
	}
	c.audit()
}
