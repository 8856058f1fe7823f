package admin

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestAuditShowsProofClientAndRequest checks that an entry shows the proof of identity, the
// client's address and the request id.
func TestAuditShowsProofClientAndRequest(t *testing.T) {
	o, c := withControl(guardedOptions(t))
	handler := newServer(t, o).Handler()
	const tokenOfAPI = "Bearer " + accesstest.DeployToken
	for _, test := range []struct {
		actor, proof, client string
		by                   []func(*http.Request)
	}{
		{"anna", "password", "192.0.2.7", []func(*http.Request){accesstest.From("192.0.2.7:1234"),
			accesstest.WithCookie(accesstest.CookieOf(t, handler, "anna", "correct horse"))}},
		{"deploy", "token", "2001:db8::7", []func(*http.Request){
			accesstest.From("[2001:db8::7]:1234"),
			accesstest.WithHeader("Authorization", tokenOfAPI)}},
		{"olga@example.com", "proxy", "198.51.100.9", []func(*http.Request){
			accesstest.From("10.1.2.3:4"),
			accesstest.WithHeader("X-Forwarded-For", "203.0.113.1, 198.51.100.9"),
			accesstest.WithHeader("X-Forwarded-User", "olga@example.com"),
			accesstest.WithHeader("X-Request-Id", "req-4711")}},
	} {
		reply := accesstest.Ask(handler, http.MethodPost,
			"/api/v1/groups/"+test.proof+"/pause", test.by...)
		if reply.Code != http.StatusOK {
			t.Fatalf("%s: got %d %s, want 200", test.actor, reply.Code, reply.Body)
		}
		id := reply.Header().Get("X-Request-Id")
		if test.proof == "proxy" && id != "req-4711" {
			t.Errorf("%s: the answer has the request id %q, want that of the proxy", test.actor, id)
		}
		line := c.audit[0]
		if line.Actor != test.actor || line.Proof != test.proof || line.Client != test.client ||
			line.RequestID != id || id == "" {
			t.Errorf("%s: line %+v, want proof %s, client %s and request %q", test.actor, line,
				test.proof, test.client, id)
		}
		for path, texts := range map[string][]string{
			"/api/v1/audit": {`"proof":"` + test.proof + `"`, `"client":"` + test.client + `"`,
				`"request_id":"` + id + `"`},
			"/audit": {"with " + test.proof, "from <bdi>" + test.client,
				"request <bdi class=\"code\">" + id},
		} {
			body := accesstest.Ask(handler, http.MethodGet, path,
				accesstest.WithHeader("Authorization", tokenOfAPI)).Body.String()
			for _, text := range texts {
				if !strings.Contains(strings.ReplaceAll(body, `": "`, `":"`), text) {
					t.Errorf("%s does not have %s:\n%s", path, text, body)
				}
			}
		}
	}
}

// TestAuditShowsDefinitionsToOperatorsOnly checks that viewers cannot read the definition of an
// added job on the audit page. Its params may contain secrets, so /spec refuses viewers too.
func TestAuditShowsDefinitionsToOperatorsOnly(t *testing.T) {
	const secret, viewerToken = "hunter2-hunter2", "probe-token"
	o := guardedOptions(t)
	withActions, c := withControl(contention())
	o.Operations = withActions.Operations
	forged := []byte(`{"spec": "` + secret)
	c.audit = []storage.Audited{{ID: id(1), At: noon, Actor: "anna", Via: "api",
		Action: "put_job", Target: "job added", Detail: json.RawMessage(
			`{"version": 7, "spec": {"params": {"env": {"PASSWORD": "` + secret + `"}}}}`)},
		{ID: id(2), At: noon, Actor: "anna", Via: "api", Action: "put_job", Target: "job forged",
			InvalidDetail: forged}}
	handler := newServer(t, o).Handler()
	for _, test := range []struct {
		path, token string
		shown       bool
	}{
		{"/api/v1/audit", accesstest.DeployToken, true}, {"/api/v1/audit", viewerToken, false},
		{"/audit", accesstest.DeployToken, false}, {"/audit", viewerToken, false},
	} {
		reply := send(handler, http.MethodGet, test.path,
			http.Header{"Authorization": {"Bearer " + test.token}})
		body := reply.Body.String()
		if reply.Code != http.StatusOK || !strings.Contains(body, "version") ||
			strings.Contains(body, secret) != test.shown ||
			strings.Contains(body, base64.StdEncoding.EncodeToString(forged)) != test.shown ||
			strings.Contains(body, "[redacted]") == test.shown {
			t.Errorf("%s with %s: %d %s", test.path, test.token, reply.Code, body)
		}
	}
}
