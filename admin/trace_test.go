package admin

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs"
)

// TestTraceOfARun checks that the page and JSON of a run have its trace, with a link if one is
// configured. A run that has not started and a replica without tracing have none.
func TestTraceOfARun(t *testing.T) {
	o := contention()
	trace := engine.TraceID(id(10))
	for _, c := range []struct {
		name string
		give func(*Options)
		on   string // expected on the page
		in   string // expected in the JSON
	}{
		{"with a link", func(*Options) {},
			`<dt>Trace</dt><dd class="code"><a href="` + traceSite + trace + `">` + trace +
				`</a></dd>`, `"trace_id": "` + trace + `"`},
		{"without a link", func(o *Options) {
			o.Trace = func(run uuid.UUID) Trace { return Trace{ID: engine.TraceID(run)} }
		},
			`<dt>Trace</dt><dd class="code"> ` + trace + ` </dd>`, `"trace_id": "` + trace + `"`},
		{"not traced", func(o *Options) { o.Trace = func(uuid.UUID) Trace { return Trace{} } }, "",
			""},
		{"nothing is traced", func(o *Options) { o.Trace = nil }, "", ""},
	} {
		o := o
		c.give(&o)
		handler := newServer(t, o).Handler()
		page, jsonPath := flat(get(t, handler, "/runs/"+id(10).String()).Body.String()),
			get(t, handler, "/api/v1/runs/"+id(10).String()).Body.String()
		if c.on == "" && (strings.Contains(page, "<dt>Trace</dt>") ||
			strings.Contains(jsonPath, "trace_id")) {
			t.Errorf("%s: there is a trace: %s", c.name, jsonPath)
		}
		if !strings.Contains(page, c.on) || !strings.Contains(jsonPath, c.in) {
			t.Errorf("%s: page lacks %s, or JSON lacks %s: %s", c.name, c.on, c.in, jsonPath)
		}
	}
	handler := newServer(t, o).Handler()
	unseen := 0
	for _, run := range o.Store.(*history).runs {
		if run.State == jobs.Missed {
			unseen++
			if jsonPath := get(t, handler, "/api/v1/runs/"+run.ID.String()).
				Body.String(); strings.Contains(jsonPath, "trace_id") {
				t.Errorf("got a trace of a run that has not started: %s", jsonPath)
			}
		}
	}
	if unseen == 0 {
		t.Error("missed runs: got none, want at least one")
	}
}

// TestMetricsNeedAccess checks that tokens of every role can read the metrics, and that a token for
// metrics can read nothing else.
func TestMetricsNeedAccess(t *testing.T) {
	handler := guarded(t).Handler()
	for token, want := range map[string]int{"": 401, "wrong": 401, "scrape-token": 200,
		"probe-token": 200, accesstest.DeployToken: 200} {
		reply := accesstest.Ask(handler, http.MethodGet, "/metrics",
			accesstest.WithHeader("Authorization", "Bearer "+token))
		if token == "" {
			reply = accesstest.Ask(handler, http.MethodGet, "/metrics")
		}
		if reply.Code != want || strings.Contains(reply.Body.String(),
			"holdfast_runs_total") != (want == http.StatusOK) {
			t.Errorf("token %q: %d %s, want %d", token, reply.Code, reply.Body, want)
		}
	}
	for _, path := range []string{"/", "/runs", "/api/v1/runs", "/api/v1/nothing", "/nothing",
		"/metrics/x"} {
		if reply := accesstest.Ask(handler, http.MethodGet, path,
			accesstest.WithHeader("Authorization",
				"Bearer scrape-token")); reply.Code != http.StatusForbidden {
			t.Errorf("%s: a token for the metrics gets %d", path, reply.Code)
		}
	}
	o := contention()
	o.Metrics = nil
	if reply := get(t, newServer(t, o).Handler(), "/metrics"); reply.Code != http.StatusNotFound {
		t.Errorf("without metrics: %d", reply.Code)
	}
}
