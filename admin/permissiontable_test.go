package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// expectedNeed is the permission of a route, and the kind of its target.
type expectedNeed struct {
	permission permission.Permission
	target     string
}

// expectedNeeds returns the needs of all routes that have one. A change of a route has to change
// this table too.
func expectedNeeds() map[string]expectedNeed {
	return map[string]expectedNeed{
		"GET /metrics":                             {"view_metrics", "everything"},
		"GET /{$}":                                 {"view", "everything"},
		"GET /locks":                               {"view", "everything"},
		"GET /locks/timeline":                      {"view", "everything"},
		"GET /locks/contention":                    {"view", "everything"},
		"GET /locks/upcoming":                      {"view", "everything"},
		"GET /agenda":                              {"view", "everything"},
		"GET /jobs":                                {"view", "jobs"},
		"GET /jobs/{name}":                         {"view", "job"},
		"GET /jobs/{name}/explain":                 {"view", "job"},
		"GET /runs":                                {"view", "runs"},
		"GET /grid":                                {"view", "jobs"},
		"GET /runs/{id}":                           {"view", "run"},
		"GET /runs/{id}/log":                       {"view_output", "run"},
		"GET /backfills":                           {"view", "backfills"},
		"GET /backfills/{id}":                      {"view", "backfill"},
		"GET /backfills/{id}/cancel":               {"cancel", "backfill"},
		"POST /backfills/{id}/cancel":              {"cancel", "backfill"},
		"GET /search":                              {"view", "everything"},
		"GET /replicas":                            {"view", "everything"},
		"GET /audit":                               {"view", "everything"},
		"GET /webhooks":                            {"view", "everything"},
		"GET /api/v1/webhooks":                     {"view", "everything"},
		"GET /webhooks/{id}/again":                 {"trigger", "everything"},
		"POST /webhooks/{id}/again":                {"trigger", "everything"},
		"POST /api/v1/webhooks/{id}/again":         {"trigger", "everything"},
		"GET /add":                                 {"edit_jobs", "something"},
		"POST /add":                                {"edit_jobs", "something"},
		"GET /jobs/{name}/change":                  {"edit_jobs", "job"},
		"POST /jobs/{name}/change":                 {"edit_jobs", "job"},
		"GET /jobs/{name}/trigger":                 {"trigger", "job"},
		"POST /jobs/{name}/trigger":                {"trigger", "job"},
		"GET /jobs/{name}/pause":                   {"pause", "job"},
		"POST /jobs/{name}/pause":                  {"pause", "job"},
		"GET /jobs/{name}/resume":                  {"pause", "job"},
		"POST /jobs/{name}/resume":                 {"pause", "job"},
		"GET /jobs/{name}/remove":                  {"edit_jobs", "job"},
		"POST /jobs/{name}/remove":                 {"edit_jobs", "job"},
		"GET /groups/{name}/pause":                 {"pause", "group"},
		"POST /groups/{name}/pause":                {"pause", "group"},
		"GET /groups/{name}/resume":                {"pause", "group"},
		"POST /groups/{name}/resume":               {"pause", "group"},
		"GET /pause":                               {"pause", "everything"},
		"POST /pause":                              {"pause", "everything"},
		"GET /resume":                              {"pause", "everything"},
		"POST /resume":                             {"pause", "everything"},
		"GET /runs/{id}/cancel":                    {"cancel", "run"},
		"POST /runs/{id}/cancel":                   {"cancel", "run"},
		"GET /runs/{id}/again":                     {"trigger", "run"},
		"POST /runs/{id}/again":                    {"trigger", "run"},
		"GET /bulk/pause":                          {"pause", "something"},
		"POST /bulk/pause":                         {"pause", "something"},
		"GET /bulk/resume":                         {"pause", "something"},
		"POST /bulk/resume":                        {"pause", "something"},
		"GET /bulk/trigger":                        {"trigger", "something"},
		"POST /bulk/trigger":                       {"trigger", "something"},
		"GET /bulk/again":                          {"trigger", "something"},
		"POST /bulk/again":                         {"trigger", "something"},
		"GET /bulk/cancel":                         {"cancel", "something"},
		"POST /bulk/cancel":                        {"cancel", "something"},
		"GET /locks/release":                       {"release", "resource"},
		"POST /locks/release":                      {"release", "resource"},
		"GET /replicas/{session}/drain":            {"drain", "everything"},
		"POST /replicas/{session}/drain":           {"drain", "everything"},
		"GET /replicas/{session}/undrain":          {"drain", "everything"},
		"POST /replicas/{session}/undrain":         {"drain", "everything"},
		"GET /replicas/{session}/remove":           {"drain", "everything"},
		"POST /replicas/{session}/remove":          {"drain", "everything"},
		"GET /api/v1/overview":                     {"view", "everything"},
		"GET /api/v1/status":                       {"view", "everything"},
		"GET /api/v1/locks":                        {"view", "everything"},
		"GET /api/v1/locks/tree":                   {"view", "everything"},
		"GET /api/v1/locks/timeline":               {"view", "everything"},
		"GET /api/v1/locks/contention":             {"view", "everything"},
		"GET /api/v1/locks/upcoming":               {"view", "everything"},
		"GET /api/v1/jobs":                         {"view", "jobs"},
		"GET /api/v1/agenda":                       {"view", "everything"},
		"GET /api/v1/jobs/{name}":                  {"view", "job"},
		"GET /api/v1/jobs/{name}/explain":          {"view", "job"},
		"GET /api/v1/runs":                         {"view", "runs"},
		"GET /api/v1/replicas/sessions":            {"view", "everything"},
		"GET /api/v1/grid":                         {"view", "jobs"},
		"GET /api/v1/runs/{id}":                    {"view", "run"},
		"GET /api/v1/runs/{id}/outcome":            {"view", "run"},
		"GET /api/v1/runs/{id}/attempts/{attempt}": {"view", "run"},
		"GET /api/v1/search":                       {"view", "everything"},
		"GET /api/v1/replicas":                     {"view", "everything"},
		"GET /api/v1/databases":                    {"view", "everything"},
		"GET /api/v1/backfills":                    {"view", "backfills"},
		"GET /api/v1/backfills/{id}":               {"view", "backfill"},
		"GET /api/v1/jobs/{name}/backfill":         {"view", "job"},
		"POST /api/v1/jobs/{name}/backfill":        {"trigger", "job"},
		"POST /api/v1/backfills/{id}/cancel":       {"cancel", "backfill"},
		"GET /api/v1/audit":                        {"view", "everything"},
		"GET /api/v1/memcached":                    {"view", "everything"},
		"GET /api/v1/events":                       {"view", "everything"},
		"GET /api/v1/openapi.json":                 {"view", "something"},
		"GET /api/v1/pauses":                       {"view", "everything"},
		"POST /api/v1/jobs":                        {"edit_jobs", "something"},
		"GET /api/v1/jobs/{name}/spec":             {"edit_jobs", "job"},
		"POST /api/v1/jobs/{name}/trigger":         {"trigger", "job"},
		"POST /api/v1/jobs/{name}/pause":           {"pause", "job"},
		"POST /api/v1/jobs/{name}/resume":          {"pause", "job"},
		"POST /api/v1/jobs/{name}/remove":          {"edit_jobs", "job"},
		"POST /api/v1/groups/{name}/pause":         {"pause", "group"},
		"POST /api/v1/groups/{name}/resume":        {"pause", "group"},
		"POST /api/v1/pause":                       {"pause", "everything"},
		"POST /api/v1/resume":                      {"pause", "everything"},
		"POST /api/v1/runs/{id}/cancel":            {"cancel", "run"},
		"POST /api/v1/reload":                      {"reload", "everything"},
		"POST /api/v1/locks/release":               {"release", "something"},
		"POST /api/v1/replicas/{session}/drain":    {"drain", "everything"},
		"POST /api/v1/replicas/{session}/undrain":  {"drain", "everything"},
		"POST /api/v1/replicas/{session}/remove":   {"drain", "everything"},
	}
}

// targetKind returns the kind of the target of a route, by the name of the function that looks it
// up.
func targetKind(n need) string {
	if n.target == nil {
		return "everything"
	}
	name := runtime.FuncForPC(reflect.ValueOf(n.target).Pointer()).Name()
	return map[string]string{"something": "something", "jobOf": "job", "runOf": "run",
		"groupOf": "group", "resourceOf": "resource", "filteredJobs": "jobs",
		"filteredRuns": "runs", "filteredBackfills": "backfills",
		"backfillOf": "backfill"}[name[strings.LastIndex(name, ".")+1:]]
}

// Which part of the cluster an address is about. The role sales has permissions on the inside.
const (
	aboutEverything = "everything"
	aboutSomething  = "something"
	aboutInside     = "inside"
	aboutOutside    = "outside"
)

// endedRun is a run of rollup-sales that has ended.
const endedRun = 50

// addressesOf returns addresses of a route, by the part that each is about.
func addressesOf(s *Server, path, kind string) map[string]string {
	name := func(name string) string { return strings.Replace(path, "{name}", name, 1) }
	run := func(n int) string {
		return strings.NewReplacer("{id}", id(n).String(), "{attempt}", "1").Replace(path)
	}
	query := func(key, value string) string {
		return path + "?" + url.Values{key: {value}}.Encode()
	}
	switch kind {
	case "job":
		return map[string]string{name("rollup-sales"): aboutInside,
			name("sync-vendors"): aboutOutside}
	case "group":
		return map[string]string{name("sales"): aboutInside, name("finance"): aboutOutside}
	case "run":
		return map[string]string{run(10): aboutInside, run(endedRun): aboutInside,
			run(11): aboutOutside, run(31): aboutOutside}
	case "backfill":
		at := func(n int) string { return strings.Replace(path, "{id}", id(n).String(), 1) }
		return map[string]string{at(activeBackfill): aboutInside, at(endedBackfill): aboutOutside}
	case "resource":
		return map[string]string{locks.ReleasePath("public/orders", 1810): aboutInside,
			locks.ReleasePath("public/invoices", 1810): aboutOutside}
	case "jobs":
		return map[string]string{path: aboutEverything, query("group", "sales"): aboutInside,
			query("group", "finance"): aboutOutside}
	case "backfills":
		return map[string]string{path: aboutEverything, query("job", "rollup-sales"): aboutInside,
			query("job", "sync-vendors"): aboutOutside}
	case "runs":
		return map[string]string{path: aboutEverything, query("job", "rollup-sales"): aboutInside,
			query("job", "sync-vendors"):                   aboutOutside,
			query("backfill", id(activeBackfill).String()): aboutInside,
			query("backfill", id(endedBackfill).String()):  aboutOutside}
	}
	return map[string]string{addressOf(s, path): kind}
}

// mayOn reports whether a role of limitedOptions has a permission on a part.
func mayOn(role string, n expectedNeed, about string) bool {
	reads := n.permission == permission.View || n.permission == permission.ViewMetrics ||
		n.permission == permission.ViewOutput
	switch role {
	case "operator":
		return true
	case "viewer":
		return reads
	case "trigger":
		return reads || n.permission == permission.Trigger
	case "metrics":
		return n.permission == permission.ViewMetrics
	case "sales":
		return about == aboutInside || about == aboutSomething
	case "others":
		return about == aboutSomething
	case "watcher":
		return n.permission == permission.View || about == aboutSomething
	case "rollups":
		return n.permission == permission.Trigger &&
			(about == aboutInside || about == aboutSomething)
	}
	panic("unknown role " + role)
}

// TestEveryRouteByRoleAndTarget walks every route for each role and for targets inside and outside
// of the part that some roles are limited to.
func TestEveryRouteByRoleAndTarget(t *testing.T) {
	o, _ := limitedOptions(t)
	h := o.Store.(*history)
	h.runs = append(h.runs, done(endedRun, "rollup-sales", "replica-1", time.Hour, time.Second,
		jobs.Succeeded))
	server := newServer(t, o)
	handler, walked, expected := server.Handler(), 0, expectedNeeds()
	for _, r := range server.routes() {
		route := r.method + " " + r.path
		want, found := expected[route]
		if delete(expected, route); !found && r.need.permission == "" {
			continue
		}
		if got := (expectedNeed{r.need.permission, targetKind(r.need)}); got != want {
			t.Errorf("%s needs %s on %s, want %s on %s", route, got.permission, got.target,
				want.permission, want.target)
			continue
		}
		for address, about := range addressesOf(server, r.path, want.target) {
			for _, role := range rolesOfTest() {
				walked++
				checkAdmission(t, handler, r.method, address, role, want.permission,
					mayOn(role, want, about))
			}
		}
	}
	for route := range expected {
		t.Errorf("%s does not exist", route)
	}
	if walked < 1000 {
		t.Errorf("walked %d times, want at least 1000", walked)
	}
}

// checkAdmission checks whether a role is refused.
func checkAdmission(t *testing.T, handler http.Handler, method, address, role string,
	needed permission.Permission, allowed bool) {
	t.Helper()
	reply := accesstest.Ask(handler, method, address, roleToken(role))
	what := fmt.Sprintf("%s: %s %s", role, method, address)
	if got := reply.Code != http.StatusForbidden; got != allowed {
		t.Errorf("%s: %d %s, want it allowed: %v", what, reply.Code, reply.Body, allowed)
	} else if want := fmt.Sprintf("does not have the permission %s on ", needed); !allowed &&
		!strings.Contains(reply.Body.String(), want) {
		t.Errorf("%s: got %s, want %q in it", what, reply.Body, want)
	}
}
