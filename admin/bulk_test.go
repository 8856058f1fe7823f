package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/pages"
	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// bulk returns the page of a bulk action on jobs or runs.
func bulk(action, item string, names ...string) string {
	return param.Address("/bulk/"+action, url.Values{item: names})
}

// formAction returns the address to which the form of a page is sent, or "".
func formAction(page string) string {
	found := regexp.MustCompile(`<form class="inputs" method="post" action="([^"]*)"`).
		FindStringSubmatch(page)
	if found == nil {
		return ""
	}
	return strings.ReplaceAll(found[1], "&amp;", "&")
}

// targetsOf returns the targets of the entries of the audit log, sorted.
func targetsOf(c *control) string {
	var targets []string
	for _, line := range c.audit {
		targets = append(targets, line.Action+" "+line.Target)
	}
	slices.Sort(targets)
	return strings.Join(targets, ", ")
}

// TestBulkActions confirms each action, and checks its entries in the audit log.
func TestBulkActions(t *testing.T) {
	const jobsPage, runsPage = "/jobs?state=failed&text=r", "/runs?limit=100"
	isPaused := func(c *control) {
		for _, name := range []string{"prune-orders", "rollup-sales"} {
			paused(storage.Target{Kind: storage.TargetJob, Name: name}, "")(c)
		}
	}
	runs := func(numbers ...int) (names []string) {
		for _, n := range numbers {
			names = append(names, id(n).String())
		}
		return names
	}
	for _, test := range []struct {
		action, item, back string
		names              []string
		prepare            func(*control)
		says, notice       string
		audit              []string
	}{
		{"pause", "job", jobsPage, []string{"prune-orders", "rollup-sales"}, nil,
			"Pause 2 jobs", "Paused 2 jobs.",
			[]string{"pause job prune-orders", "pause job rollup-sales"}},
		{"resume", "job", jobsPage, []string{"prune-orders", "rollup-sales"}, isPaused,
			"Resume 2 jobs", "Resumed 2 jobs.",
			[]string{"resume job prune-orders", "resume job rollup-sales"}},
		{"trigger", "job", jobsPage, []string{"report/weekly"}, nil,
			"Run 1 job now", "Triggered 1 job. Replicas start the runs, mostly within a second.",
			[]string{"trigger job report/weekly"}},
		{"again", "run", runsPage, runs(31, 33), nil,
			"Run 2 runs again",
			"Repeated 2 runs. Replicas start the new runs, mostly within a second.",
			[]string{"trigger job report/weekly", "trigger job sync-vendors"}},
		{"cancel", "run", runsPage, runs(10, 20), nil,
			"Cancel 2 runs",
			"Cancelled 2 runs. The handlers of running runs have 10 s to return.",
			[]string{"cancel run " + id(10).String(), "cancel run " + id(20).String()}},
	} {
		o, c := withControl(contention())
		if test.prepare != nil {
			test.prepare(c)
		}
		handler := newServer(t, o).Handler()
		address := param.Address("/bulk/"+test.action,
			url.Values{test.item: test.names, "back": {test.back}})
		page := get(t, handler, address)
		if !strings.Contains(page.Body.String(), "<h1>"+test.says+"?</h1>") || len(c.audit) > 0 {
			t.Errorf("%s: %d %s and %d actions, want the question and none", address, page.Code,
				page.Body, len(c.audit))
		}
		to := formAction(page.Body.String())
		if to != address {
			t.Errorf("the form is sent to %s, want %s", to, address)
		}
		form := sent().Encode()
		for range 2 { // the second click does nothing
			reply := post(handler, to, form)
			if reply.Code != http.StatusSeeOther || reply.Header().Get("Location") != test.back {
				t.Errorf("%s: %d to %q %s", to, reply.Code, reply.Header().Get("Location"),
					reply.Body)
				continue
			}
			if test.action == "resume" {
				break // the control has no outcomes of actions
			}
			if got, want := noticeOf(t, handler, reply),
				test.back+" "+test.notice; got != want {
				t.Errorf("got the notice %q, want %q", got, want)
			}
		}
		if got, want := targetsOf(c), strings.Join(test.audit, ", "); got != want {
			t.Errorf("%s: the audit log has %s, want %s", to, got, want)
		}
		for _, line := range c.audit {
			if line.Reason != "the vendor says that they are back" || line.Via != "page" {
				t.Errorf("%s: entry %+v, want the reason of the form", to, line)
			}
		}
	}
}

// TestBulkActionsLeaveItemsAlone checks that a page says why it leaves an item alone, and that its
// form is sent to the address of the other items.
func TestBulkActionsLeaveItemsAlone(t *testing.T) {
	group := storage.Target{Kind: storage.TargetGroup, Name: "reports"}
	own := storage.Target{Kind: storage.TargetJob, Name: "rollup-sales"}
	for _, test := range []struct {
		address  string
		options  Options
		reasons  []string
		acts     string
		hasTitle string
	}{
		{bulk("pause", "job", "rollup-sales", "rollup-stock", "nobody"),
			actionOptions(busy(), paused(own, "")),
			[]string{"The job is paused already, by anna.", "There is no such job."},
			bulk("pause", "job", "rollup-stock"), "Pause 1 job?"},
		{bulk("resume", "job", "rollup-sales", "rollup-stock", "report/weekly", "nobody"),
			actionOptions(busy(), paused(own, "")),
			[]string{"The job is not paused.", "There is no such job.",
				"The job itself is not paused, but group reports is."},
			bulk("resume", "job", "rollup-sales"), "Resume 1 job?"},
		{bulk("trigger", "job", "rollup-stock", "report/weekly", "nobody"), actionOptions(busy()),
			[]string{"Paused: group reports. The page of the job can start a run despite a pause.",
				"There is no such job."},
			bulk("trigger", "job", "rollup-stock"), "Run 1 job now?"},
		{bulk("again", "run", id(31).String(), id(10).String(), id(777).String()),
			actionOptions(contention()),
			[]string{"The run has not ended, it is running.", "There is no such run."},
			bulk("again", "run", id(31).String()), "Run 1 run again?"},
		{bulk("again", "run", id(33).String()), actionOptions(contention(), paused(group, ""),
			paused(storage.Target{Kind: storage.TargetAll}, "")),
			[]string{"Paused: everything. The page of the job can start a run despite a pause.",
				"There is nothing to do."}, "", "Run 1 run again?"},
		{bulk("cancel", "run", id(33).String(), id(20).String()), actionOptions(contention()),
			[]string{"The run has ended, it is timed out."},
			bulk("cancel", "run", id(20).String()), "Cancel 1 run?"},
	} {
		body := get(t, newServer(t, test.options).Handler(), test.address).Body.String()
		for _, reason := range append(test.reasons, test.hasTitle) {
			if !strings.Contains(body, reason) {
				t.Errorf("%s: the page lacks %q", test.address, reason)
			}
		}
		got, err := url.Parse(formAction(body))
		if err != nil {
			t.Fatal(err)
		}
		query := got.Query()
		query.Del("back")
		if acts := param.Address(got.Path, query); acts != test.acts {
			t.Errorf("%s: the form is sent to %q, want %q", test.address, acts, test.acts)
		}
	}
}

// TestBulkActionsByPermission checks which items a role acts on: those that the page offers, and
// those of a form that somebody has written.
func TestBulkActionsByPermission(t *testing.T) {
	both := []string{"rollup-sales", "sync-vendors"}
	for _, test := range []struct {
		role, address string
		status        int // of the form with all items
		acts, denied  string
	}{
		{"operator", bulk("pause", "job", both...), 303,
			"pause job rollup-sales, pause job sync-vendors", ""},
		{"sales", bulk("pause", "job", both...), 409, "pause job rollup-sales",
			"You do not have the permission pause on this job."},
		{"sales", bulk("pause", "job", "sync-vendors"), 403, "",
			"You do not have the permission pause on this job."},
		// what is not permitted is not told apart from what does not exist
		{"sales", bulk("pause", "job", "nobody"), 403, "",
			"You do not have the permission pause on this job."},
		{"trigger", bulk("trigger", "job", both...), 303,
			"trigger job rollup-sales, trigger job sync-vendors", ""},
		{"trigger", bulk("pause", "job", both...), 403, "", ""},
		{"rollups", bulk("trigger", "job", both...), 409, "trigger job rollup-sales",
			"You do not have the permission trigger on this job."},
		{"sales", bulk("cancel", "run", id(10).String(), id(11).String()), 409,
			"cancel run " + id(10).String(), "You do not have the permission cancel on this job."},
		{"rollups", bulk("again", "run", id(31).String(), id(30).String()), 409,
			"trigger job rollup-hourly", "You do not have the permission trigger on this job."},
	} {
		o, c := limitedOptions(t)
		events := new(accesstest.Events)
		o.Events = events
		handler := newServer(t, o).Handler()
		page := accesstest.Ask(handler, http.MethodGet, test.address, roleToken(test.role))
		if !strings.Contains(page.Body.String(), test.denied) {
			t.Errorf("%s: %s: %d %s, lacks %q", test.role, test.address, page.Code, page.Body,
				test.denied)
		}
		events.Take()
		reply := accesstest.Ask(handler, http.MethodPost, test.address, roleToken(test.role),
			accesstest.WithForm(sent()))
		if got := targetsOf(c); reply.Code != test.status || got != test.acts {
			t.Errorf("%s: %s: %d and %s, want %d and %s: %s", test.role, test.address, reply.Code,
				got, test.status, test.acts, reply.Body)
		}
		refused := len(events.Take())
		if want := test.status != 303; (refused == 1) != want {
			t.Errorf("%s: %s: %d refusals are audited, want one: %v", test.role, test.address,
				refused, want)
		}
	}
}

// TestBulkRepeatsParamsOnlyForTheirViewers checks that people who may not view the params of a run
// cannot run it again with them.
func TestBulkRepeatsParamsOnlyForTheirViewers(t *testing.T) {
	const secret = "471147114711" // too long to be part of a random id
	const params = `{"rows":` + secret + `}`
	for role, want := range map[string]int{"rollups": 403, "trigger": 303} {
		o, c := limitedOptions(t)
		h := o.Store.(*history)
		at := slices.IndexFunc(h.runs, func(r storage.Record) bool { return r.ID == id(20) })
		h.runs[at].State, h.runs[at].Job, h.runs[at].Params = jobs.Failed, "rollup-sales",
			[]byte(params)
		handler := newServer(t, o).Handler()
		address := bulk("again", "run", id(20).String())
		page := accesstest.Ask(handler, http.MethodGet, address, roleToken(role)).Body.String()
		const denied = "You do not have the permission view_params on this job."
		if strings.Contains(page, denied) != (want == 403) || strings.Contains(page, secret) {
			t.Errorf("%s: the page has the params, or the wrong reasons: %s", role, page)
		}
		reply := accesstest.Ask(handler, http.MethodPost, address, roleToken(role),
			accesstest.WithForm(sent()))
		repeated := false
		for _, p := range c.params {
			repeated = repeated || string(p) == params
		}
		if reply.Code != want || repeated != (want == 303) {
			t.Errorf("%s: %d and the params of the runs are %q, want %d", role, reply.Code,
				c.params, want)
		}
	}
}

// TestInvalidBulkActions checks that an invalid selection is refused before it changes anything.
func TestInvalidBulkActions(t *testing.T) {
	server, c := acting(t)
	handler := server.Handler()
	many := func(n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("job-%03d", i))
		}
		return names
	}
	for _, f := range []struct {
		path   string
		form   url.Values
		status int
		text   string
	}{
		{"/bulk/pause", sent(), 400, "No jobs are selected. Go back and tick at least one box."},
		{"/bulk/pause?job=", sent(), 400, "No jobs are selected."},
		{"/bulk/cancel", sent(), 400, "No runs are selected."},
		{bulk("pause", "job", many(101)...), sent(), 400,
			"101 jobs are selected, expected at most 100. Go back and select fewer."},
		{bulk("pause", "job", many(100)...), sent(), 404, "paused none of 100 jobs"},
		{bulk("cancel", "run", "42"), sent(), 400, "run is &#34;42&#34;, expected a run&#39;s id"},
		{bulk("cancel", "run", id(10).String()) + "&job=a", sent(), 400,
			"parameter &#34;job&#34; is unknown"},
		{bulk("pause", "job", "a") + "&back=x&back=y", sent(), 400, "back is given 2 times"},
		{bulk("pause", "job", "a"), url.Values{"reason": {"x"}}, 400, "key is missing"},
		{bulk("pause", "job", "rollup-sales"), url.Values{"key": {strings.Repeat("k", 201)}}, 400,
			"key: found 201 bytes, expected at most 200"},
		{bulk("pause", "job", "rollup-sales"), sent("reason", strings.Repeat("x", 501)), 400,
			"reason: found 501 bytes, expected at most 500"},
		{bulk("pause", "job", "rollup-sales"), sent("job", "rollup-sales"), 400,
			"field &#34;job&#34; is unknown"},
		{bulk("pause", "job", "\x00", "\xff", strings.Repeat("n", 3000)), sent(), 404,
			"paused none of 3 jobs"},
	} {
		reply := post(handler, f.path, f.form.Encode())
		if reply.Code != f.status || !strings.Contains(reply.Body.String(), f.text) {
			t.Errorf("%.80s %v: %d, lacks %q:\n%s", f.path, f.form, reply.Code, f.text, reply.Body)
		}
		if page := get(t, handler, f.path); page.Code != 200 && page.Code != 400 {
			t.Errorf("%.80s: got %d, want the page or a refusal", f.path, page.Code)
		}
	}
	elsewhere := post(handler, bulk("pause", "job", "rollup-sales"), sent().Encode(),
		accesstest.WithHeader("Sec-Fetch-Site", "cross-site"))
	if elsewhere.Code != http.StatusForbidden {
		t.Errorf("from another site: %d", elsewhere.Code)
	}
	if len(c.audit) != 0 {
		t.Errorf("%d actions were done", len(c.audit))
	}
	// the same item is one item
	twice := post(handler, bulk("cancel", "run", id(10).String(), strings.ToUpper(id(10).String()),
		"{"+id(10).String()+"}"), sent().Encode())
	if got := targetsOf(c); twice.Code != http.StatusSeeOther ||
		got != "cancel run "+id(10).String() {
		t.Errorf("%d and %s, want one cancellation", twice.Code, got)
	}
}

// TestBulkActionsLeadBackToTheirList checks that only an address of the list is followed.
func TestBulkActionsLeadBackToTheirList(t *testing.T) {
	for back, want := range map[string]string{
		"/jobs?group=reports&after=b": "/jobs?group=reports&after=b", "/jobs": "/jobs", "": "/jobs",
		"https://evil.example/jobs": "/jobs", "//evil.example/jobs": "/jobs", "/runs": "/jobs",
		"/jobs/rollup-sales": "/jobs", "/jobs?" + strings.Repeat("x", 2000): "/jobs",
		"/jobs?\r\nSet-Cookie: a=b": "/jobs", "/jobs?a#b": "/jobs?a#b",
	} {
		server, _ := acting(t)
		address := param.Address("/bulk/pause",
			url.Values{"job": {"rollup-sales"}, "back": {back}})
		reply := post(server.Handler(), address, sent().Encode())
		if got := reply.Header().Get("Location"); got != want {
			t.Errorf("%.60s leads to %q, want %q", back, got, want)
		}
	}
}

// TestBulkActionsTellEachResult lets the store fail between two items, and sends the form again
// when it answers. Each action must be done once.
func TestBulkActionsTellEachResult(t *testing.T) {
	server, c := acting(t)
	handler := server.Handler()
	address, form := bulk("trigger", "job", "merge-events", "prune-logs", "rollup-sales",
		"sync-vendors"), sent().Encode()
	c.diesAfter = 2
	reply := post(handler, address, form)
	body := flat(reply.Body.String())
	for _, want := range []string{"Result unknown:</strong> <bdi data-says>triggered 2 of 4 jobs.",
		"the action runs at most once for each item", "Not tried, because the action stopped",
		"The database query failed", ">Run 4 jobs now</button>"} {
		if !strings.Contains(body, flat(want)) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if reply.Code != http.StatusServiceUnavailable ||
		strings.Count(body, "<span>Done</span>") != 2 ||
		strings.Count(body, "<span>Unknown</span>") != 1 ||
		strings.Count(body, "<span>Not done</span>") != 1 || len(c.audit) != 2 {
		t.Errorf("%d with %d actions: %s", reply.Code, len(c.audit), body)
	}
	c.history.err, c.diesAfter = nil, 0
	if again := post(handler, address, form); again.Code != http.StatusSeeOther ||
		len(c.audit) != 4 {
		t.Errorf("%d with %d actions, want 303 with 4: %s", again.Code, len(c.audit), again.Body)
	}

	mixed := bulk("cancel", "run", id(10).String(), id(31).String(), id(777).String())
	page := post(handler, mixed, sent().Encode())
	body = flat(page.Body.String())
	for _, want := range []string{"Done in part:</strong> <bdi data-says>cancelled 1 of 3 runs.",
		"it has ended as failed", "not found", ">sync-vendors</bdi>"} {
		if !strings.Contains(body, flat(want)) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if page.Code != http.StatusConflict || formAction(body) != "" {
		t.Errorf("%d with a form to %q, want 409 without", page.Code, formAction(body))
	}
}

// TestBulkActionOfABusyReplica lets a bulk action find no turn for its queries after some items.
// The other items are not done, and the form can be sent again.
func TestBulkActionOfABusyReplica(t *testing.T) {
	for _, c := range []struct {
		done int
		want string
	}{{1, "Done in part:</strong> <bdi data-says>paused 1 of 3 jobs."},
		{0, "Not done:</strong> <bdi data-says>paused none of 3 jobs."}} {
		server, control := acting(t)
		control.diesAfter, control.diesWith = c.done, pages.ErrBusy
		if c.done == 0 {
			control.history.err = pages.ErrBusy
		}
		reply := post(server.Handler(), bulk("pause", "job", "merge-events", "rollup-sales",
			"sync-vendors"), sent().Encode())
		body := flat(reply.Body.String())
		for _, want := range []string{c.want, "Too many requests query the database",
			"Not tried, because the action stopped at an earlier item.",
			"Submit again: the action runs at most once for each item."} {
			if !strings.Contains(body, flat(want)) {
				t.Errorf("after %d items, the page lacks %q", c.done, want)
			}
		}
		if reply.Code != http.StatusServiceUnavailable || len(control.audit) != c.done ||
			strings.Count(body, "<span>Not done</span>") != 3-c.done ||
			strings.Contains(body, "did not answer") {
			t.Errorf("after %d items, got %d with %d actions: %s", c.done, reply.Code,
				len(control.audit), body)
		}
	}
}

// TestBulkOfferedByTheList checks who sees boxes in the lists, and which buttons.
func TestBulkOfferedByTheList(t *testing.T) {
	o, _ := limitedOptions(t)
	handler := newServer(t, o).Handler()
	for _, test := range []struct {
		role, path string
		want       string
	}{
		{"operator", "/jobs", "trigger pause resume"}, {"operator", "/runs", "again cancel"},
		{"viewer", "/jobs", ""}, {"viewer", "/runs", ""},
		{"trigger", "/jobs", "trigger"}, {"trigger", "/runs", "again"},
		{"sales", "/jobs?group=sales", "trigger pause resume"},
		// somewhere in the list there may be something that the role may act on
		{"watcher", "/jobs", "trigger pause resume"}, {"watcher", "/jobs?group=sales", ""},
		{"watcher", "/runs?job=rollup-sales", ""},
	} {
		body := accesstest.Ask(handler, http.MethodGet, test.path,
			roleToken(test.role)).Body.String()
		var buttons []string
		for _, found := range regexp.MustCompile(`formaction="/bulk/(\w+)"`).FindAllStringSubmatch(
			body, -1) {
			buttons = append(buttons, found[1])
		}
		if got := strings.Join(buttons, " "); got != test.want ||
			strings.Contains(body, `class="pick"`) != (test.want != "") {
			t.Errorf("%s: %s offers %q, want %q", test.role, test.path, got, test.want)
		}
		if most := fmt.Sprintf(`data-most="%d"`, maxBulk); test.want != "" &&
			!strings.Contains(body, most) {
			t.Errorf("%s: %s does not have %s", test.role, test.path, most)
		}
	}
}

// TestBulkPageOfAnotherUserIsJudgedAgain checks that a cached page, which the store does not answer
// for, has the permissions of its reader.
func TestBulkPageOfAnotherUserIsJudgedAgain(t *testing.T) {
	o, _ := limitedOptions(t)
	handler := newServer(t, o).Handler()
	address := bulk("pause", "job", "rollup-sales", "sync-vendors")
	accesstest.Ask(handler, http.MethodGet, address, roleToken("operator"))
	o.Store.(*history).err = errors.New("connection refused")
	page := accesstest.Ask(handler, http.MethodGet, address, roleToken("operator"))
	if page.Code != http.StatusServiceUnavailable ||
		!strings.Contains(page.Body.String(), "rollup-sales") {
		t.Fatalf("%d %s, want the cached page", page.Code, page.Body)
	}
	// a limited role cannot be judged while the store does not answer for its targets
	if page := accesstest.Ask(handler, http.MethodGet, address, roleToken("sales")); !strings.
		Contains(page.Body.String(), "You do not have the permission pause on this job.") {
		t.Errorf("%d %s, want the page judged for its reader", page.Code, page.Body)
	}
}

// TestItemKeys checks that keys of items differ by form and by item.
func TestItemKeys(t *testing.T) {
	a, b := bulkItem{Job: storage.JobView{Definition: storage.Definition{Name: "a"}}},
		bulkItem{ID: uuid.New()}
	keys := []string{itemKey("1", a), itemKey("1", b), itemKey("2", a), itemKey("2", b)}
	slices.Sort(keys)
	if len(slices.Compact(keys)) != 4 {
		t.Errorf("keys are %q, want four", keys)
	}
}

// TestThemeKeepsTheSelection chooses a theme and a time zone on the page of a bulk action with as
// many runs as possible.
func TestThemeKeepsTheSelection(t *testing.T) {
	o, _ := limitedOptions(t)
	handler := newServer(t, o).Handler()
	names := make([]string, maxBulk)
	for i := range names {
		names[i] = id(i).String()
	}
	next := param.Address("/bulk/cancel", url.Values{"run": names, "back": {"/runs?state=waiting"}})
	for _, form := range []string{"/theme", "/zone"} {
		reply := accesstest.Ask(handler, http.MethodPost, form, roleToken("operator"),
			accesstest.WithForm(url.Values{"next": {next}}))
		if got := reply.Header().Get("Location"); got != next {
			t.Errorf("%s leads to %.100q, want the same page", form, got)
		}
	}
}
