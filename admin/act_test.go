package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/admin/internal/access"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// post sends a body from loopback as a program does, without the headers of a browser.
func post(handler http.Handler, path, body string,
	change ...func(*http.Request)) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	request.Host = "localhost:8080"
	request.Header.Set(access.ActionHeader, "1")
	if !access.ForMachines(request) {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, c := range change {
		c(request)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

// answered decodes a JSON response of the API.
func answered[T any](t *testing.T, reply *httptest.ResponseRecorder, status int) T {
	t.Helper()
	var value T
	if reply.Code != status {
		t.Fatalf("%d %s, want %d", reply.Code, reply.Body, status)
	}
	if err := json.Unmarshal(reply.Body.Bytes(), &value); err != nil {
		t.Fatalf("%v in %s", err, reply.Body)
	}
	return value
}

const addedJob = `{"job": {"name": "added", "handler": "work"}}`

func TestActionsAreAuditedWithTheirActor(t *testing.T) {
	server, c := acting(t)
	handler := server.Handler()
	run, session := id(10).String(), id(9001).String()
	for _, a := range []struct{ path, body, action, target string }{
		{"/api/v1/jobs/rollup-sales/pause", `{"reason": "night"}`, "pause", "job rollup-sales"},
		{"/api/v1/jobs/report%2Fweekly/pause", `{"reason": "night"}`, "pause", "job report/weekly"},
		{"/api/v1/jobs/rollup-sales/resume", `{"reason": "night"}`, "resume", "job rollup-sales"},
		{"/api/v1/groups/loads/pause", `{"reason": "night"}`, "pause", "group loads"},
		{"/api/v1/groups/loads/resume", `{"reason": "night"}`, "resume", "group loads"},
		{"/api/v1/pause", `{"reason": "night"}`, "pause", "everything"},
		{"/api/v1/resume", `{"reason": "night"}`, "resume", "everything"},
		{"/api/v1/jobs/rollup-sales/trigger", `{"reason": "night", "params": {"rows": 3}}`,
			"trigger", "job rollup-sales"},
		{"/api/v1/runs/" + run + "/cancel", `{"reason": "night"}`, "cancel", "run " + run},
		{"/api/v1/locks/release", `{"reason": "night", "resource": "public/orders", "token": 1810}`,
			"release", "public/orders"},
		{"/api/v1/replicas/" + session + "/drain", `{"reason": "night"}`, "drain",
			"replica replica-1"},
		{"/api/v1/replicas/" + session + "/undrain", `{"reason": "night"}`, "undrain",
			"replica replica-1"},
		{"/api/v1/replicas/" + session + "/remove", `{"reason": "night"}`, "remove_replica",
			"replica replica-1"},
		{"/api/v1/jobs", `{"reason": "night", "job": {"name": "added", "handler": "work"}}`,
			"put_job", "job added"},
		{"/api/v1/jobs",
			`{"reason": "night", "job": {"name": "added", "handler": "work"}, "version": 1}`,
			"put_job", "job added"},
		{"/api/v1/jobs/added/remove", `{"reason": "night"}`, "remove_job", "job added"},
	} {
		before := len(c.audit)
		reply := post(handler, a.path, a.body)
		if reply.Code != http.StatusOK || !json.Valid(reply.Body.Bytes()) ||
			len(c.audit) != before+1 {
			t.Errorf("%s: %d %s, %d lines", a.path, reply.Code, reply.Body, len(c.audit)-before)
			continue
		}
		want := storage.Audited{ID: c.audit[0].ID, At: noon, Actor: "anonymous", Via: "api",
			Proof: "none", Client: "192.0.2.1", RequestID: reply.Header().Get("X-Request-Id"),
			Replica: "replica-1", Action: a.action, Target: a.target, Reason: "night"}
		if diff := cmp.Diff(want, c.audit[0]); diff != "" {
			t.Errorf("%s: entry of the audit log differs (-want +got):\n%s", a.path, diff)
		}
	}
	if string(c.params["rollup-sales drawn 0"]) != `{"rows": 3}` || c.drained[id(9001)] {
		t.Errorf("params %s, drained %v", c.params, c.drained)
	}
}

func TestActorIsTheSignedInUser(t *testing.T) {
	o, c := withControl(guardedOptions(t))
	handler := newServer(t, o).Handler()
	for _, proof := range []func(*http.Request){
		accesstest.WithCookie(accesstest.CookieOf(t, handler, "anna", "correct horse")),
		accesstest.WithHeader("Authorization", "Bearer "+accesstest.DeployToken)} {
		if reply := accesstest.Ask(handler, http.MethodPost, "/api/v1/pause",
			proof); reply.Code != http.StatusOK {
			t.Fatalf("got %d %s, want 200", reply.Code, reply.Body)
		}
		if reply := accesstest.Ask(handler, http.MethodPost, "/api/v1/resume",
			proof); reply.Code != http.StatusOK {
			t.Fatalf("got %d %s, want 200", reply.Code, reply.Body)
		}
	}
	if len(c.actions) != 4 || c.actions[0].Actor != "anna" || c.actions[2].Actor != "deploy" {
		t.Errorf("acts: %+v", c.actions)
	}
}

func TestRefusedActions(t *testing.T) {
	server, c := acting(t)
	handler := server.Handler()
	answered[storage.Pause](t, post(handler, "/api/v1/jobs/merge-events/pause", ""), 200)
	answered[storage.Spec](t, post(handler, "/api/v1/jobs", addedJob), 200)
	before := len(c.audit)
	long := strings.Repeat("x", 501)
	for _, r := range []struct {
		path, body string
		status     int
		text       string
	}{
		{"/api/v1/pause", `{"reason": 3}`, 400, `reason is 3, expected text`},
		{"/api/v1/jobs/rollup-sales/trigger", `{"wait": "soon"}`, 400,
			`wait: found "soon", expected a duration such as 0 or 10m`},
		{"/api/v1/jobs/rollup-sales/trigger", `{"wait": 10}`, 400, `wait is 10, expected text`},
		{"/api/v1/jobs/rollup-sales/trigger", `{"wait": "-1s"}`, 400,
			`wait: found -1s, expected 0, or 1s and more`},
		{"/api/v1/jobs/rollup-sales/trigger", `{"delay": "soon"}`, 400,
			`delay: found "soon", expected a duration such as 10m or 36h`},
		{"/api/v1/jobs/rollup-sales/trigger", `{"at": "soon"}`, 400,
			`at: found "soon", expected a time such as 2026-03-14T02:30:00Z`},
		{"/api/v1/jobs/rollup-sales/trigger",
			`{"at": "2026-03-15T02:30:00Z", "delay": "1h"}`, 400,
			`delay: found a time and a delay, expected one of them`},
		{"/api/v1/pause", `{"raeson": "x"}`, 400,
			`field "raeson" is unknown, expected some of reason`},
		{"/api/v1/pause", `{"Reason": "x"}`, 400,
			`field "Reason" is unknown, expected some of reason`},
		{"/api/v1/pause", `[]`, 400, `The body can't be read, expected an object in JSON`},
		{"/api/v1/pause", `null`, 400, `The body can't be read, expected an object in JSON`},
		{"/api/v1/pause", `{} {}`, 400,
			`The body can't be read, expected an object in JSON: invalid character '{' after top-level value at byte 4`},
		{"/api/v1/pause", `{"reason": "` + long + `"}`, 400,
			`reason: found 501 bytes, expected at most 500`},
		{"/api/v1/pause?x=1", ``, 400, `parameter "x" is unknown: this address takes none`},
		{"/api/v1/jobs/nobody/pause", ``, 404, `job nobody: not found`},
		{"/api/v1/jobs/rollup-sales/resume", ``, 404, `job rollup-sales: not found`},
		{"/api/v1/jobs/nobody/trigger", ``, 404, `job nobody: not found`},
		{"/api/v1/jobs/rollup-sales/trigger", `{"params": {"rows": "many", "colour": 1}}`, 422,
			`params: colour: unknown key "colour", expected one of rows; rows: found a string, expected a whole number`},
		{"/api/v1/jobs/added/trigger", `{"params": {"rows": 1}}`, 422,
			`params: rows: a trigger cannot override "rows", expected none: the job has no overridable params`},
		{"/api/v1/jobs/rollup-sales/trigger", `{"params": [1]}`, 400, `params: expected an object`},
		{"/api/v1/jobs/added/trigger", `{"params": {"rows": "many"}}`, 422,
			`params: rows: found a string, expected a whole number`},
		{"/api/v1/jobs/sync-vendors/trigger", `{"params": {"rows": 1}}`, 404,
			`params of job "sync-vendors": not found in this configuration; use a replica that has the job`},
		{"/api/v1/jobs/merge-events/trigger", ``, 409,
			`job merge-events is paused since 2026-03-14T03:12:15Z by anonymous`},
		{"/api/v1/runs/42/cancel", ``, 400, `id is "42", expected a run's id, a UUID`},
		{"/api/v1/runs/" + id(777).String() + "/cancel", ``, 404,
			"run " + id(777).String() + ": not found"},
		{"/api/v1/runs/" + id(31).String() + "/cancel", ``, 409,
			"run " + id(31).String() + ": it has ended as failed: conflict"},
		{"/api/v1/locks/release", ``, 400,
			`resource is "", expected a resource as the list of locks has it`},
		{"/api/v1/locks/release", `{"resource": "public/orders"}`, 400,
			`token is 0, expected that of the holder as the list of locks has it`},
		{"/api/v1/locks/release", `{"resource": "public/orders", "token": "1810"}`, 400,
			`token is "1810", expected a whole number`},
		{"/api/v1/locks/release", `{"resource": "public/nothing", "token": 1810}`, 404,
			`public/nothing: not found`},
		{"/api/v1/locks/release", `{"resource": "public/orders", "token": 1}`, 409,
			`public/orders: another holds it now: conflict`},
		{"/api/v1/replicas/one/drain", ``, 400,
			`session is "one", expected a session's id, a UUID`},
		{"/api/v1/replicas/" + id(777).String() + "/drain", ``, 404,
			"session " + id(777).String() + ": not found"},
		{"/api/v1/jobs", ``, 400,
			`job is missing, expected an object: the job as a configuration has it`},
		{"/api/v1/jobs", `{"job": {"handler": "work"}}`, 422,
			`job: name: found nothing, expected the job's name`},
		{"/api/v1/jobs", `{"job": {"name": "x", "handler": "wrok"}}`, 422,
			`job: unknown handler "wrok": registered are ["work"]`},
		{"/api/v1/jobs", `{"job": {"name": "x", "handler": "work"}, "version": -1}`, 400,
			`version is -1, expected that of the job that is changed, or 0 for a new one`},
		{"/api/v1/jobs", addedJob, 409, `job added: it has version 1: conflict`},
		{"/api/v1/jobs", `{"job": {"name": "rollup-sales", "handler": "work"}}`, 409,
			`rollup-sales: job comes from the configuration file`},
		{"/api/v1/jobs/rollup-sales/remove", ``, 409,
			`rollup-sales: job comes from the configuration file`},
		{"/api/v1/jobs/nobody/remove", ``, 404, `added job nobody: not found`},
		{"/api/v1/jobs/added/remove", `{"version": 7}`, 409, `job added: conflict`},
		{"/api/v1/pause", `{"reason": "` + strings.Repeat("x", 70_000) + `"}`, 413,
			`The request has more than 65536 bytes.`},
	} {
		refused := answered[refusedAction](t, post(handler, r.path, r.body), r.status)
		if refused.Error != r.text {
			t.Errorf("%s %.80s: %q, want %q", r.path, r.body, refused.Error, r.text)
		}
	}
	if len(c.audit) != before {
		t.Errorf("%d refused acts are in the audit log", len(c.audit)-before)
	}
}

func TestRefusalsInJSONHaveDetails(t *testing.T) {
	server, c := acting(t)
	handler := server.Handler()
	answered[storage.Pause](t, post(handler, "/api/v1/pause", `{"reason": "night"}`), 200)
	paused := answered[refusedAction](t, post(handler, "/api/v1/jobs/rollup-sales/trigger", ""),
		409)
	if paused.Paused == nil || paused.Paused.By != "anonymous" || paused.Paused.Reason != "night" ||
		paused.Option["even_paused"] != true {
		t.Errorf("got the refusal %+v, want the pause of anonymous and the option even_paused",
			paused)
	}
	answered[storage.Record](t, post(handler, "/api/v1/jobs/rollup-sales/trigger",
		`{"even_paused": true}`), 200)
	wrong := answered[refusedAction](t,
		post(handler, "/api/v1/jobs/rollup-sales/trigger", `{"params": {"row": 1}}`), 422)
	if diff := cmp.Diff([]operations.SpecProblem{{Key: "row",
		Message: `unknown key "row", expected one of rows`}}, wrong.Problems); diff != "" {
		t.Errorf("problems differ (-want +got):\n%s", diff)
	}
	c.inTheWay = &storage.RunBlocker{
		Blocker: jobs.Blocker{Resource: "table:public/orders",
			Holder: locking.Owner{Job: "import", Run: "r",
				Replica: "replica-2"}}, Reason: reasons.LockHeld,
	}
	want := *c.inTheWay
	want.Resource = "public/orders"
	const even = `"even_paused": true`
	busy := answered[refusedAction](t,
		post(handler, "/api/v1/jobs/rollup-sales/trigger", `{"wait": "0", `+even+`}`), 409)
	if diff := cmp.Diff(&want, busy.WaitsFor); diff != "" ||
		!strings.Contains(busy.Error, "job rollup-sales cannot run now (lock_held): ") {
		t.Errorf("got the error %q, want lock_held; the blocker differs: %s", busy.Error, diff)
	}
	waits := answered[storage.Triggered](t,
		post(handler, "/api/v1/jobs/rollup-sales/trigger", `{"wait": "10m", `+even+`}`), 200)
	if diff := cmp.Diff(&want, waits.WaitsFor); diff != "" || !waits.Created {
		t.Errorf("created %t, waits for %s", waits.Created, diff)
	}
	for body, at := range map[string]time.Time{
		`{"at": "2026-03-15T03:30:00.5+01:00", `: time.Date(2026, 3, 15, 2, 30, 0, 5e8, time.UTC),
		`{"delay": "90m", `:                      noon.Add(90 * time.Minute)} {
		later := answered[storage.Triggered](t,
			post(handler, "/api/v1/jobs/rollup-sales/trigger", body+even+`}`), 200)
		if !later.ScheduledAt.Equal(at) || !later.WaitSince.Equal(at) {
			t.Errorf("%s: got a start at %s, want %s", body, later.WaitSince, at)
		}
	}
	missing := answered[refusedAction](t, post(handler, "/api/v1/jobs", `{"job": {}}`), 422)
	if diff := cmp.Diff([]operations.SpecProblem{
		{Key: "name", Message: "found nothing, expected the job's name"}},
		missing.Problems); diff != "" {
		t.Errorf("problems differ (-want +got):\n%s", diff)
	}
	stale := answered[refusedAction](t,
		post(handler, "/api/v1/locks/release", `{"resource": "public/orders", "token": 1}`), 409)
	if len(stale.Holders) != 1 || stale.Holders[0].Token != 1810 ||
		stale.Holders[0].Holder.Job != "rollup-sales" {
		t.Errorf("holders: %+v", stale.Holders)
	}
	c.inside = true
	inside := answered[refusedAction](t,
		post(handler, "/api/v1/locks/release", `{"resource": "public/orders", "token": 1810}`), 409)
	if inside.Option["end_transaction"] != true || len(c.ended) != 0 {
		t.Errorf("got the refusal %+v and %d ended transactions, want the option "+
			"end_transaction and 0", inside, len(c.ended))
	}
	gone := answered[Released](t,
		post(handler, "/api/v1/locks/release",
			`{"resource": "public/orders", "token": 1810, "end_transaction": true}`), 200)
	if gone.Token != 1810 || gone.Holder.Job != "rollup-sales" || len(gone.Resources) != 1 ||
		!c.ended[0].EndTransaction {
		t.Errorf("released %+v", gone)
	}
}

// TestRefusalsHaveCodes checks the codes by which programs recognise refusals.
func TestRefusalsHaveCodes(t *testing.T) {
	server, c := acting(t)
	handler := server.Handler()
	answered[storage.Pause](t, post(handler, "/api/v1/jobs/merge-events/pause", ""), 200)
	answered[storage.Spec](t, post(handler, "/api/v1/jobs", addedJob), 200)
	for _, r := range []struct {
		path, body string
		status     int
		want       Refusal
	}{
		{"/api/v1/pause", `{"reason": 3}`, 400, RefusedInput},
		{"/api/v1/pause", `{"reason": "` + strings.Repeat("x", 70_000) + `"}`, 413, RefusedInput},
		{"/api/v1/jobs/nobody/pause", ``, 404, RefusedNotFound},
		{"/api/v1/jobs/added/trigger", `{"params": {"rows": 1}}`, 422, RefusedParams},
		{"/api/v1/jobs", `{"job": {"handler": "work"}}`, 422, RefusedJob},
		{"/api/v1/jobs/merge-events/trigger", ``, 409, RefusedPaused},
		{"/api/v1/locks/release", `{"resource": "public/orders", "token": 1}`, 409,
			RefusedConflict},
		{"/api/v1/jobs/rollup-sales/remove", ``, 409, RefusedFromConfig},
		{"/api/v1/jobs", addedJob, 409, RefusedConflict},
	} {
		if refused := answered[refusedAction](t, post(handler, r.path, r.body),
			r.status); refused.Code != r.want {
			t.Errorf("%s %.80s: got the code %q, want %q", r.path, r.body, refused.Code, r.want)
		}
	}
	c.inside = true
	inside := answered[refusedAction](t,
		post(handler, "/api/v1/locks/release", `{"resource": "public/orders", "token": 1810}`), 409)
	if inside.Code != RefusedInTransaction {
		t.Errorf("got the code %q, want %q", inside.Code, RefusedInTransaction)
	}
	for err, want := range map[error]Refusal{storage.ErrHasDependents: RefusedDependents,
		storage.ErrKeyUsed: RefusedKeyUsed, errNoActions: RefusedUnsupported,
		&storage.BusyError{}: RefusedBusy, storage.ErrBusy: RefusedBusy,
		&permission.DeniedError{}: RefusedPermission,
		storage.ErrUnavailable:    ""} {
		if _, refused := refusedActionOf(err); refused.Code != want {
			t.Errorf("%v: got the code %q, want %q", err, refused.Code, want)
		}
	}
}

// TestReloadByAPI has the replica reload, with the actor of the request.
func TestReloadByAPI(t *testing.T) {
	server, c := acting(t)
	handler := server.Handler()
	done := answered[Reloaded](t, post(handler, "/api/v1/reload", `{"reason": "night"}`,
		accesstest.WithHeader("Idempotency-Key", "k")), 200)
	want := Reloaded{Replica: "replica-1", Changed: []string{"rollup-sales"}, Added: []string{},
		Removed: []string{}, Restart: []string{}}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Errorf("the answer differs (-want +got):\n%s", diff)
	}
	if len(c.reloads) != 1 || c.reloads[0].Actor != anonymous || c.reloads[0].Reason != "night" ||
		c.reloads[0].Via != "api" || c.reloads[0].Key != "" {
		t.Errorf("got the reloads %+v, want one of anonymous", c.reloads)
	}
	c.badConfig = &ReloadError{Mistakes: 3}
	refused := answered[refusedAction](t, post(handler, "/api/v1/reload", ""), 422)
	if refused.Code != RefusedConfig || !strings.Contains(refused.Error, "found 3 mistakes") {
		t.Errorf("got %+v, want the number of mistakes", refused)
	}
	answered[refusedAction](t, post(handler, "/api/v1/reload",
		`{"reason": "`+strings.Repeat("x", 501)+`"}`), 400)
	o := server.options
	o.Reload = nil
	if refused := answered[refusedAction](t, post(newServer(t, o).Handler(), "/api/v1/reload", ""),
		501); refused.Code != RefusedUnsupported {
		t.Errorf("got %+v, want unsupported", refused)
	}
}

// TestAddedJobAsText adds a job as text, whose mistakes have positions, and replaces it without its
// version.
func TestAddedJobAsText(t *testing.T) {
	server, _ := acting(t)
	handler := server.Handler()
	const path, text = "/api/v1/jobs", `"text": "{\"name\": \"added\", \"handler\": \"work\"}"`
	answered[storage.Spec](t, post(handler, path, `{`+text+`}`), 200)
	answered[refusedAction](t, post(handler, path, `{`+text+`}`), 409)
	if spec := answered[storage.Spec](t, post(handler, path, `{`+text+`, "replace": true}`),
		200); spec.Version != 2 {
		t.Errorf("got %+v, want version 2", spec)
	}
	wrong := answered[refusedAction](t, post(handler, path, `{"text": "{}"}`), 422)
	if len(wrong.Problems) != 1 || wrong.Problems[0].Line != 3 {
		t.Errorf("got %+v, want a problem with its line", wrong)
	}
	for body, want := range map[string]string{
		`{` + text + `, "job": {}}`:                     "job and text are given, expected one of them",
		`{` + text + `, "version": 1, "replace": true}`: "version and replace are given, expected one of them",
	} {
		if refused := answered[refusedAction](t, post(handler, path, body),
			400); refused.Error != want {
			t.Errorf("%s: got %q, want %q", body, refused.Error, want)
		}
	}
}

func TestActionWithOneKeyRunsOnce(t *testing.T) {
	server, c := acting(t)
	handler := server.Handler()
	key := accesstest.WithHeader("Idempotency-Key", "click-1")
	first := answered[storage.Record](t,
		post(handler, "/api/v1/jobs/rollup-sales/trigger", "", key), 200)
	again := answered[storage.Record](t,
		post(handler, "/api/v1/jobs/rollup-sales/trigger", "", key), 200)
	if first.ID != again.ID || first.Key != "click-1" || len(c.runs) != 1 {
		t.Errorf("%s and %s of %d runs", first.ID, again.ID, len(c.runs))
	}
	answered[refusedAction](t, post(handler, "/api/v1/jobs/rollup-sales/trigger",
		`{"params": {"rows": 1}}`, key), 422)
	answered[storage.Pause](t, post(handler, "/api/v1/pause", "",
		accesstest.WithHeader("Idempotency-Key", "click-2")), 200)
	answered[refusedAction](t, post(handler, "/api/v1/resume", "",
		accesstest.WithHeader("Idempotency-Key", "click-2")), 422)
	answered[refusedAction](t, post(handler, "/api/v1/pause", "", key, key), 400)
	answered[refusedAction](t, post(handler, "/api/v1/pause", "",
		accesstest.WithHeader("Idempotency-Key", strings.Repeat("k", 201))), 400)
}

func TestActionsWithTheStoreDown(t *testing.T) {
	server, c := acting(t)
	handler := server.Handler()
	c.history.err = storage.ErrUnavailable
	for _, r := range server.routes() {
		if !r.isAction() || r.path == "/login" {
			continue
		}
		reply := send(handler, r.method, addressOf(server, r.path), nil)
		if r.method == http.MethodPost {
			reply = post(handler, addressOf(server, r.path), bodyOf(r.path))
		}
		if reply.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: got %d %s, want 503", r.path, reply.Code, reply.Body)
		}
	}
}

func TestPageWithoutOperationsRefusesActions(t *testing.T) {
	o := contention()
	o.Operations = nil
	server := newServer(t, o)
	for _, r := range server.routes() {
		if !r.isAction() || r.method != http.MethodPost {
			continue
		}
		if reply := post(server.Handler(), addressOf(server, r.path),
			bodyOf(r.path)); reply.Code != http.StatusNotImplemented {
			t.Errorf("%s: got %d %s, want 501", r.path, reply.Code, reply.Body)
		}
	}
}

func TestAuditIsPaged(t *testing.T) {
	server, _ := acting(t)
	handler := server.Handler()
	for range 3 {
		answered[storage.Pause](t, post(handler, "/api/v1/pause", ""), 200)
		answered[storage.Pause](t, post(handler, "/api/v1/resume", ""), 200)
	}
	var seen []string
	for path := "/api/v1/audit?limit=4"; path != ""; {
		reply := get(t, handler, path)
		for _, line := range answered[[]storage.Audited](t, reply, 200) {
			seen = append(seen, line.Action)
		}
		path, _, _ = strings.Cut(strings.TrimPrefix(reply.Header().Get("Link"), "<"), ">")
	}
	if got := strings.Join(seen, " "); got != "resume pause resume pause resume pause" {
		t.Errorf("audit: %s", got)
	}
	if lines := answered[[]storage.Audited](t,
		get(t, handler, "/api/v1/audit?action=pause&actor=anonymous&target=everything"),
		200); len(lines) != 3 {
		t.Errorf("%d pauses", len(lines))
	}
	position := param.EncodeCursor(noon, id(1))
	for _, path := range []string{"?limit=0", "?before=x", "?who=anna",
		"?before=2026-01-01T00:00:00Z", "?order=random", "?from=x", "?after=" + position,
		"?order=oldest&before=" + position} {
		answered[refusedAction](t, get(t, handler, "/api/v1/audit"+path), 400)
	}
}

func TestPausesAndAddedJobsAreShown(t *testing.T) {
	server, _ := acting(t)
	handler := server.Handler()
	if body := get(t, handler, "/api/v1/pauses").Body.String(); body != "[]\n" {
		t.Errorf("pauses: %s", body)
	}
	answered[storage.Pause](t, post(handler, "/api/v1/pause", ""), 200)
	if pauses := answered[[]storage.Pause](t, get(t, handler, "/api/v1/pauses"),
		200); len(pauses) != 1 || pauses[0].Target.Kind != storage.TargetAll {
		t.Errorf("pauses: %+v", pauses)
	}
	answered[refusedAction](t, get(t, handler, "/api/v1/jobs/added/spec"), 404)
	answered[storage.Spec](t, post(handler, "/api/v1/jobs", addedJob), 200)
	if spec := answered[storage.Spec](t, get(t, handler, "/api/v1/jobs/added/spec"),
		200); spec.Version != 1 || !json.Valid(spec.Text) {
		t.Errorf("spec: %+v", spec)
	}
}
