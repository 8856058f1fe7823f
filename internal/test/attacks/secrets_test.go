package attacks

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// TestRow05 is row 17 too: errors, messages and output of jobs quote URLs and values of variables.
func TestRow05(t *testing.T) {
	a := begin(t, 5)
	closed, err := servertest.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	hook := a.collect(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	refusing := a.collect(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no such hook "+r.URL.String()+" "+r.Header.Get("X-Key"),
			http.StatusNotFound)
	})
	g := a.start(plan{
		env: []string{"SECRET=" + secret, "HOOK=http://" + closed + "/services/" + secret,
			"REFUSING=" + refusing.URL + "/services/" + secret},
		jobs: "  - {name: unreachable, handler: http, params: {url: '${HOOK}'}}\n" +
			"  - {name: path, handler: http, params: {url: 'http://" + closed +
			"/services/${SECRET}?key=${SECRET}'}}\n" +
			"  - {name: refused, handler: http, params: {url: '${REFUSING}', headers: {X-Key: " +
			"'${SECRET}'}}}\n" +
			"  - {name: says, handler: command, params: {command: [sh, -c, " +
			"'echo \"out $0\"; echo \"err $0\" >&2; exit 3', '${SECRET}']}}\n" +
			"  - {name: missing, handler: command, params: {command: ['/none/${SECRET}']}}\n" +
			"  - {name: sql, handler: sql, params: {statement: \"SELECT '${SECRET}' FROM none\"}}\n",
		more: "webhooks:\n  - {name: hook, url: '" + hook.URL + "/', secret: whsec_" +
			"dGhpcyBpcyBub3QgYSBzZWNyZXQgYXQgYWxsLi4u, events: [failed]}\n" +
			"  - {name: lost, url: '${HOOK}', secret: whsec_" +
			"dGhpcyBpcyBub3QgYSBzZWNyZXQgYXQgYWxsLi4u, events: [failed], retry: {attempts: 1}}",
	})
	names := []string{"unreachable", "path", "refused", "says", "missing", "sql"}
	for _, name := range names {
		run := g.trigger(name, request{})
		text, err := json.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		a.hides("run "+name, string(text))
		a.hides("page of "+name, g.expect(http.StatusOK,
			request{path: "/runs/" + run.ID.String()}).body)
		a.hides("job "+name, g.expect(http.StatusOK, request{path: "/api/v1/jobs/" + name}).body)
		if run.State != "failed" || run.Error == "" {
			a.Errorf("job %s: %s %q", name, run.State, run.Error)
		}
	}
	g.await("webhooks", allowed*4, func() bool { return len(hook.requests()) >= len(names) })
	g.await("failed webhooks", allowed*4, func() bool {
		return strings.Contains(g.ask(request{path: "/api/v1/webhooks"}).body, "lost")
	})
	a.hides("webhooks", strings.Join(hook.requests(), "\n"))
	a.hides("the list of deliveries", g.ask(request{path: "/api/v1/webhooks"}).body)
	a.hides("the overview", g.ask(request{path: "/"}).body)
	a.hides("the log", g.Log())
	a.report("%d failing jobs with secrets in URLs, headers, arguments, statements and messages, "+
		"and %d webhook bodies: none shows them", len(names), len(hook.requests()))
	a.row = 17
	a.report("standard output, standard error, messages and answers with a variable's value are " +
		"masked (same runs as row 5)")
}
