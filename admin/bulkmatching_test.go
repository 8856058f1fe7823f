package admin

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/internal/test/accesstest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// manyFailed is a cluster in which n runs of three jobs failed, and one run of each succeeded.
func manyFailed(n int) Options {
	h := &history{now: noon, replicas: []storage.ReplicaView{
		liveReplica(1, "replica-1", 2*time.Second, 0)}}
	names := []string{"load-events", "load-orders", "load-vendors"}
	for _, name := range names {
		h.jobs = append(h.jobs, job(name, "* * * * *", "events"))
		h.runs = append(h.runs, done(900+len(h.runs), name, "replica-1", time.Second,
			time.Second, jobs.Succeeded))
	}
	for i := range n {
		run := done(1000+i, names[i*i%7%3], "replica-1", time.Duration(i+2)*time.Minute,
			time.Second, jobs.Failed)
		run.Error = "vendor api: 503 Service Unavailable"
		h.runs = append(h.runs, run)
	}
	return options(h)
}

// matching returns the page of a bulk action on all that match the filter of a list.
func matching(action, filter string) string {
	return param.Address("/bulk/"+action, url.Values{"matching": {filter}})
}

// itemsOf returns the items that the form of a page has.
func itemsOf(page string) string {
	found := regexp.MustCompile(`<input type="hidden" name="items" value="([^"]*)"`).
		FindStringSubmatch(page)
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}

// TestBulkActionsOnAllThatMatch checks that the form acts on the items that its page has shown,
// each with its own entry in the audit log, and not on what matches later.
func TestBulkActionsOnAllThatMatch(t *testing.T) {
	for _, test := range []struct {
		action, filter string
		options        Options
		title, notice  string
		audited        int
	}{
		{"again", "state=failed%2Ctimed_out&job=", manyFailed(120), "Run 120 runs again?",
			"Repeated 120 runs. Replicas start the new runs, mostly within a second.", 120},
		{"again", "state=failed&limit=", manyFailed(storage.MaxBatch), "", "", 0},
		{"again", "state=failed", manyFailed(storage.MaxBatch), "Run 1,000 runs again?",
			"Repeated 1,000 runs. Replicas start the new runs, mostly within a second.", 1000},
		{"cancel", "state=waiting&job=rollup-hourly", contention(), "Cancel 1 run?",
			"Cancelled 1 run. The handlers of running runs have 10 s to return.", 1},
		{"pause", "group=region-03", tenThousand(), "Pause 500 jobs?", "Paused 500 jobs.", 500},
	} {
		o, c := withControl(test.options)
		handler := newServer(t, o).Handler()
		address := matching(test.action, test.filter)
		page := get(t, handler, address)
		body := page.Body.String()
		if test.title == "" {
			if page.Code != http.StatusBadRequest {
				t.Errorf("%s: got %d, want a refusal", address, page.Code)
			}
			continue
		}
		if !strings.Contains(body, "<h1>"+test.title+"</h1>") || len(c.audit) > 0 {
			t.Errorf("%s: %d with %d actions, lacks %q", address, page.Code, len(c.audit),
				test.title)
		}
		if got := formAction(body); got != address {
			t.Errorf("the form is sent to %s, want %s", got, address)
		}
		late := done(30_000, "load-events", "replica-1", time.Millisecond, 0, jobs.Failed)
		c.history.runs = slices.Insert(c.history.runs, 0, late)
		form := sent("items", itemsOf(body)).Encode()
		for range 2 { // the second time it does nothing
			reply := post(handler, address, form)
			if reply.Code != http.StatusSeeOther {
				t.Fatalf("%s: got %d %s", address, reply.Code, reply.Body)
			}
			list, _, _ := strings.Cut(reply.Header().Get("Location"), "?")
			if got, want := noticeOf(t, handler, reply), list+" "+test.notice; got != want {
				t.Errorf("got the notice %q, want %q", got, want)
			}
		}
		targets := make(map[string]int)
		for _, entry := range c.audit {
			targets[entry.Target]++
		}
		if len(c.audit) != test.audited || test.action == "pause" && len(targets) != test.audited {
			t.Errorf("%s: %d entries in the audit log about %d targets, want %d", address,
				len(c.audit), len(targets), test.audited)
		}
	}
}

// TestLongBulkPagesAreGrouped checks the groups of many items: those that the action acts on, those
// that it leaves alone, and the results.
func TestLongBulkPagesAreGrouped(t *testing.T) {
	o, c := withControl(manyFailed(120))
	handler := newServer(t, o).Handler()
	address := matching("again", "from=2026-01-01")
	page := get(t, handler, address).Body.String()
	for _, want := range []string{"<h1>Run 123 runs again?</h1>",
		`<bdi>load-orders</bdi></a> 69 runs`, `<span class="badge failed">failed</span> 68`,
		"Scheduled from"} {
		if !strings.Contains(flat(page), want) {
			t.Errorf("the page lacks %q: %s", want, flat(page))
		}
	}
	c.diesAfter = 100
	reply := post(handler, address, sent("items", itemsOf(page)).Encode())
	body := flat(reply.Body.String())
	for _, want := range []string{"Result unknown:", "repeated 100 of 123 runs",
		"<bdi>Done</bdi><span>100</span>", "<bdi>Not done. Not tried, because the action " +
			"stopped at an earlier item.</bdi><span>22</span>", "and 12 more",
		">Run 123 runs again</button>"} {
		if !strings.Contains(body, want) {
			t.Errorf("the results lack %q: %s", want, body)
		}
	}
	if itemsOf(reply.Body.String()) != itemsOf(page) {
		t.Error("the form that is sent again has other items")
	}

	o, _ = withControl(manyFailed(120))
	handler = newServer(t, o).Handler()
	cancel := flat(get(t, handler, matching("cancel", "state=failed")).Body.String())
	for _, want := range []string{"There is nothing to do. The list below has the reasons.",
		"<bdi>The run has ended, it is failed.</bdi><span>120</span>", "and 110 more"} {
		if !strings.Contains(cancel, want) {
			t.Errorf("the page lacks %q: %s", want, cancel)
		}
	}
	none := flat(get(t, handler, matching("cancel", "state=lost")).Body.String())
	if !strings.Contains(none, "Nothing matches the filter now.") {
		t.Errorf("the page does not say that nothing matches: %s", none)
	}
}

// TestInvalidBulkFilters checks that filters and forms that are invalid or match too much are
// refused before anything changes.
func TestInvalidBulkFilters(t *testing.T) {
	failed := manyFailed(storage.MaxBatch + 1)
	long := tenThousand().Store.(*history)
	for i := range 400 {
		long.jobs = append(long.jobs, job(fmt.Sprintf("%s-%03d", strings.Repeat("é", 90), i),
			"@daily", "orders"))
	}
	many := url.Values{}
	for i := range storage.MaxBatch + 1 {
		many.Add("run", id(1000+i).String())
	}
	for _, test := range []struct {
		options    Options
		path, text string
		form       url.Values
	}{
		{failed, matching("again", "state=failed"),
			"More than 1,000 runs match, expected at most 1,000. Go back and narrow the filter.", nil},
		{tenThousand(), matching("pause", "text=tenant"),
			"More than 1,000 jobs match, expected at most 1,000.", nil},
		{options(long), matching("pause", "text=éé"), "expected at most 57,344.", nil},
		{failed, matching("again", "state=done"), "state is &#34;done&#34;, expected some of", nil},
		{failed, matching("again", "limit=5"),
			"matching: parameter &#34;limit&#34; is unknown", nil},
		{failed, matching("again", "before="+id(1000).String()),
			"matching: parameter &#34;before&#34; is unknown", nil},
		{failed, matching("again", "%zz"), "matching: The query can&#39;t be read", nil},
		{failed, matching("again", "state=failed") + "&run=" + id(1000).String(),
			"run and matching are both given, expected one of them", nil},
		{failed, matching("again", "state=failed") + "&matching=",
			"matching is given 2 times, expected once", nil},
		{failed, matching("again", "state=failed"), "No runs are selected.", sent()},
		{failed, matching("again", "state=failed"), "run is &#34;x&#34;, expected a run&#39;s id",
			sent("items", "run=x")},
		{failed, matching("again", "state=failed"), "items can&#39;t be read",
			sent("items", "%zz")},
		{failed, matching("again", "state=failed"),
			"1,001 runs are selected, expected at most 1,000.", sent("items", many.Encode())},
		{failed, bulk("again", "run", id(1000).String()), "field &#34;items&#34; is unknown",
			sent("items", "run="+id(1000).String())},
	} {
		o, c := withControl(test.options)
		handler := newServer(t, o).Handler()
		reply := get(t, handler, test.path)
		if test.form != nil {
			reply = post(handler, test.path, test.form.Encode())
		}
		if reply.Code != http.StatusBadRequest || len(c.audit) > 0 ||
			!strings.Contains(reply.Body.String(), test.text) {
			t.Errorf("%s: %d with %d actions, lacks %q: %s", test.path, reply.Code, len(c.audit),
				test.text, reply.Body)
		}
	}
}

// TestBulkFiltersByPermission checks that a filter needs the permission to view its list, and that
// each item is judged.
func TestBulkFiltersByPermission(t *testing.T) {
	for _, test := range []struct {
		role, path string
		status     int
		text       string
	}{
		{"operator", matching("cancel", "state=running"), 200, "Cancel 3 runs?"},
		{"sales", matching("cancel", "state=running"), 403, "view"},
		{"sales", matching("cancel", "state=running&job=rollup-sales"), 200, "Cancel 1 run?"},
		{"sales", matching("cancel", "job=merge-events"), 403, "view"},
		{"sales", matching("pause", "group=sales"), 200, "Pause 1 job?"},
		{"sales", matching("pause", "text=r"), 403, "view"},
		{"viewer", matching("pause", "text=r"), 403, "pause"},
		// it may view all, and act on other jobs
		{"watcher", matching("pause", "text=rollup-sales"), 200,
			"You do not have the permission pause on this job."},
	} {
		o, _ := limitedOptions(t)
		events := new(accesstest.Events)
		o.Events = events
		page := accesstest.Ask(newServer(t, o).Handler(), http.MethodGet, test.path,
			roleToken(test.role))
		if page.Code != test.status || !strings.Contains(page.Body.String(), test.text) {
			t.Errorf("%s: %s: %d, lacks %q: %s", test.role, test.path, page.Code, test.text,
				page.Body)
		}
		if refused := len(events.Take()); (refused == 1) != (test.status == 403) {
			t.Errorf("%s: %s: %d refusals are audited", test.role, test.path, refused)
		}
	}
}

// TestListsOfferAllThatMatch checks in which lists the actions on all that match are.
func TestListsOfferAllThatMatch(t *testing.T) {
	recent := "from=" + noon.Add(-24*time.Hour).Format("2006-01-02T15:04:05Z07:00")
	for _, test := range []struct {
		options    Options
		path, want string
	}{
		{manyFailed(120), "/runs", ""},
		{manyFailed(120), "/runs?state=failed&limit=20&before=" + id(1030).String(),
			"again state=failed"}, // a run that has ended cannot be cancelled
		{contention(), "/runs?state=waiting", "cancel state=waiting"},
		{manyFailed(120), "/runs?state=failed,waiting",
			"again state=failed,waiting, cancel state=failed,waiting"},
		{manyFailed(120), "/runs?" + recent, "again " + recent + ", cancel " + recent},
		{manyFailed(120), "/runs?state=lost", ""}, // nothing matches
		{tenThousand(), "/jobs", ""},
		{tenThousand(), "/jobs?group=region-03&text=a+b%26c", ""},
		{tenThousand(), "/jobs?group=region-03&text=t&after=tenant-04000%2Fload&state=",
			"trigger group=region-03&text=t, pause group=region-03&text=t, " +
				"resume group=region-03&text=t"},
	} {
		o, _ := withControl(test.options)
		body := get(t, newServer(t, o).Handler(), test.path).Body.String()
		list, err := url.Parse(test.path)
		if err != nil {
			t.Fatal(err)
		}
		wantBack := param.Address(list.Path, list.Query())
		var offered []string
		links := regexp.MustCompile(`href="(/bulk/[^"]*)"`)
		for _, found := range links.FindAllStringSubmatch(body, -1) {
			link, err := url.Parse(html.UnescapeString(found[1]))
			if err != nil {
				t.Fatal(err)
			}
			offered = append(offered, strings.TrimPrefix(link.Path, "/bulk/")+" "+
				unescaped(t, link.Query().Get("matching")))
			if back := link.Query().Get("back"); back != wantBack {
				t.Errorf("%s: the link leads back to %q", test.path, back)
			}
		}
		if got := strings.Join(offered, ", "); got != test.want {
			t.Errorf("%s offers %q, want %q", test.path, got, test.want)
		}
	}
	o, _ := limitedOptions(t)
	body := accesstest.Ask(newServer(t, o).Handler(), http.MethodGet, "/runs?state=failed",
		roleToken(string(permission.Viewer))).Body.String()
	if strings.Contains(body, "/bulk/") {
		t.Error("the list offers actions to a viewer")
	}
	h := manyFailed(3).Store.(*history)
	h.quarters = []storage.Quarter{{From: storage.QuarterOf(noon),
		Runs: map[jobs.State]int{jobs.Failed: 1001}}}
	o, _ = withControl(options(h))
	from := storage.QuarterOf(noon).Add(-time.Hour).Format(time.RFC3339)
	body = get(t, newServer(t, o).Handler(), "/runs?state=failed&from="+from).Body.String()
	if !strings.Contains(flat(body), "More than 1,000 runs match.") || strings.Contains(body,
		"/bulk/again?") {
		t.Errorf("the list does not say that too many runs match: %s", body)
	}
}

func unescaped(t *testing.T, query string) string {
	t.Helper()
	text, err := url.QueryUnescape(query)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
