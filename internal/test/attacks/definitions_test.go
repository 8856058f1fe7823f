package attacks

import (
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/jobs"
)

// added is a job that an operator adds, with a secret in its params.
const added = `{"job": {"name": "added", "handler": "command", "params": {"command": ["true"], ` +
	`"env": {"KEY": "` + secret + `"}}}, "reason": "attack"}`

// TestRow03 requests the definition of an added job as a viewer.
func TestRow03(t *testing.T) {
	a := begin(t, 3)
	g := a.start(plan{admin: a.guarded()})
	g.expect(http.StatusOK, request{path: "/api/v1/jobs", token: operatorToken, json: added})
	g.expect(http.StatusForbidden, request{path: "/api/v1/jobs/added/spec", token: viewerToken})
	paths := []string{"/audit", "/api/v1/audit", "/jobs/added", "/api/v1/jobs/added",
		"/api/v1/jobs", "/jobs", "/", "/api/v1/overview"}
	for _, path := range paths {
		a.hides("a viewer's "+path, g.expect(http.StatusOK,
			request{path: path, token: viewerToken}).body)
	}
	if !strings.Contains(g.ask(request{path: "/api/v1/audit", token: operatorToken}).body,
		`"put_job"`) {
		a.Error("the audit log has no added job, so the attack shows nothing")
	}
	a.report("a viewer read %d pages and answers after a job was added: none has its definition",
		len(paths))
}

// TestRow04 adds jobs that use variables of the replica.
func TestRow04(t *testing.T) {
	a := begin(t, 4)
	g := a.start(plan{admin: a.guarded(), more: "added_jobs: {allowed_env: [ALLOWED]}",
		env: []string{"DATABASE_PASSWORD=" + secret, "ALLOWED=" + secret}})
	put := func(text string) reply {
		return g.ask(request{path: "/api/v1/jobs", token: operatorToken,
			json: `{"job": ` + text + `, "reason": "x"}`})
	}
	refused := []string{
		`{"name": "a", "handler": "sql", "params": {"statement": "SELECT 1"}, "description": "${DATABASE_PASSWORD}"}`,
		`{"name": "${DATABASE_PASSWORD}", "handler": "sql", "params": {"statement": "SELECT 1"}}`,
		`{"name": "a", "handler": "sql", "params": {"statement": "SELECT 1"}, "tables": ["${ALLOWED}"]}`,
		`{"name": "a", "handler": "command", "params": {"command": ["echo", "${DATABASE_PASSWORD}"]}}`,
		`{"name": "a", "handler": "command", "params": {"command": ["echo", "${DATABASE_PASSWORD:-x}"]}}`,
		`{"name": "a", "handler": "command", "params": {"command": ["echo", "${HOME}"]}}`,
	}
	for _, text := range refused {
		answer := put(text)
		if answer.status != http.StatusUnprocessableEntity {
			a.Errorf("%s: %d %s", text, answer.status, answer.body)
		}
		a.hides("the refusal", answer.body)
	}
	if answer := put(`{"name": "may", "handler": "command", "params": {"command": ["sh", "-c", ` +
		`"echo \"$1\"; exit 3", "x", "${ALLOWED}"]}}`); answer.status != http.StatusOK {
		a.Fatalf("an allowed variable: %d %s", answer.status, answer.body)
	}
	run := g.trigger("may", request{token: operatorToken})
	if run.State != jobs.Failed {
		a.Errorf("the job with the allowed variable: %s", run.State)
	}
	for _, path := range []string{"/api/v1/jobs/may/spec", "/api/v1/jobs/may", "/api/v1/audit",
		"/audit", "/runs/" + run.ID.String(), "/api/v1/runs/" + run.ID.String()} {
		a.hides(path, g.expect(http.StatusOK, request{path: path, token: operatorToken}).body)
	}
	a.hides("the log", g.Log())
	a.report("%d added jobs with variables outside params or not allowed: all refused (422); an "+
		"allowed one is shown nowhere", len(refused))
}
