package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// limitedOptions returns options with a user for each role and one job in a group.
func limitedOptions(t *testing.T) (Options, *control) {
	t.Helper()
	h := contention().Store.(*history)
	for i := range h.jobs {
		if h.jobs[i].Name == "rollup-sales" {
			h.jobs[i].Group = "sales"
		}
	}
	o := options(h)
	o.Hosts = []string{accesstest.Host}
	o.Roles = []permission.Role{
		{Name: "sales", Grant: permission.Grant{Permissions: permission.All(),
			Groups: []string{"sales"}, Resources: []string{"public/orders"}}},
		{Name: "others", Grant: permission.Grant{Permissions: permission.All(),
			Jobs: []string{"nothing-*"}, Groups: []string{"night"}, Resources: []string{"x/*"}}},
		{Name: "watcher", Include: []string{"others"},
			Grant: permission.Grant{Permissions: []permission.Permission{permission.View}}},
		{Name: "rollups", Grant: permission.Grant{
			Permissions: []permission.Permission{permission.Trigger}, Jobs: []string{"rollup-*"}}},
	}
	for _, role := range rolesOfTest() {
		o.Tokens = append(o.Tokens, Token{Name: role, Role: Role(role),
			Hash: accesstest.Sum(role + "-token")})
	}
	return withControl(o)
}

// rolesOfTest are the predefined roles and those of limitedOptions.
func rolesOfTest() []string {
	return []string{"viewer", "trigger", "operator", "metrics", "sales", "others", "watcher",
		"rollups"}
}

func roleToken(role string) func(*http.Request) {
	return accesstest.WithHeader("Authorization", "Bearer "+role+"-token")
}

// TestActionsByTarget checks actions that name their target only in the body.
func TestActionsByTarget(t *testing.T) {
	o, c := limitedOptions(t)
	handler := newServer(t, o).Handler()
	for _, test := range []struct {
		role, path, body string
		want             int
	}{
		{"sales", "/api/v1/locks/release", `{"resource": "public/invoices", "token": 1810}`, 403},
		{"others", "/api/v1/locks/release", `{"resource": "public/orders", "token": 1810}`, 403},
		{"sales", "/api/v1/locks/release", `{"resource": "public/orders", "token": 1810}`, 200},
		{"sales", "/api/v1/jobs", `{"job": {"name": "other", "handler": "work"}}`, 403},
		{"others", "/api/v1/jobs", `{"job": {"name": "other", "handler": "work"}}`, 403},
		{"others", "/api/v1/jobs", `{"job": {"name": "nothing-new", "handler": "work"}}`, 200},
		{"sales", "/api/v1/jobs/rollup-sales/trigger", `{}`, 200},
		{"others", "/api/v1/jobs/rollup-sales/trigger", `{}`, 403},
		{"trigger", "/api/v1/jobs/rollup-sales/trigger", `{}`, 200},
		{"trigger", "/api/v1/jobs/rollup-sales/pause", `{}`, 403},
	} {
		before := len(c.audit)
		reply := post(handler, test.path, test.body, roleToken(test.role))
		if reply.Code != test.want || (len(c.audit) > before) != (test.want == 200) {
			t.Errorf("%s %s %s: got %d %s, want %d", test.role, test.path, test.body, reply.Code,
				reply.Body, test.want)
		}
	}
}

// TestUnknownJobsNameNoOthers checks that the explanation of an unknown job suggests names of jobs
// only to a sender who may view all jobs.
func TestUnknownJobsNameNoOthers(t *testing.T) {
	o, _ := limitedOptions(t)
	handler := newServer(t, o).Handler()
	for role, suggests := range map[string]bool{"viewer": true, "others": false} {
		for _, path := range []string{"/api/v1/jobs/nothing-new/explain",
			"/jobs/nothing-new/explain"} {
			reply := accesstest.Ask(handler, http.MethodGet, path, roleToken(role))
			body := reply.Body.String()
			if reply.Code != http.StatusNotFound ||
				strings.Contains(body, "rollup-sales") != suggests ||
				!strings.Contains(body, "unknown job") {
				t.Errorf("%s %s: got %d %s", role, path, reply.Code, body)
			}
		}
	}
}

// TestPausesAreOverriddenWithTheirPermission checks that a user needs the permission to pause a job
// to start a run of it despite a pause.
func TestPausesAreOverriddenWithTheirPermission(t *testing.T) {
	o, _ := limitedOptions(t)
	handler := newServer(t, o).Handler()
	const path, even = "/jobs/rollup-sales/trigger", `{"even_paused": true}`
	if reply := post(handler, "/api/v1/jobs/rollup-sales/pause", "",
		roleToken("operator")); reply.Code != http.StatusOK {
		t.Fatalf("pause: %d %s", reply.Code, reply.Body)
	}
	for role, want := range map[string]int{"trigger": 403, "operator": 200, "sales": 200} {
		reply := post(handler, "/api/v1"+path, even, roleToken(role))
		denied := strings.Contains(reply.Body.String(), "the permission pause on job rollup")
		if reply.Code != want || denied != (want == http.StatusForbidden) {
			t.Errorf("%s: %d %s, want %d", role, reply.Code, reply.Body, want)
		}
	}
	if reply := accesstest.Ask(handler, http.MethodPost, path, roleToken("trigger"),
		accesstest.WithForm(url.Values{"key": {"k"},
			"even_paused": {"yes"}})); reply.Code != http.StatusForbidden {
		t.Errorf("form: %d %s", reply.Code, reply.Body)
	}
}

// TestDeniedRequestsAreAudited checks requests that are refused by their route, by the target in
// their body, and by a form. Each refusal must add one entry.
func TestDeniedRequestsAreAudited(t *testing.T) {
	o, _ := limitedOptions(t)
	events := new(accesstest.Events)
	o.Events = events
	handler := newServer(t, o).Handler()
	for _, test := range []struct {
		what string
		ask  func() int
		want string
	}{
		{"a route", func() int {
			return post(handler, "/api/v1/jobs/rollup-sales/trigger", `{}`,
				roleToken("others")).Code
		}, `refused job rollup-sales by others (api, token) `},
		{"a body", func() int {
			return post(handler, "/api/v1/locks/release",
				`{"resource": "public/invoices", "token": 1810}`, roleToken("sales")).Code
		}, `refused resource public/invoices by sales (api, token) `},
		{"a page", func() int {
			return accesstest.Ask(handler, http.MethodGet, "/audit", roleToken("metrics")).Code
		}, `refused everything by metrics (page, token) `},
		{"a form", func() int {
			return accesstest.Ask(handler, http.MethodPost, "/jobs/rollup-sales/pause",
				roleToken("trigger"), accesstest.WithForm(nil)).Code
		}, `refused job rollup-sales by trigger (page, token) `},
		{"what is allowed", func() int {
			if code := post(handler, "/api/v1/jobs/rollup-sales/trigger", `{}`,
				roleToken("sales")).Code; code != http.StatusOK {
				return code
			}
			return http.StatusForbidden
		}, ""},
	} {
		status, lines := test.ask(), events.Take()
		if want := test.want != ""; status != http.StatusForbidden || (len(lines) == 1) != want ||
			want && !strings.HasPrefix(lines[0], test.want) {
			t.Errorf("%s: got %d and %q, want %q", test.what, status, lines, test.want)
		}
	}
}

// TestLimitedTokens checks the expiry and the scope of tokens.
func TestLimitedTokens(t *testing.T) {
	o, _ := limitedOptions(t)
	o.Tokens = append(o.Tokens,
		Token{Name: "past", Role: Operator, Hash: accesstest.Sum("past-token"),
			Expires: time.Now().Add(-time.Second)},
		Token{Name: "future", Role: Operator, Hash: accesstest.Sum("future-token"),
			Expires: time.Now().Add(time.Hour)},
		Token{Name: "scoped", Role: Operator, Hash: accesstest.Sum("scoped-token"),
			Scope: &permission.Grant{Permissions: []permission.Permission{permission.Trigger},
				Jobs: []string{"rollup-*"}}})
	handler := newServer(t, o).Handler()
	for _, test := range []struct {
		token, path string
		want        int
	}{
		{"past", "/api/v1/jobs/rollup-sales/trigger", 401},
		{"future", "/api/v1/jobs/rollup-sales/trigger", 200},
		{"scoped", "/api/v1/jobs/rollup-sales/trigger", 200},
		{"scoped", "/api/v1/jobs/rollup-sales/pause", 403},
		{"scoped", "/api/v1/jobs/sync-vendors/trigger", 403},
		{"scoped", "/api/v1/pause", 403},
	} {
		if reply := post(handler, test.path, "", roleToken(test.token)); reply.Code != test.want {
			t.Errorf("%s %s: got %d %s, want %d", test.token, test.path, reply.Code, reply.Body,
				test.want)
		}
	}
}

// TestPagesOfferOnlyAllowedActions checks that pages omit links to forms, and data, for which the
// user has no permission.
func TestPagesOfferOnlyAllowedActions(t *testing.T) {
	o, _ := limitedOptions(t)
	handler := newServer(t, o).Handler()
	page := func(role, path string) string {
		reply := accesstest.Ask(handler, http.MethodGet, path, roleToken(role))
		if reply.Code != http.StatusOK {
			t.Fatalf("%s: %s: got %d", role, path, reply.Code)
		}
		return reply.Body.String()
	}
	for _, test := range []struct {
		role, path, link string
		want             bool
	}{
		{"viewer", "/jobs/rollup-sales", "/trigger", false},
		{"trigger", "/jobs/rollup-sales", "/trigger", true},
		{"trigger", "/jobs/rollup-sales", "/pause", false},
		{"sales", "/jobs/rollup-sales", "/trigger", true},
		{"sales", "/jobs/rollup-sales", "/pause", true},
		{"watcher", "/jobs/rollup-sales", "/trigger", false},
		{"watcher", "/jobs/rollup-sales", "/pause", false},
		{"operator", "/", `href="/pause"`, true},
		{"watcher", "/", `href="/pause"`, false},
		{"operator", "/replicas", "/drain", true},
		{"watcher", "/replicas", "/drain", false},
		{"sales", param.RunPath(id(10)), "/cancel", true},
		{"watcher", param.RunPath(id(10)), "/cancel", false},
	} {
		if got := strings.Contains(page(test.role, test.path), test.link); got != test.want {
			t.Errorf("%s: %s has %s: %v", test.role, test.path, test.link, got)
		}
	}
}

// TestOutputAndParamsNeedPermissions checks that the permission to view does not include output and
// params.
func TestOutputAndParamsNeedPermissions(t *testing.T) {
	o, _ := limitedOptions(t)
	h := o.Store.(*history)
	for i := range h.runs {
		if h.runs[i].ID == id(10) {
			h.runs[i].Output, h.runs[i].Params = "printed-by-run", []byte(`{"rows": "a-param"}`)
			triggered := h.runs[i]
			triggered.ID, triggered.Key = id(900), "a-key"
			triggered.ScheduledAt = triggered.ScheduledAt.Add(time.Second)
			h.runs = append(h.runs, triggered)
		}
	}
	const explained = "/explain?at=2026-03-14T02:30:08Z" // both runs were created then
	h.attempts = map[uuid.UUID][]storage.RunAttempt{id(10): {{Attempt: 7, Output: "first-try"}}}
	handler := newServer(t, o).Handler()
	run, api := param.RunPath(id(10)), "/api/v1"+param.RunPath(id(10))
	for role, want := range map[string]bool{"viewer": true, "watcher": false, "sales": true} {
		for path, texts := range map[string][]string{
			run: {"printed-by-run", "a-param"}, api: {"printed-by-run", "a-param"},
			run + "?attempt=7": {"first-try"}, api + "/attempts/7": {"first-try"},
			api + "/attempts/1": {"printed-by-run"},
		} {
			reply := accesstest.Ask(handler, http.MethodGet, path, roleToken(role))
			for _, text := range texts {
				if strings.Contains(reply.Body.String(), text) != want ||
					reply.Code != http.StatusOK {
					t.Errorf("%s: %s: %d, has %s: %v", role, path, reply.Code, text, !want)
				}
			}
		}
	}
	// lists have no params, whatever the permissions
	for _, path := range []string{"/api/v1/runs", "/api/v1/jobs/rollup-sales" + explained,
		"/jobs/rollup-sales" + explained} {
		body := accesstest.Ask(handler, http.MethodGet, path, roleToken("viewer")).Body.String()
		for _, n := range []int{10, 900} {
			if !strings.Contains(body, id(n).String()) {
				t.Errorf("%s: got no run %s, want it: %s", path, id(n), body)
			}
		}
		if strings.Contains(body, "a-param") {
			t.Errorf("%s: got runs with their params, want none: %s", path, body)
		}
	}
}

// TestParamsAreRepeatedOnlyByTheirViewers checks that people who may not view the params of a run
// cannot run it again, neither with these params nor with those of the job.
func TestParamsAreRepeatedOnlyByTheirViewers(t *testing.T) {
	const secret = "471147114711" // too long to be part of a random id
	const params = `{"rows":` + secret + `}`
	for _, test := range []struct {
		role, params string
		want         int
	}{
		{"rollups", "", http.StatusSeeOther},
		{"rollups", params, http.StatusForbidden},
		{"trigger", params, http.StatusSeeOther},
	} {
		o, c := limitedOptions(t)
		h := o.Store.(*history)
		at := slices.IndexFunc(h.runs, func(r storage.Record) bool { return r.ID == id(20) })
		h.runs[at].State, h.runs[at].Job = jobs.Failed, "rollup-sales"
		if test.params != "" {
			h.runs[at].Params = []byte(test.params)
		}
		handler, address := newServer(t, o).Handler(), param.RunPath(id(20))+"/again"
		page := accesstest.Ask(handler, http.MethodGet, address, roleToken(test.role)).Body.String()
		const denied = "To run it again, you need the permission to view them."
		refused := test.want == http.StatusForbidden
		if strings.Contains(page, denied) != refused || (formAction(page) == "") != refused {
			t.Errorf("%s, params %s: got a form: %v, want %v: %s", test.role, test.params,
				formAction(page) != "", !refused, page)
		}
		if shown := test.role == "trigger"; strings.Contains(page, secret) != shown {
			t.Errorf("%s: the page has the params: %v, want %v", test.role, !shown, shown)
		}
		reply := accesstest.Ask(handler, http.MethodPost, address, roleToken(test.role),
			accesstest.WithForm(sent()))
		if reply.Code != test.want || (len(c.params) == 0) != refused {
			t.Errorf("%s, params %s: got %d and %d new runs, want %d", test.role, test.params,
				reply.Code, len(c.params), test.want)
		}
		if body := reply.Body.String(); strings.Contains(body, secret) {
			t.Errorf("%s: the answer has the params: %s", test.role, body)
		}
	}
}

// authorizerFunc is a function as an authorizer.
type authorizerFunc func(permission.Identity, permission.Permission, permission.Target) error

func (f authorizerFunc) Authorize(_ context.Context, identity permission.Identity,
	p permission.Permission, t permission.Target) error {
	return f(identity, p, t)
}

// TestAuthorizerOfTheProgram checks that an embedding program can decide on permissions.
func TestAuthorizerOfTheProgram(t *testing.T) {
	o, _ := limitedOptions(t)
	broken := false
	o.Authorizer = authorizerFunc(func(identity permission.Identity, p permission.Permission,
		target permission.Target) error {
		switch {
		case broken:
			return errors.New("directory is down")
		case identity.Name == "viewer" && identity.Proof == "token" && p == permission.Trigger &&
			target == (permission.Target{Kind: permission.Job, Name: "rollup-sales",
				Group: "sales"}):
			return nil
		}
		return &permission.DeniedError{Identity: identity, Permission: p, Target: target}
	})
	handler := newServer(t, o).Handler()
	for path, want := range map[string]int{"/api/v1/jobs/rollup-sales/trigger": 200,
		"/api/v1/jobs/sync-vendors/trigger": 403, "/api/v1/pause": 403} {
		if reply := post(handler, path, "", roleToken("viewer")); reply.Code != want {
			t.Errorf("%s: got %d %s, want %d", path, reply.Code, reply.Body, want)
		}
	}
	if reply := post(handler, "/api/v1/pause", "", roleToken("operator")); reply.Code != 403 {
		t.Errorf("the role decided: %d", reply.Code)
	}
	broken = true
	if reply := post(handler, "/api/v1/pause", "", roleToken("viewer")); reply.Code != 503 {
		t.Errorf("without an answer of the authorizer: got %d %s", reply.Code, reply.Body)
	}
}
