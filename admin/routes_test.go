package admin

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// addressOf returns an existing address of a route.
func addressOf(s *Server, path string) string {
	switch path {
	case "/api/v1/jobs/{name}/spec", "/api/v1/jobs/{name}/remove", "/jobs/{name}/change",
		"/jobs/{name}/remove":
		return strings.Replace(path, "{name}", "added", 1)
	case "/bulk/pause", "/bulk/resume", "/bulk/trigger":
		return path + "?job=rollup-sales"
	case "/bulk/cancel":
		return path + "?run=" + id(10).String()
	case "/bulk/again":
		return path + "?run=" + id(31).String()
	case "/runs/{id}/again":
		return param.RunPath(id(31)) + "/again"
	case "/locks/release":
		return locks.ReleasePath("public/orders", 1810)
	case "/api/v1/jobs/{name}/backfill":
		return "/api/v1/jobs/rollup-sales/backfill"
	case "/api/v1/backfills/{id}", "/api/v1/backfills/{id}/cancel", "/backfills/{id}",
		"/backfills/{id}/cancel":
		return strings.Replace(path, "{id}", id(activeBackfill).String(), 1)
	}
	return strings.NewReplacer("{$}", "", "{name}", "rollup-sales", "{id}", id(10).String(),
		"{session}", id(9001).String(), "{attempt}", "1",
		"{file}", s.site.Templates.Assets.ByName["holdfast.css"].Hashed).Replace(path)
}

// bodyOf returns a valid body for an action's route.
func bodyOf(path string) string {
	form := url.Values{"key": {uuid.NewString()}, "reason": {"night"}}
	switch path {
	case "/add":
		form.Set("job", `{"name": "added", "handler": "work"}`)
	case "/jobs/{name}/change":
		form.Set("job", `{"name": "added", "handler": "work"}`)
		form.Set("version", "1")
	case "/jobs/{name}/remove":
		form.Set("version", "2")
	case "/locks/release":
		form.Set("token", "1810")
	case "/api/v1/jobs":
		return addedJob
	case "/api/v1/jobs/{name}/backfill":
		return `{"from": "2026-03-13T00:00:00Z", "to": "2026-03-13T12:00:00Z"}`
	case "/api/v1/locks/release":
		return `{"resource": "public/orders", "token": 1810}`
	}
	if strings.HasPrefix(path, "/api/") {
		return ""
	}
	return form.Encode()
}

func withBody(path string) func(*http.Request) {
	return func(r *http.Request) {
		r.Body = io.NopCloser(strings.NewReader(bodyOf(path)))
		if !access.ForMachines(r) {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
	}
}

// formDone reports whether the response redirects after a form was accepted.
func formDone(r route, reply *httptest.ResponseRecorder) bool {
	return r.method == http.MethodPost && !strings.HasPrefix(r.path, "/api/") &&
		reply.Code == http.StatusSeeOther
}

// isAction reports whether the route needs a permission beyond viewing.
func (r route) isAction() bool {
	return r.need.permission != "" && !slices.Contains([]permission.Permission{permission.View,
		permission.ViewMetrics, permission.ViewOutput}, r.need.permission)
}

// withActions returns the routes of a server and one that counts its calls as actions.
func withActions(s *Server, calls *int) []route {
	return append(s.routes(), route{"POST", "/api/v1/act", may(permission.Drain, nil),
		func(w http.ResponseWriter, _ *http.Request) {
			*calls++
			pages.WritePlain(w, http.StatusOK, "done")
		}})
}

// TestAnonymousRequestsAreRefused requests every route without a proof of identity. Only sign-in,
// health checks and assets may be open. Every route with another method than GET must need an
// operator.
func TestAnonymousRequestsAreRefused(t *testing.T) {
	server := guarded(t)
	calls := 0
	routes := withActions(server, &calls)
	handler := server.handler(routes)
	open := []string{"GET /healthz", "GET /readyz", "GET /static/{file}", "GET /favicon.ico",
		"GET /login", "POST /login", "GET /login/oidc", "GET /login/oidc/callback",
		"GET /login/oidc/signed-out"}
	for _, r := range append(routes,
		route{"GET", "/nothing", need{level: access.ForIdentities}, nil},
		route{"GET", "/api/v1/nothing",
			need{level: access.ForIdentities}, nil}) {
		reply := accesstest.Ask(handler, r.method, addressOf(server, r.path))
		name := r.method + " " + r.path
		if slices.Contains(open, name) {
			if reply.Code == http.StatusUnauthorized || reply.Code == http.StatusSeeOther ||
				reply.Code == http.StatusNotFound {
				t.Errorf("%s: %d for a stranger", name, reply.Code)
			}
			if r.method == http.MethodPost && reply.Code != http.StatusForbidden {
				t.Errorf("%s: %d for an empty form", name, reply.Code)
			}
		} else if r.need.level < access.ForIdentities {
			t.Errorf("%s is open to strangers", name)
		} else {
			checkTurnedAway(t, name, r, reply)
		}
		if r.method != http.MethodGet && !r.isAction() && r.path != "/login" &&
			!slices.Contains([]string{"/logout", "/theme", "/zone"}, r.path) {
			t.Errorf("%s: got no permission required for a method other than GET", name)
		}
		// The response may repeat the requested address.
		body := strings.ReplaceAll(reply.Body.String(), url.QueryEscape(addressOf(server, r.path)),
			"")
		for _, word := range []string{"replica-1", "rollup-sales", "anna"} {
			if strings.Contains(body, word) {
				t.Errorf("%s: got %s without a sign-in: %s", name, word, reply.Body)
			}
		}
	}
	if calls != 0 {
		t.Errorf("got %v actions of strangers, want 0", calls)
	}
}

func checkTurnedAway(t *testing.T, name string, r route, reply *httptest.ResponseRecorder) {
	t.Helper()
	switch {
	case strings.HasPrefix(r.path, "/api/") || r.path == "/metrics":
		if reply.Code != http.StatusUnauthorized || !json.Valid(reply.Body.Bytes()) ||
			reply.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%s: %d %s for a stranger", name, reply.Code, reply.Body)
		}
	case r.method == http.MethodGet:
		if reply.Code != http.StatusSeeOther ||
			!strings.HasPrefix(reply.Header().Get("Location"), "/login?next=%2F") {
			t.Errorf("%s: %d to %q for a stranger", name, reply.Code,
				reply.Header().Get("Location"))
		}
	case reply.Code != http.StatusUnauthorized:
		t.Errorf("%s: %d for a stranger", name, reply.Code)
	}
}

// TestRoutesByRole requests every route with each kind of proof. The order makes sure that an added
// job is removed again and a paused target is resumed.
func TestRoutesByRole(t *testing.T) {
	o, control := withControl(guardedOptions(t))
	server := newServer(t, o)
	calls := 0
	routes := withActions(server, &calls)
	handler := server.handler(routes)
	proofs := map[string][]func(*http.Request){
		"viewer by cookie":   {accesstest.WithCookie(accesstest.CookieOf(t, handler, "vera", "staple"))},
		"viewer by token":    {accesstest.WithHeader("Authorization", "Bearer probe-token")},
		"scraper by token":   {accesstest.WithHeader("Authorization", "Bearer scrape-token")},
		"viewer by proxy":    {accesstest.From("10.1.2.3:9"), accesstest.WithHeader("X-Forwarded-User", "petra")},
		"operator by cookie": {accesstest.WithCookie(accesstest.CookieOf(t, handler, "anna", "correct horse"))},
		"operator by token":  {accesstest.WithHeader("Authorization", "Bearer "+accesstest.DeployToken)},
		"operator by proxy": {accesstest.From("10.1.2.3:9"),
			accesstest.WithHeader("X-Forwarded-User", "olga@example.com")},
	}
	signOut := slices.IndexFunc(routes, func(r route) bool { return r.path == "/logout" })
	// The sign-out is last, because it makes the sign-in invalid.
	ordered := append(slices.Delete(slices.Clone(routes), signOut, signOut+1), routes[signOut])
	for proof, change := range proofs {
		before, audited := calls, len(control.audit)
		for _, r := range ordered {
			reply := accesstest.Ask(handler, r.method, addressOf(server, r.path),
				append(slices.Clip(change), withBody(r.path))...)
			refused := r.isAction() && strings.HasPrefix(proof, "viewer") ||
				strings.HasPrefix(proof, "scraper") && r.need.permission != "" &&
					r.need.permission != permission.ViewMetrics
			switch {
			case strings.HasPrefix(r.path, "/login"):
			case refused != (reply.Code == http.StatusForbidden):
				t.Errorf("%s: %s %s gives %d", proof, r.method, r.path, reply.Code)
			case !refused && reply.Code != http.StatusOK && !formDone(r, reply):
				t.Errorf("%s: %s %s gives %d", proof, r.method, r.path, reply.Code)
			}
		}
		if want := strings.HasPrefix(proof, "operator"); (calls > before) != want {
			t.Errorf("%s acted: %v, want %v", proof, calls > before, want)
		}
		if want := strings.HasPrefix(proof, "operator"); (len(control.audit) > audited) != want {
			t.Errorf("%s has %d lines in the audit log, want some: %v", proof,
				len(control.audit)-audited, want)
		}
	}
}

// TestSecurityHeaders checks the headers of every route and of requests that are refused at each
// stage.
func TestSecurityHeaders(t *testing.T) {
	recorder := httptest.NewRecorder()
	access.WithHeaders(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), true).
		ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
	want := recorder.Header()
	delete(want, "Cache-Control")
	if len(want) < 7 {
		t.Fatalf("headers are %v", want)
	}
	for name, server := range map[string]*Server{"open": newServer(t, contention()),
		"guarded": guarded(t)} {
		handler := server.Handler()
		replies := make(map[string]*httptest.ResponseRecorder)
		for _, r := range append(server.routes(), route{path: "/nothing"},
			route{path: "/api/v1/nothing"}) {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut,
				http.MethodOptions} {
				for _, host := range []string{"localhost", "evil.example"} {
					what := name + ": " + method + " " + r.path + " of " + host
					replies[what] = accesstest.Ask(handler, method, addressOf(server, r.path),
						func(r *http.Request) { r.Host = host })
					replies[what+", from elsewhere"] = accesstest.Ask(handler, method,
						addressOf(server, r.path),
						func(r *http.Request) { r.Host = host },
						accesstest.WithHeader("Sec-Fetch-Site", "cross-site"))
				}
			}
		}
		replies[name+": a path to be cleaned"] = accesstest.Ask(handler, http.MethodGet, "/a/../b")
		for what, reply := range replies {
			for header, values := range want {
				if got := reply.Header().Values(header); !slices.Equal(got, values) {
					t.Errorf("%s: %s is %q, want %q", what, header, got, values)
				}
			}
			if got := reply.Header().Get("Cache-Control"); got != "no-store" &&
				!strings.Contains(what, "GET /static/") {
				t.Errorf("%s: Cache-Control is %q", what, got)
			}
		}
	}
}

// TestMethods checks that other methods than those of the route are refused with the Allow header.
func TestMethods(t *testing.T) {
	server, _ := acting(t)
	handler := server.Handler()
	answered[storage.Spec](t, post(handler, "/api/v1/jobs", addedJob), http.StatusOK)
	for _, r := range server.routes() {
		if reply := send(handler, http.MethodHead, addressOf(server, r.path),
			nil); r.method == http.MethodGet && reply.Code >= 400 {
			t.Errorf("HEAD %s: %d", r.path, reply.Code)
		}
	}
	methods := make(map[string][]string)
	for _, r := range server.routes() {
		methods[r.path] = append(methods[r.path], r.method)
	}
	for path, taken := range methods {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut,
			http.MethodDelete, http.MethodOptions} {
			reply := send(handler, method, addressOf(server, path), nil)
			if got := reply.Code == http.StatusMethodNotAllowed; got == slices.Contains(taken,
				method) {
				t.Errorf("%s %s: got %d, want 405 only for other methods than %v", method, path,
					reply.Code, taken)
			}
			if reply.Code == http.StatusMethodNotAllowed &&
				!strings.Contains(reply.Header().Get("Allow"), taken[0]) {
				t.Errorf("%s %s: Allow is %q", method, path, reply.Header().Get("Allow"))
			}
		}
	}
}

// TestEverybodyIsOperatorOnLoopback checks a server without users.
func TestEverybodyIsOperatorOnLoopback(t *testing.T) {
	server := newServer(t, contention())
	calls := 0
	handler := server.handler(withActions(server, &calls))
	if reply := send(handler, http.MethodPost, "/api/v1/act", nil); reply.Code != http.StatusOK ||
		calls != 1 {
		t.Errorf("%d, acted %d times", reply.Code, calls)
	}
	if reply := send(handler, http.MethodGet, "/login", nil); reply.Code != http.StatusSeeOther {
		t.Errorf("there is something to sign in to: %d", reply.Code)
	}
}
