package admin

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// handler returns the server's handler. If the state has a form, each request to it sends that
// form.
func (g galleryState) handler(s *Server) http.Handler {
	handler := s.Handler()
	if g.sent == nil {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/static/") {
			r.Method, r.Body = http.MethodPost, io.NopCloser(strings.NewReader(g.sent.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}
		handler.ServeHTTP(w, r)
	})
}

// sent returns the values of a form from pairs of names and values.
func sent(pairs ...string) url.Values {
	form := url.Values{"key": {uuid.NewString()}, "reason": {"the vendor says that they are back"}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return form
}

// actionOptions returns options with a control in memory, after the changes.
func actionOptions(o Options, change ...func(*control)) Options {
	o, c := withControl(o)
	for _, f := range change {
		f(c)
	}
	return o
}

// paused pauses a target.
func paused(t storage.Target, reason string) func(*control) {
	return func(c *control) {
		p := storage.Pause{ID: id(500 + len(c.pauses)), Target: t,
			At: ago(2*time.Hour + 4*time.Minute), By: "anna", Reason: reason}
		c.pauses, c.history.pauses = append(c.pauses, p), append(c.history.pauses, p)
	}
}

// added adds a job at run time.
func added(c *control) {
	c.specs = append(c.specs, storage.Spec{
		Job: "sync-vendors", Version: 4, ChangedAt: ago(26 * time.Hour),
		ChangedBy: "olga@example.com",
		Text: json.RawMessage(
			`{"name":"sync-vendors","handler":"work","schedule":"every 20m between 06:00 and 22:00 on mon-fri","tables":["vendors"],"params":{"rows":250}}`),
	})
}

func inside(c *control) { c.inside = true }

// chained is contention with a run that is queued behind a waiting run. Both wait for rollup-sales.
func chained() Options {
	o := contention()
	h := o.Store.(*history)
	for i := range h.runs {
		if r := &h.runs[i]; r.ID == id(22) {
			rollup := running(10, "rollup-sales", "replica-1", 42*time.Minute)
			r.BlockedBy.Waiting = true
			r.BlockedBy.Root = jobs.Root{Resource: "public/orders", Holder: owner(rollup)}
		}
	}
	return o
}

// withDependents gives the store the jobs that depend on rollup-sales, because the page links to
// them.
func withDependents(o Options) Options {
	h := o.Store.(*history)
	edges, err := readDependencies(o.Table)(context.Background(), time.Time{})
	if err != nil {
		panic(err)
	}
	for _, name := range edges.Dependents("rollup-sales") {
		h.jobs = append(h.jobs, job(name, "0 3 * * *"))
	}
	return o
}

func storeDown(c *control) { c.history.err = down().Store.(*history).err }

// formStates are the states of the pages with forms.
func formStates() []galleryState {
	rollup, cancel := param.JobPath("rollup-sales"), param.RunPath(id(10))+"/cancel"
	drain := "/replicas/" + id(9001).String() + "/drain"
	group := storage.Target{Kind: storage.TargetGroup, Name: "reports"}
	unavailable, conflict, unprocessable := http.StatusServiceUnavailable, http.StatusConflict,
		http.StatusUnprocessableEntity
	lastOne := one()
	return []galleryState{
		{name: "trigger", options: actionOptions(contention()), path: rollup + "/trigger",
			has: []string{"Holdfast adds one run", "The new run waits for it",
				"2 runs of the job are active"}},
		{name: "trigger-paused", options: actionOptions(busy(),
			paused(group,
				"the quarter is being closed")), path: "/jobs/report%2Fweekly/trigger", has: []string{"The group <bdi>reports</bdi> is paused", `name="even_paused" value="yes" required`}},
		{name: "trigger-wrong-params", options: actionOptions(contention()), path: rollup + "/trigger",
			sent: sent("params", `{"rows": "many", "colour": 1}`), status: unprocessable,
			has: []string{"<strong>Not done:</strong>", `unknown key &#34;colour&#34;`,
				`aria-invalid="true"`, `&#34;many&#34;`, "the vendor says"}},
		{name: "trigger-no-json", options: actionOptions(contention()), path: rollup + "/trigger",
			sent: sent("params", `{rows: 3}`), status: http.StatusBadRequest,
			has: []string{"expected an object in JSON: invalid character", `{rows: 3}`}},
		{name: "trigger-refused-paused",
			options: actionOptions(contention(),
				paused(storage.Target{Kind: storage.TargetAll},
					"a failover is going on")), path: rollup + "/trigger", sent: sent(), status: conflict, has: []string{"everything is paused since", "tick the box below", `name="even_paused"`}},
		{name: "trigger-down", options: actionOptions(contention(), storeDown), path: rollup + "/trigger",
			sent: sent("params", `{"rows": 3}`), status: unavailable,
			has: []string{"Result unknown", "the action runs",
				`{&#34;rows&#34;: 3}`}},
		{name: "trigger-asked-down", options: actionOptions(contention(), storeDown),
			path: rollup + "/trigger", status: unavailable,
			has: []string{"No action is possible while the database does not answer."}},
		{name: "trigger-unknown", options: actionOptions(contention()), path: "/jobs/nobody/trigger",
			sent: sent(), status: http.StatusNotFound,
			has: []string{"job nobody: not found", "does not exist any more"}},
		{name: "again", options: actionOptions(story()), path: param.RunPath(id(303)) + "/again",
			has: []string{"The record of the run", "The new run has the params of this run.",
				"2019-01-01"}},
		{name: "again-not-ended", options: actionOptions(contention()), path: param.RunPath(id(10)) + "/again",
			has: []string{"The run has not ended"}},
		{name: "pause-job", options: actionOptions(busy()), path: rollup + "/pause",
			has: []string{"The pause covers the next scheduled times", "1 run of the job is active",
				`<button type="submit" class="bad">Pause job</button>`}},
		{name: "pause-job-again", options: actionOptions(busy(),
			paused(storage.Target{Kind: storage.TargetJob, Name: "rollup-sales"},
				"")), path: rollup + "/pause", has: []string{"Already paused since", ">Resume job<"}},
		{name: "pause-group", options: actionOptions(busy()), path: "/groups/reports/pause",
			has: []string{"2 jobs are in the group", "report/monthly"}},
		{name: "pause-all", options: actionOptions(busy()), path: "/pause",
			has: []string{"No replica starts a scheduled firing of any job", "<h1>Pause all jobs?",
				`<a class="button plain" href="/jobs">Select jobs instead</a>`,
				`<button type="submit" class="bad">Pause all jobs</button>`}},
		{name: "resume-job", options: actionOptions(busy(),
			paused(storage.Target{Kind: storage.TargetJob, Name: "rollup-sales"},
				"its table is being repaired")), path: rollup + "/resume", has: []string{"25 scheduled times", "its table is being repaired"}},
		{name: "resume-covered", options: actionOptions(busy(),
			paused(group,
				"the quarter is being closed")), path: "/jobs/report%2Fweekly/resume", has: []string{"There is no pause to end here", `href="/groups/reports/resume"`}},
		{name: "resume-all", options: actionOptions(busy(),
			paused(storage.Target{Kind: storage.TargetAll},
				"a failover is going on")), path: "/resume", has: []string{"Pauses of single jobs and groups stay."}},
		{name: "cancel-running", options: actionOptions(contention()), path: cancel,
			has: []string{"and holds <strong><bdi>public/orders</bdi></strong>, " +
				"<strong><bdi>public/sales_rollup</bdi></strong>",
				"Uncommitted work is lost", "3 runs wait for it.", "can start next. It has waited for",
				"The others start when their locks are free."}},
		{name: "cancel-with-dependents",
			options: actionOptions(withDependents(withTable(chained(), jobsOfTable()))),
			path:    cancel,
			has: []string{"4 runs wait for it.",
				"These jobs depend on it and do not run for this scheduled time: <a"}},
		{name: "cancel-waiting", options: actionOptions(contention()), path: param.RunPath(id(20)) + "/cancel",
			has: []string{"The run ends at once without starting"}},
		{name: "cancel-ended", options: actionOptions(contention()), path: param.RunPath(id(31)) + "/cancel",
			has: []string{"There is nothing to cancel."}},
		{name: "cancel-too-late", options: actionOptions(contention()), path: param.RunPath(id(31)) + "/cancel",
			sent: sent(), status: conflict,
			has: []string{"it has ended as failed", "The state has changed"}},
		{name: "cancel-backfill", options: actionOptions(backfilled()),
			path: backfillAddress(activeBackfill) + "/cancel",
			has: []string{"adds no more runs", "139 of 216 scheduled times are done",
				"1 waiting run is cancelled.", "One running run continues to its end",
				`href="/jobs/rollup-sales/pause">Pause job instead</a>`}},
		{name: "cancel-backfill-ended", options: actionOptions(backfilled()),
			path: backfillAddress(endedBackfill) + "/cancel",
			has:  []string{"There is nothing to cancel.", "Show backfill"}},
		{name: "cancel-backfill-too-late", options: actionOptions(backfilled()),
			path: backfillAddress(endedBackfill) + "/cancel", sent: sent(), status: conflict,
			has: []string{"has ended as cancelled", "The state has changed"}},
		{name: "cancel-backfill-hostile", options: actionOptions(hostile()),
			path: backfillAddress(activeBackfill) + "/cancel", has: []string{"&lt;script&gt;"}},
		{name: "cancel-hostile", options: actionOptions(hostile()), path: param.RunPath(id(1)) + "/cancel",
			has: []string{"&lt;script&gt;"}},
		{name: "bulk-pause", options: actionOptions(busy(),
			paused(storage.Target{Kind: storage.TargetJob, Name: "prune-orders"}, "")),
			path: bulk("pause", "job", "rollup-sales", "rollup-stock", "reindex", "prune-orders",
				"nobody"),
			has: []string{"<h1>Pause 3 jobs?</h1>", "1 run is active.", "Next scheduled time",
				"This replica knows no next scheduled time.",
				"2 selected jobs are left alone.", "The job is paused already, by anna."}},
		{name: "bulk-resume", options: actionOptions(busy(),
			paused(storage.Target{Kind: storage.TargetJob, Name: "rollup-sales"},
				"its table is being repaired")),
			path: bulk("resume", "job", "rollup-sales", "report/weekly"),
			has: []string{"<h1>Resume 1 job?</h1>", "its table is being repaired",
				"The job itself is not paused, but group reports is.",
				"1 selected job is left alone."}},
		{name: "bulk-trigger", options: actionOptions(contention()),
			path: bulk("trigger", "job", "rollup-sales", "sync-vendors"),
			has:  []string{"Holdfast adds one run of each job", "2 runs are active."}},
		{name: "bulk-again", options: actionOptions(contention()),
			path: bulk("again", "run", id(31).String(), id(33).String(), id(10).String()),
			has: []string{"<h1>Run 2 runs again?</h1>", "The new run has the params of the job.",
				"The run has not ended, it is running."}},
		{name: "bulk-cancel", options: actionOptions(contention()),
			path: bulk("cancel", "run", id(10).String(), id(20).String(), id(31).String()),
			has: []string{"<h1>Cancel 2 runs?</h1>", "on <bdi>replica-1</bdi>",
				"It ends without starting.", "The run has ended, it is failed.", "Keep runs"}},
		{name: "bulk-nothing", options: actionOptions(contention()),
			path: bulk("cancel", "run", id(31).String()),
			has:  []string{"There is nothing to do. The list below has the reasons."}},
		{name: "bulk-in-part", options: actionOptions(contention()),
			path: bulk("cancel", "run", id(10).String(), id(31).String()), sent: sent(),
			status: conflict, has: []string{"Done in part:", "cancelled 1 of 2 runs",
				"it has ended as failed"}},
		{name: "bulk-interrupted", options: actionOptions(contention(), func(c *control) {
			c.diesAfter = 1
		}), path: bulk("pause", "job", "prune-orders", "rollup-sales", "sync-vendors"),
			sent: sent(), status: unavailable, has: []string{"Result unknown:",
				"paused 1 of 3 jobs", "Not tried, because the action stopped at an earlier item."}},
		{name: "bulk-down", options: actionOptions(contention(), storeDown),
			path: bulk("pause", "job", "rollup-sales"), status: unavailable,
			has: []string{"No action is possible while the database does not answer."}},
		{name: "bulk-hostile", options: actionOptions(hostile()),
			path: bulk("cancel", "run", id(1).String(), id(3).String()),
			has:  []string{"&lt;script&gt;"}},
		{name: "bulk-matching-runs", options: actionOptions(manyFailed(120)),
			path: matching("again", "from=2026-01-01"),
			has:  []string{"<h1>Run 123 runs again?</h1>", "Scheduled from"}},
		{name: "bulk-matching-jobs", options: actionOptions(tenThousand()),
			path: matching("pause", "group=region-03"),
			has:  []string{"<h1>Pause 500 jobs?</h1>", "and 490 more"}},
		{name: "bulk-matching-left", options: actionOptions(manyFailed(120)),
			path: matching("cancel", "state=failed"),
			has:  []string{"The run has ended, it is failed.", "and 110 more"}},
		{name: "bulk-matching-none", options: actionOptions(contention()),
			path: matching("cancel", "state=waiting&job=nobody"),
			has:  []string{"Nothing matches the filter now."}},
		{name: "bulk-matching-too-many", options: actionOptions(tenThousand()),
			path: matching("pause", "text=tenant"), status: http.StatusBadRequest,
			has: []string{"More than 1,000 jobs match, expected at most 1,000."}},
		{name: "release", options: actionOptions(contention()), path: locks.ReleasePath("public/orders", 1810),
			has: []string{"<dt>Token</dt><dd>1810</dd>", "can commit nothing more",
				"and is not recovered",
				"<bdi>replica-1</bdi>, live", "is live, so the run can stop by itself",
				"3 runs wait"}},
		{name: "release-shared", options: actionOptions(contention()),
			path: locks.ReleasePath("slot:vendor-api", 1811), has: []string{"slot of 5"}},
		{name: "release-free", options: actionOptions(contention()),
			path: locks.ReleasePath("public/nothing", 7),
			has:  []string{"The resource is not held"}},
		{name: "release-moved", options: actionOptions(contention()),
			path: locks.ReleasePath("public/orders", 1700), sent: sent("token", "1700"),
			status: conflict,
			has: []string{"another holds it now", "The holder has changed",
				`name="token" value="1810"`}},
		{name: "release-inside", options: actionOptions(contention(), inside),
			path: locks.ReleasePath("public/orders", 1810), sent: sent("token", "1810"),
			status: conflict,
			has: []string{"holder is inside a transaction",
				"End the transaction of the holder, which rolls it back",
				"The transaction may still commit"}},
		{name: "release-down", options: actionOptions(contention(), storeDown),
			path: locks.ReleasePath("public/orders", 1810), sent: sent("token", "1810"),
			status: unavailable, has: []string{"Result unknown", `name="token" value="1810"`}},
		{name: "drain", options: actionOptions(contention()), path: drain,
			has: []string{"2 other replicas start runs",
				"2 runs on it continue to the end"}},
		{name: "drain-last", options: actionOptions(lastOne), path: drain,
			has: []string{"nothing starts until one does"}},
		{name: "undrain", options: actionOptions(drift()),
			path: "/replicas/" + id(9003).String() + "/undrain",
			has:  []string{"The replica starts runs again"}},
		{name: "remove-replica", options: actionOptions(contention()),
			path: "/replicas/" + id(9004).String() + "/remove",
			has: []string{"no longer reports that it is lost", "If the replica starts again",
				"Remove replica</button>"}},
		{name: "remove-replica-live", options: actionOptions(contention()),
			path: "/replicas/" + id(9001).String() + "/remove",
			has:  []string{"This replica is not lost"}},
		{name: "add", options: actionOptions(busy()), path: "/add",
			has: []string{"A job as in the configuration, in YAML or JSON."}},
		{name: "add-wrong", options: actionOptions(busy()), path: "/add",
			sent: sent("job", "handler: wrok\n"), status: unprocessable,
			has: []string{"found nothing, expected the job&#39;s name", "handler: wrok",
				`aria-invalid="true"`}},
		{name: "change", options: actionOptions(busy(), added), path: "/jobs/sync-vendors/change",
			has: []string{"version 4", "olga@example.com", "&#34;rows&#34;: 250"}},
		{name: "change-conflict", options: actionOptions(busy(), added), path: "/jobs/sync-vendors/change",
			sent: sent("version", "3", "job",
				`{"name": "sync-vendors", "handler": "work", "params": {"rows": 9}}`),
			status: conflict, has: []string{"You began with an earlier version",
				"Current definition", `value="4"`, "&#34;rows&#34;: 9"}},
		{name: "change-config", options: actionOptions(busy(), added), path: "/jobs/rollup-sales/change",
			has: []string{"No job with this name was added at run time."}},
		{name: "remove", options: actionOptions(busy(), added), path: "/jobs/sync-vendors/remove",
			has: []string{"No replica fires the job any more.",
				`href="/jobs/sync-vendors/pause">Pause job instead</a>`}},
		{name: "webhooks", options: actionOptions(contention()), path: "/webhooks",
			has: []string{"pager", "410 Gone", "given up", "/again?run="}},
		{name: "webhooks-given-up", options: actionOptions(contention()), path: "/webhooks?given_up=yes",
			has: []string{"report/weekly", "checked"}},
		{name: "webhooks-empty", options: actionOptions(contention(), func(c *control) { c.hooks = nil }),
			path: "/webhooks", has: []string{"No failed deliveries."}},
		{name: "webhooks-none-kept", options: calm(), path: "/webhooks",
			has: []string{"This store records no deliveries."}},
		{name: "deliver", options: actionOptions(contention()), path: param.AgainPath(undelivered()[0]),
			has: []string{"<h1>Deliver the event again?</h1>", "4 deliveries failed",
				"503 Service Unavailable", ">Deliver event again</button>"}},
		{name: "deliver-gone", options: actionOptions(contention()),
			path: "/webhooks/" + id(778).String() + "/again",
			has:  []string{"This delivery is no longer stored"}},
		{name: "overview-paused", options: actionOptions(contention(),
			paused(storage.Target{Kind: storage.TargetAll},
				"a failover is going on")), path: "/",
			has: []string{"All jobs are paused for", `href="/resume"`}},
		{name: "jobs-of-group", options: actionOptions(busy()), path: "/jobs?group=reports",
			has: []string{"Pause group"}},
		{name: "job-added", options: actionOptions(busy(), added), path: "/jobs/sync-vendors",
			has: []string{"/jobs/sync-vendors/change"}},
	}
}

// TestNoticeIsShownAfterAnAction sends a form and follows the redirect to another replica.
func TestNoticeIsShownAfterAnAction(t *testing.T) {
	o, _ := withControl(contention())
	reply := post(newServer(t, o).Handler(), "/jobs/rollup-sales/pause", sent().Encode())
	cookies := reply.Result().Cookies()
	if reply.Code != http.StatusSeeOther ||
		reply.Header().Get("Location") != "/jobs/rollup-sales" || len(cookies) != 1 {
		t.Fatalf("%d to %q with %d cookies", reply.Code, reply.Header().Get("Location"),
			len(cookies))
	}
	if c := cookies[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.MaxAge != 30 {
		t.Errorf("cookie %s", c)
	}
	other := newServer(t, o).Handler()
	for path, shown := range map[string]bool{"/jobs/rollup-sales": true, "/jobs": false,
		"/": false} {
		body := accesstest.Ask(other, http.MethodGet, path, onLoopback, func(r *http.Request) {
			r.AddCookie(cookies[0])
		}).Body.String()
		if got := strings.Contains(body,
			"<bdi data-says>Job rollup-sales is paused since 2026-03-14 03:12:15 UTC by "+
				"anonymous.</bdi>"); got != shown {
			t.Errorf("%s shows the notice: %v", path, got)
		}
	}
	for _, forged := range []string{"", "x", "e30", strings.Repeat("A", 5000)} {
		reply := accesstest.Ask(other, http.MethodGet, "/jobs/rollup-sales", onLoopback,
			func(r *http.Request) {
				r.AddCookie(&http.Cookie{Name: "holdfast-notice", Value: forged})
			})
		if reply.Code != http.StatusOK || strings.Contains(reply.Body.String(), `class="notice"`) {
			t.Errorf("%q: %d", forged, reply.Code)
		}
	}
}

func onLoopback(r *http.Request) { r.Host = "localhost:8080" }
