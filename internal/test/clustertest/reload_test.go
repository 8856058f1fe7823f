package clustertest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/replicas"
)

// reload writes another cron table and sends SIGHUP to the replica.
func (c *cluster) reload(p *replicas.Process, edit func(config string) string) {
	c.t.Helper()
	path := filepath.Join(c.dir, p.Name+".yaml")
	config, err := os.ReadFile(path)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(edit(string(config))), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGHUP); err != nil {
		c.t.Fatal(err)
	}
}

// SIGHUP adds, changes and removes jobs while a run continues. A mistake in the file changes
// nothing. The log names the changed keys that need a restart.
func TestReload(t *testing.T) {
	t.Parallel()
	const (
		steady = "  - {name: steady, schedule: {every: 1s}, handler: sql, params: {statement: " +
			"SELECT 1}}\n"
		leaving = "  - {name: leaving, schedule: {every: 1s}, handler: sql, params: {statement: " +
			"SELECT 1}}\n"
		coming = "  - {name: coming, schedule: {every: 1s}, handler: sql, params: {statement: " +
			"SELECT 1}}\n"
	)
	hold := ledgerJob("hold", "t", "", "gate: hold")
	c := newCluster(t, settings{misfire: "30s", jobs: hold + leaving + steady})
	c.start("a")
	p := c.replicas["a"]
	c.trigger("hold")
	held := c.startedRun("hold", 0)
	c.awaitRuns(2, "job = 'leaving' AND state = 'succeeded'")
	from := askOne[time.Time](c, "SELECT clock_timestamp()").Truncate(time.Second).Add(time.Second)
	c.awaitRuns(1, "job = 'steady' AND scheduled_at >= $1", from)
	// On a busy machine the start may have opened more than one session.
	const live = "SELECT id::text FROM holdfast.sessions WHERE ended_at IS NULL"
	session := askOne[string](c, live)

	c.reload(p, func(config string) string {
		return strings.Replace(config, "handler: sql", "handler: slq", 1)
	})
	c.expectLine(p, "mistake in the configuration", `"file":"`, `"line":`, `"column":`, `.handler"`,
		"slq")
	c.awaitMetric(p, "holdfast_config_reload_success", 0)
	c.awaitRuns(2, "job = 'leaving' AND scheduled_at > $1",
		askOne[time.Time](c, "SELECT clock_timestamp()"))

	c.reload(p, func(config string) string {
		config = strings.Replace(config, "handler: slq", "handler: sql", 1)
		config = strings.Replace(config, leaving, coming, 1)
		config = strings.Replace(config, steady,
			strings.Replace(steady, "handler", "timeout: 1m, handler", 1), 1)
		return "workers: 17\n" + config
	})
	c.expectLine(p, "configuration reloaded", `"added_jobs":["coming"]`,
		`"changed_jobs":["steady"]`, `"removed_jobs":["leaving"]`)
	c.expectLine(p, "changed keys need a restart", `"workers"`)
	c.awaitMetric(p, "holdfast_config_reload_success", 1)
	reloaded := askOne[time.Time](c, "SELECT clock_timestamp()")
	const events = `SELECT coalesce(string_agg(action || ' ' || target || ' ' || detail::text, ', '
		ORDER BY at), '') FROM holdfast.audit WHERE action LIKE 'reload%'`
	const want = `reload_refused replica a {"mistakes": 1}, reload replica a {"added": ["coming"], ` +
		`"changed": ["steady"], "removed": ["leaving"], "restart": ["workers"]}`
	// A replica writes the event after it has reloaded.
	c.await("the audit log has both reloads", func(ctx context.Context) (bool, error) {
		var got string
		if err := c.db.QueryRow(ctx, events).Scan(&got); err != nil {
			return false, err
		}
		if got != want {
			return false, fmt.Errorf("audit log: got %s, want %s", got, want)
		}
		return true, nil
	})
	c.awaitRuns(3, "job = 'coming' AND state = 'succeeded'")
	c.awaitRuns(3, "job = 'steady' AND state = 'succeeded' AND scheduled_at > $1", reloaded)
	until := askOne[time.Time](c, "SELECT clock_timestamp()")
	if n := askOne[int](c, "SELECT count(*) FROM holdfast.runs WHERE job = 'leaving' AND "+
		"scheduled_at > $1", reloaded.Add(time.Second)); n != 0 {
		t.Errorf("the removed job has %d runs", n)
	}
	if n := askOne[int](c, "SELECT version FROM holdfast.jobs WHERE name = 'steady'"); n != 2 {
		t.Errorf("version %d of the changed job is active, want the second", n)
	}

	c.open("hold")
	c.expect(c.awaitEnd(held.ID), "succeeded", "")
	c.settle(until, "steady")
	for state, n := range c.expectEachOnce("steady", from, until) {
		if state != "succeeded" {
			t.Errorf("%d firings are %s", n, state)
		}
	}
	if now := askOne[string](c, live); now != session {
		t.Errorf("session %s is live, want that %s went on", now, session)
	}
	c.audit()
}

// SIGHUP adds and removes tokens and changes the log level.
func TestReloadOfTokensAndLogLevel(t *testing.T) {
	t.Parallel()
	tokens := func(name string) string {
		return fmt.Sprintf(`tokens: [{name: %s, role: viewer, token_hash: "%x"}]`, name,
			sha256.Sum256([]byte(name)))
	}
	c := newCluster(t, settings{admin: ", " + tokens("removed"), jobs: firesEverySecond})
	c.start("a")
	p := c.replicas["a"]
	c.awaitRuns(1, "job = 'insert' AND state = 'succeeded'")
	c.expectStatus(p, "removed", http.StatusOK)
	c.expectStatus(p, "added", http.StatusUnauthorized)
	const debug = `"level":"debug"`
	if strings.Contains(p.Log(), debug) {
		t.Error("the replica logs at level debug before the reload")
	}

	c.reload(p, func(config string) string {
		config = strings.Replace(config, tokens("removed"), tokens("added"), 1)
		return strings.Replace(config, "level: info", "level: debug", 1)
	})
	c.awaitLog(p, "configuration reloaded")
	c.expectStatus(p, "added", http.StatusOK)
	c.expectStatus(p, "removed", http.StatusUnauthorized)
	c.awaitLog(p, debug)
	if strings.Contains(p.Log(), "changed keys need a restart") {
		t.Error("a changed key is not applied")
	}
	c.audit()
}

// SIGHUP changes the permissions of a role: for requests, and for a form that was opened before.
func TestReloadOfRoles(t *testing.T) {
	t.Parallel()
	roles := func(permissions string) string {
		return fmt.Sprintf("roles: [{name: pauser, permissions: [%s], include: [viewer]}]",
			permissions)
	}
	c := newCluster(t, settings{jobs: firesEverySecond, admin: fmt.Sprintf(
		`, %s, tokens: [{name: pat, role: pauser, token_hash: "%x"}]`, roles("pause"),
		sha256.Sum256([]byte("pat")))})
	c.start("a")
	p := c.replicas["a"]
	const form, api = "/jobs/insert/pause", "/api/v1/jobs/insert/pause"
	c.expectAnswer(p, "pat", http.MethodGet, form, http.StatusOK)
	c.expectAnswer(p, "pat", http.MethodPost, api, http.StatusOK)
	c.expectAnswer(p, "pat", http.MethodPost, "/api/v1/jobs/insert/resume", http.StatusOK)
	c.expectAnswer(p, "pat", http.MethodPost, "/api/v1/jobs/insert/trigger", http.StatusForbidden)

	c.reload(p, func(config string) string {
		return strings.Replace(config, roles("pause"), roles("trigger"), 1)
	})
	c.awaitLog(p, "configuration reloaded")
	c.expectAnswer(p, "pat", http.MethodPost, form, http.StatusForbidden)
	c.expectAnswer(p, "pat", http.MethodPost, api, http.StatusForbidden)
	c.expectAnswer(p, "pat", http.MethodPost, "/api/v1/jobs/insert/trigger", http.StatusOK)
	if strings.Contains(p.Log(), "changed keys need a restart") {
		t.Error("the replica asks for a restart")
	}
}

// expectStatus requires the status with which a replica answers a request with the bearer token.
func (c *cluster) expectStatus(p *replicas.Process, token string, want int) {
	c.t.Helper()
	c.expectAnswer(p, token, http.MethodGet, "/api/v1/jobs", want)
}

func (c *cluster) expectAnswer(p *replicas.Process, token, method, path string, want int) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.ctx, method, p.URL+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != want {
		c.t.Errorf("%s %s with token %s: %s, want %d", method, path, token, response.Status, want)
	}
}

// awaitMetric waits until a metric of a replica has the value.
func (c *cluster) awaitMetric(p *replicas.Process, name string, value float64) {
	c.t.Helper()
	c.await(fmt.Sprintf("%s is %v", name, value), func(ctx context.Context) (bool, error) {
		return strings.Contains(fetch(ctx, c.t, p.URL+"/metrics"),
			fmt.Sprintf("\n%s %v\n", name, value)), nil
	})
}
