package attacks

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs"
)

// execute runs statements as the superuser.
func (a *attack) execute(database, statements string) {
	a.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		a.Fatal(err)
	}
	_, err = conn.Exec(ctx, statements)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		a.Fatal(err)
	}
}

// TestRow08 rewrites the audit log by sql jobs, and directly in the database.
func TestRow08(t *testing.T) {
	a := begin(t, 8)
	owner := server.Database(t)
	roles, err := os.ReadFile("../../../deploy/postgres/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	as := func(role string) string {
		u, err := url.Parse(owner)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.User(role)
		return u.String()
	}
	migration := filepath.Join(t.TempDir(), "owner.yaml")
	if err := os.WriteFile(migration, []byte("database: {url: '"+owner+"'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, code := a.command("migrate", "-c", migration); code != 0 {
		t.Fatalf("migrate: %d %s", code, output)
	}
	if output, code := a.command("doctor", "-c", migration); code != 1 ||
		!strings.Contains(output, "can change the audit log") {
		a.Errorf("doctor without a role of jobs: %d %s", code, output)
	}
	a.execute(owner, string(roles))
	statements := map[string]string{
		"rewrite": "UPDATE holdfast.audit SET actor = ''somebody''",
		"delete":  "DELETE FROM holdfast.audit",
		"forge": "INSERT INTO holdfast.audit (id, at, actor) VALUES (gen_random_uuid(), now(), " +
			"''somebody'')",
		"links":    "DELETE FROM holdfast.audit_links",
		"role":     "RESET ROLE; UPDATE holdfast.audit SET actor = ''somebody''",
		"set-role": "SET ROLE holdfast; UPDATE holdfast.audit SET actor = ''somebody''",
		"pause":    "DELETE FROM holdfast.pauses",
	}
	var list strings.Builder
	for name, statement := range statements {
		list.WriteString("  - {name: " + name + ", handler: sql, params: {statements: ['" +
			strings.ReplaceAll(statement, "; ", "', '") + "']}}\n")
	}
	g := a.start(plan{admin: a.guarded(), jobs: list.String(), more: "audit: {chain: true}",
		database: "url: '" + as("holdfast") + "', jobs_url: '" + as("holdfast_jobs") +
			"', migrate: false"})
	for name := range statements {
		run := g.trigger(name, request{token: operatorToken})
		if run.State != jobs.Failed || !strings.Contains(run.Error, "permission denied") {
			a.Errorf("job %s: %s %q", name, run.State, run.Error)
		}
	}
	entries := g.ask(request{path: "/api/v1/audit", token: viewerToken}).body
	if !strings.Contains(entries, `"proof": "token"`) ||
		!strings.Contains(entries, `"client": "127.0.0.1"`) || strings.Contains(entries, "somebody") {
		a.Errorf("audit log: %s", entries)
	}
	var sealed string
	g.await("seal", 6*allowed, func() bool {
		var code int
		sealed, code = g.command("audit", "verify", "-o", "json")
		return code == 0 && strings.Contains(sealed, `"unsealed": 0`)
	})
	// The role of checks can do the same, and nothing else.
	checker := filepath.Join(t.TempDir(), "checker.yaml")
	if err := os.WriteFile(checker, []byte("database: {url: '"+as("holdfast_audit")+"'}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if output, code := a.command("audit", "verify", "-c", checker); code != 0 {
		a.Errorf("audit verify with the role of checks: %d %s", code, output)
	}
	if output, code := a.command("audit", "export", "-c", checker); code != 0 ||
		!strings.Contains(output, `"proof":"token"`) {
		a.Errorf("audit export with the role of checks: %d %s", code, output)
	}
	if output, code := a.command("pause", "--all", "-c", checker); code == 0 ||
		!strings.Contains(output, "permission denied") {
		a.Errorf("an action with the role of checks: %d %s", code, output)
	}
	// A row in the queue for an entry that has a link must not stop the chain.
	a.execute(owner, "INSERT INTO holdfast.audit_unsealed (entry, at) "+
		"SELECT entry, at FROM holdfast.audit_links")
	g.expect(http.StatusOK, request{path: "/api/v1/pause", token: operatorToken,
		json: `{"reason": "x"}`})
	g.await("seal after a forged queue", 6*allowed, func() bool {
		output, code := g.command("audit", "verify", "-o", "json")
		return code == 0 && strings.Contains(output, `"unsealed": 0`)
	})
	a.execute(owner, "UPDATE holdfast.audit SET actor = 'somebody' WHERE id = "+
		"(SELECT id FROM holdfast.audit ORDER BY at LIMIT 1)")
	verdict, code := g.command("audit", "verify")
	if code != 1 || !strings.Contains(verdict, "DOES NOT MATCH") {
		a.Errorf("a changed entry: %d %s", code, verdict)
	}
	twin := filepath.Join(t.TempDir(), "twin.yaml")
	if err := os.WriteFile(twin, []byte("admin: {users: [{name: x, password_hash: '"+a.hash()+
		"'}], tokens: [{name: x, token_hash: "+accesstest.Sum("x")+"}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, code := a.command("validate", "-c", twin); code == 0 ||
		!strings.Contains(output, "one actor in the audit log") {
		a.Errorf("a user and a token of one name: %d %s", code, output)
	}
	a.report("%d sql jobs that change audit log, links, pauses or roles: permission denied; a "+
		"change as the superuser is found by audit verify; rows added to the queue do not stop "+
		"the chain; the role of checks verifies and exports, and pauses nothing; a user and a "+
		"token of one name are refused; doctor names the missing role", len(statements))
}

// TestRow16 uses the idempotency key of another actor.
func TestRow16(t *testing.T) {
	a := begin(t, 16)
	g := a.start(plan{admin: strings.Replace(a.guarded(), "{name: reader,",
		"{name: reader, role: operator,", 1),
		jobs: "  - {name: a, handler: sql, params: {statement: SELECT 1}}\n" +
			"  - {name: b, handler: sql, params: {statement: SELECT 1}}\n"})
	send := func(token, path, body string) reply {
		return g.ask(request{path: path, token: token, json: body,
			header: map[string]string{"Idempotency-Key": "order-1"}})
	}
	pause := func(token, path string) int { return send(token, path, `{"reason": "x"}`).status }
	found := []int{
		pause(operatorToken, "/api/v1/jobs/a/pause"),
		pause(operatorToken, "/api/v1/jobs/a/pause"),  // again
		pause(operatorToken, "/api/v1/jobs/b/pause"),  // other target
		pause(operatorToken, "/api/v1/jobs/a/resume"), // other action
		pause(viewerToken, "/api/v1/jobs/b/pause"),    // other actor
	}
	want := []int{200, 200, 422, 422, 200}
	for i := range want {
		if found[i] != want[i] {
			a.Errorf("statuses %v, want %v", found, want)
			break
		}
	}
	pauses := g.ask(request{path: "/api/v1/pauses", token: operatorToken}).body
	if strings.Count(pauses, `"reason"`) != 2 {
		a.Errorf("pauses: %s", pauses)
	}
	a.report("one key: the same actor again %d, with another target %d, another action %d; "+
		"another actor %d, and the action happens", found[1], found[2], found[3], found[4])
}
