package admin

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestAuditShowsDefinitionsToOperatorsOnly: /spec refuses viewers the definition of an added job,
// whose params may have secrets.
func TestAuditShowsDefinitionsToOperatorsOnly(t *testing.T) {
	const secret, viewerToken = "hunter2-hunter2", "probe-token"
	o := guardedOptions(t)
	withActions, c := withControl(contention())
	o.Operations = withActions.Operations
	c.audit = []storage.Audited{{ID: id(1), At: noon, Actor: "anna", Via: "api",
		Action: "put_job", Target: "job added", Detail: json.RawMessage(
			`{"version": 7, "spec": {"params": {"env": {"PASSWORD": "` + secret + `"}}}}`)}}
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
			strings.Contains(body, "[redacted]") == test.shown {
			t.Errorf("%s with %s: %d %s", test.path, test.token, reply.Code, body)
		}
	}
}
