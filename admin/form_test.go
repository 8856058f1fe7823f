package admin

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestInvalidForms checks that an invalid form is refused before it changes anything.
func TestInvalidForms(t *testing.T) {
	server, c := acting(t)
	handler := server.Handler()
	long := sent("params", strings.Repeat(" ", 70_000))
	for _, f := range []struct {
		path, body string
		status     int
		text       string
	}{
		{"/pause", "", 400, "key is missing: reload the page of the form"},
		{"/pause", "key=", 400, "key is missing: reload the page of the form"},
		{"/pause", "key=a&key=b", 400, "key is given 2 times, expected once"},
		{"/pause", "key=a&raeson=x", 400,
			`field &#34;raeson&#34; is unknown, expected some of key, reason`},
		{"/pause", "key=a;b", 400, "The form can&#39;t be read"},
		{"/pause?x=1", sent().Encode(), 400, `parameter &#34;x&#34; is unknown`},
		{"/pause", url.Values{"key": {strings.Repeat("k", 201)}}.Encode(), 400,
			"key: found 201 bytes, expected at most 200"},
		{"/pause", url.Values{"key": {"a"}, "reason": {strings.Repeat("é", 251)}}.Encode(), 400,
			"reason: found 502 bytes, expected at most 500"},
		{"/jobs/rollup-sales/trigger", long.Encode(), 413,
			"The request has more than 65536 bytes."},
		{"/runs/42/cancel", sent().Encode(), 400, "id is &#34;42&#34;"},
		{"/replicas/one/drain", sent().Encode(), 400, "session is &#34;one&#34;"},
		{"/locks/release?resource=public%2Forders&holder=me", sent("token", "1810").Encode(), 400,
			"holder is &#34;me&#34;"},
		{"/locks/release", sent("token", "1810").Encode(), 400, "resource is missing"},
		{locks.ReleasePath("public/orders", 1810), sent().Encode(), 400,
			"token is 0, expected that of the holder"},
		{"/jobs/rollup-sales/change",
			sent("version", "1", "job", `{"name": "rollup-sales", "handler": "work"}`).Encode(),
			409, "job comes from the configuration file"},
		{"/jobs/added/remove", sent("version", "none").Encode(), 400, "version is &#34;none&#34;"},
	} {
		reply := post(handler, f.path, f.body)
		if reply.Code != f.status || !strings.Contains(reply.Body.String(), f.text) {
			t.Errorf("%s %.60s: %d, lacks %q:\n%s", f.path, f.body, reply.Code, f.text, reply.Body)
		}
	}
	json := post(handler, "/pause", `{"key": "a"}`,
		accesstest.WithHeader("Content-Type", "application/json"))
	elsewhere := post(handler, "/pause", sent().Encode(),
		accesstest.WithHeader("Sec-Fetch-Site", "cross-site"))
	if json.Code != http.StatusBadRequest || elsewhere.Code != http.StatusForbidden {
		t.Errorf("JSON %d, from another site %d", json.Code, elsewhere.Code)
	}
	if len(c.audit) != 0 {
		t.Errorf("%d acts were done", len(c.audit))
	}
}

// TestNameOfAnAddedJobIsFixed checks that a form cannot change the name of an added job.
func TestNameOfAnAddedJobIsFixed(t *testing.T) {
	o, c := withControl(contention())
	handler := newServer(t, o).Handler()
	for _, name := range []string{"added", "other"} {
		if reply := post(handler, "/add",
			sent("job", `{"name": "`+name+`", "handler": "work"}`).
				Encode()); reply.Code != http.StatusSeeOther {
			t.Fatalf("got %d %s, want 303", reply.Code, reply.Body)
		}
	}
	reply := post(handler, "/jobs/added/change",
		sent("version", "1", "job", `{"name": "other", "handler": "work"}`).Encode())
	if reply.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(reply.Body.String(), "the name of a job cannot be changed") {
		t.Errorf("got %d %s, want 422 and that the name cannot be changed", reply.Code, reply.Body)
	}
	for _, spec := range c.specs {
		if spec.Version != 1 {
			t.Errorf("%s was changed", spec.Job)
		}
	}
}

// TestFormsTakeLargeJobs checks that the forms take any job of up to 64 KiB, although a browser
// sends most characters in a longer form.
func TestFormsTakeLargeJobs(t *testing.T) {
	o, _ := withControl(contention())
	handler := newServer(t, o).Handler()
	const begin, end = `{"name": "added", "handler": "work", "description": "`, `"}`
	for i, path := range []string{"/add", "/jobs/added/change", "/jobs/added/change"} {
		filler := []string{"x", "\u00e9", "\r\n"}[i] // browsers send line breaks as CRLF
		job, space := begin+end, 64<<10-len(begin+end)
		if fill := strings.Repeat(filler, space/len(strings.TrimPrefix(filler, "\r"))); i < 2 {
			job = begin + fill + end
		} else {
			job += fill
		}
		form := sent("job", job, "version", strconv.Itoa(i))
		if reply := post(handler, path, form.Encode()); reply.Code != http.StatusSeeOther {
			t.Errorf("%s with %q: got %d %s, want 303", path, filler, reply.Code, reply.Body)
		}
	}
}

// TestFormForAnotherActionHasAnotherKey checks that a form that is shown again keeps its
// idempotency key if only a field was wrong, and gets a new key if the action differs.
func TestFormForAnotherActionHasAnotherKey(t *testing.T) {
	server, _ := acting(t)
	handler := server.Handler()
	for _, f := range []struct {
		path    string
		form    url.Values
		renewed bool
	}{
		{"/jobs/rollup-sales/trigger", sent("params", `{"row": 1}`), false},
		{locks.ReleasePath("public/orders", 1700), sent("token", "1700"), true},
	} {
		body := post(handler, f.path, f.form.Encode()).Body.String()
		if current := strings.Contains(body,
			`name="key" value="`+f.form.Get("key")+`"`); current == f.renewed {
			t.Errorf("%s: the key is kept: %v", f.path, current)
		}
	}
}

// TestJobHasAPageBeforeReplicasKnowIt checks that the redirect after adding a job leads to a page
// of that job.
func TestJobHasAPageBeforeReplicasKnowIt(t *testing.T) {
	server, _ := acting(t)
	handler := server.Handler()
	reply := post(handler, "/add", sent("job", `{"name": "added", "handler": "work"}`).Encode())
	page := get(t, handler, reply.Header().Get("Location"))
	if page.Code != http.StatusOK ||
		!strings.Contains(page.Body.String(), "The job was just added.") {
		t.Errorf("got %d %s, want 200 and that the job was just added", page.Code, page.Body)
	}
	if detail := answered[JobDetail](t, get(t, handler, "/api/v1/jobs/added"),
		200); !detail.Pending || detail.Source != storage.FromStore {
		t.Errorf("got job %+v, want it pending and from the store", detail)
	}
}

// TestViewersSeeNoActions checks that pages offer viewers no actions.
func TestViewersSeeNoActions(t *testing.T) {
	o, _ := withControl(guardedOptions(t))
	handler := newServer(t, o).Handler()
	vera, anna := accesstest.WithCookie(accesstest.CookieOf(t, handler, "vera", "staple")),
		accesstest.WithCookie(accesstest.CookieOf(t, handler, "anna", "correct horse"))
	for _, path := range []string{"/", "/jobs", "/jobs/rollup-sales", "/runs",
		param.RunPath(id(10)), "/replicas", "/webhooks", "/locks"} {
		offered := func(who func(*http.Request)) bool {
			body := accesstest.Ask(handler, http.MethodGet, path, who).Body.String()
			for _, action := range []string{"/trigger", "/pause", "/cancel", "/again",
				"/locks/release", "/drain", `"/add"`, "/bulk/", `class="pick"`} {
				if strings.Contains(body, action) {
					return true
				}
			}
			return false
		}
		if offered(vera) || !offered(anna) {
			t.Errorf("%s: acts are offered to a viewer: %v, to an operator: %v", path,
				offered(vera), offered(anna))
		}
	}
}

// TestFailedDeliveriesArePaged follows the list's links forward and back.
func TestFailedDeliveriesArePaged(t *testing.T) {
	server, _ := acting(t)
	handler := server.Handler()
	first := get(t, handler, "/api/v1/webhooks?limit=2")
	if list := answered[[]storage.Undelivered](t, first, 200); len(list) != 2 ||
		list[0].Webhook != "pager" {
		t.Fatalf("got deliveries %+v, want two, the first of webhook pager", list)
	}
	next, _, _ := strings.Cut(strings.TrimPrefix(first.Header().Get("Link"), "<"), ">")
	if list := answered[[]storage.Undelivered](t, get(t, handler, next), 200); len(list) != 1 ||
		list[0].Job != "report/weekly" {
		t.Errorf("%s: got deliveries %+v, want one of job report/weekly", next, list)
	}
	if list := answered[[]storage.Undelivered](t, get(t, handler, "/api/v1/webhooks?webhook=chat"),
		200); len(list) != 1 {
		t.Errorf("got deliveries %+v, want one of webhook chat", list)
	}
	for _, query := range []string{"?limit=0", "?run=x", "?given_up=no", "?before=x",
		"?hook=chat"} {
		answered[refusedAction](t, get(t, handler, "/api/v1/webhooks"+query), 400)
	}
	again := answered[storage.Undelivered](t,
		post(handler, "/api/v1/webhooks/"+id(9101).String()+"/again", `{"reason": "chat is back"}`),
		200)
	if again.Webhook != "chat" {
		t.Errorf("got delivery %+v, want it of webhook chat", again)
	}
	answered[refusedAction](t, post(handler, "/api/v1/webhooks/"+id(1).String()+"/again", ""), 404)
}

// TestStalePagesHaveNoActions checks that cached pages offer no actions, because actions need the
// store.
func TestStalePagesHaveNoActions(t *testing.T) {
	links := regexp.MustCompile(
		`(href|formaction)="[^"]*/(pause|resume|trigger|cancel|release|drain|again)[?"]`)
	for _, path := range []string{"/", "/locks", "/jobs", "/jobs/rollup-sales", "/runs",
		"/runs/" + id(10).String(), "/replicas"} {
		o := actionOptions(contention())
		handler := newServer(t, o).Handler()
		if body := get(t, handler, path).Body.String(); !links.MatchString(body) {
			t.Errorf("%s offers nothing", path)
		}
		o.Store.(*history).err = down().Store.(*history).err
		reply := get(t, handler, path)
		if reply.Code != http.StatusServiceUnavailable ||
			!strings.Contains(reply.Body.String(), `class="stale"`) {
			t.Errorf("%s: %d, want what was seen last", path, reply.Code)
		}
		if offered := links.FindString(reply.Body.String()); offered != "" {
			t.Errorf("%s is stale, and offers %s", path, offered)
		}
	}
}

// TestDrainOfADeadReplica checks that the page of a drain says why there is nothing to drain, for a
// replica that ended and for one whose session has only expired.
func TestDrainOfADeadReplica(t *testing.T) {
	o := actionOptions(contention())
	h := o.Store.(*history)
	handler := newServer(t, o).Handler()
	replica := &h.replicas[len(h.replicas)-1]
	ended, expired := noon.Add(-time.Minute), noon.Add(-time.Hour)
	replica.LastHeartbeat, replica.ExpiresAt = expired.Add(-15*time.Second), expired
	for want, at := range map[string]*time.Time{"This session ended": &ended,
		"This session expired": nil} {
		replica.EndedAt = at
		page := flat(get(t, handler, "/replicas/"+replica.Session.String()+"/drain").Body.String())
		if !strings.Contains(page, want) || strings.Contains(page, "What happens") ||
			strings.Contains(page, ">Drain replica</button>") {
			t.Errorf("the page lacks %q, or offers a drain", want)
		}
	}
}

// TestRefusalIsASentence checks the text of the page for a user without the permission.
func TestRefusalIsASentence(t *testing.T) {
	o, _ := limitedOptions(t)
	reply := accesstest.Ask(newServer(t, o).Handler(), http.MethodGet, "/audit", roleToken("sales"))
	const want = ">Permission denied: the role sales does not have the permission view on " +
		"everything.<"
	if reply.Code != http.StatusForbidden || !strings.Contains(flat(reply.Body.String()), want) {
		t.Errorf("%d: the page lacks the reason as a sentence", reply.Code)
	}
}

// TestCancelledWaitingRun checks what the page says about a run that was cancelled while it waited:
// for its start, or for its second attempt.
func TestCancelledWaitingRun(t *testing.T) {
	for want, change := range map[string]func(*storage.Record){
		"The run of load was cancelled before its start.": func(*storage.Record) {},
		"The run of load was cancelled before attempt 2.": func(r *storage.Record) {
			r.StartedAt, r.Attempt = new(ago(time.Hour)), 2
			r.RetryWaits = []storage.RetryWait{{From: ago(time.Minute)}}
		},
	} {
		h := &history{now: noon, jobs: []storage.JobView{job("load", "@daily")}}
		run := running(1, "load", "replica-1", time.Hour)
		run.State, run.StartedAt, run.Attempt = jobs.Waiting, nil, 0
		change(&run)
		h.runs = []storage.Record{run}
		o, _ := withControl(options(h))
		handler := newServer(t, o).Handler()
		page := param.RunPath(run.ID)
		reply := post(handler, page+"/cancel", sent().Encode())
		if got := noticeOf(t, handler, reply); got != page+" "+want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
