package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestJSON compares every response of the API with a file, byte by byte, because clients depend on
// the names. HOLDFAST_UPDATE=1 writes the files.
func TestJSON(t *testing.T) {
	cases := []struct{ name, path string }{
		{"overview", "/api/v1/overview"},
		{"locks", "/api/v1/locks"},
		{"locktree", "/api/v1/locks/tree?text=orders"},
		{"timeline", "/api/v1/locks/timeline?resource=public%2Forders"},
		{"contention", "/api/v1/locks/contention"},
		{"upcoming", "/api/v1/locks/upcoming"},
		{"jobs", "/api/v1/jobs"},
		{"job", "/api/v1/jobs/merge-events"},
		{"explain", "/api/v1/jobs/rollup-sales/explain?at=2026-03-14T02:30:08Z"},
		{"runs", "/api/v1/runs?limit=4"},
		{"grid", "/api/v1/grid?text=rollup"},
		{"agenda", "/api/v1/agenda?span=6h&text=orders"},
		{"search", "/api/v1/search?q=rollup"},
		{"run", "/api/v1/runs/" + id(10).String()},
		{"replicas", "/api/v1/replicas"},
		{"databases", "/api/v1/databases"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := contention()
			h := o.Store.(*history)
			h.restart, h.blocked, h.typical = night().Store.(*history).restart,
				night().Store.(*history).blocked[:2], night().Store.(*history).typical
			h.jobs[0].Last = &h.runs[len(h.runs)-3]
			if c.name == "agenda" {
				o = withUpcoming(o)
			}
			if c.name == "databases" {
				o = withDatabases(o)
			}
			for i := range h.runs {
				if h.runs[i].ID == id(10) {
					h.runs[i].Output = "rows: 12\n"
				}
			}
			reply := get(t, newServer(t, o).Handler(), c.path)
			if reply.Code != http.StatusOK ||
				reply.Header().Get("Content-Type") != "application/json" {
				t.Errorf("status %d, type %q", reply.Code, reply.Header().Get("Content-Type"))
			}
			var indented bytes.Buffer // as short answers are already
			if err := json.Indent(&indented, reply.Body.Bytes(), "", "  "); err != nil {
				t.Fatal(err)
			}
			golden(t, c.name+".json", indented.Bytes())
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("HOLDFAST_UPDATE") != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

func TestListsAreNeverNull(t *testing.T) {
	handler := newServer(t, empty()).Handler()
	for _, path := range []string{"locks", "jobs", "runs", "replicas"} {
		if got := get(t, handler, "/api/v1/"+path).Body.String(); got != "[]\n" {
			t.Errorf("%s: %q, want an empty array", path, got)
		}
	}
	if body := get(t, handler, "/api/v1/overview").Body.String(); strings.Contains(body, "null") {
		t.Errorf("overview has a null:\n%s", body)
	}
	if body := get(t, newServer(t, contention()).Handler(), "/api/v1/overview").
		Body.String(); strings.Contains(body, "null") {
		t.Errorf("overview has a null:\n%s", body)
	}
}

func TestRefusedRequests(t *testing.T) {
	handler := newServer(t, contention()).Handler()
	cases := []struct {
		path   string
		status int
		text   string
	}{
		{"/api/v1/runs?limit=0", 400, `limit is "0", expected a number from 1 to 1000`},
		{"/api/v1/runs?limit=1001", 400, `limit is "1001", expected a number from 1 to 1000`},
		{"/api/v1/runs?limit=many", 400, `limit is "many", expected a number from 1 to 1000`},
		{"/api/v1/runs?limit=1&limit=2", 400, "limit is given 2 times, expected once"},
		{"/api/v1/runs?state=done", 400,
			`state is "done", expected some of waiting, running, succeeded, failed, timed_out, cancelled, lost, skipped, missed`},
		{"/api/v1/runs?before=yesterday", 400,
			`before is "yesterday", expected a run's id, a UUID`},
		{"/api/v1/runs?before=" + id(777).String(), 400,
			"before is " + id(777).String() + ", expected the id of a run in the history"},
		{"/api/v1/runs?status=failed", 400,
			`parameter "status" is unknown, expected some of job, group, state, reason, replica, resource, error, backfill, from, until, limit, before, after`},
		{"/api/v1/runs?a;b", 400, "The query can't be read: invalid semicolon separator in query"},
		{"/api/v1/locks?job=x", 400, `parameter "job" is unknown: this address takes none`},
		{"/api/v1/overview?x=1", 400, `parameter "x" is unknown: this address takes none`},
		{"/api/v1/runs/42", 400, `id is "42", expected a run's id, a UUID`},
		{"/api/v1/runs/" + id(777).String(), 404, "run " + id(777).String() + ": not found"},
		{"/api/v1/jobs/merge-event/explain", 404,
			`unknown job "merge-event"; did you mean "merge-events"?`},
		{"/api/v1/jobs/merge-events/explain?at=yesterday", 400,
			`at is "yesterday", expected a time such as 2026-01-31T09:00:00Z, 2026-01-31 09:00, yesterday 09:00, -2h or now`},
		{"/api/v1/jobs/merge-events/explain?scheduled_at=x", 400,
			`parameter "scheduled_at" is unknown, expected some of at`},
		{"/api/v1/jobs/nobody", 404, `job "nobody": not found`},
		{"/api/v1/nothing", 404, "This page does not exist."},
		{"/api/", 404, "This page does not exist."},
	}
	for _, c := range cases {
		reply := get(t, handler, c.path)
		var body map[string]string
		if err := json.Unmarshal(reply.Body.Bytes(), &body); err != nil {
			t.Errorf("%s: %v in %q", c.path, err, reply.Body)
			continue
		}
		if want := map[string]string{"error": c.text}; reply.Code != c.status ||
			cmp.Diff(want, body) != "" {
			t.Errorf("%s: %d %v, want %d %v", c.path, reply.Code, body, c.status, want)
		}
	}
}

func TestRunFilters(t *testing.T) {
	o := contention()
	handler := newServer(t, o).Handler()
	ask := func(query url.Values) []storage.Record {
		t.Helper()
		reply := get(t, handler, "/api/v1/runs?"+query.Encode())
		var runs []storage.Record
		if err := json.Unmarshal(reply.Body.Bytes(), &runs); err != nil ||
			reply.Code != http.StatusOK {
			t.Fatalf("%v: got %d %v %s, want 200", query, reply.Code, err, reply.Body)
		}
		return runs
	}
	filters := []url.Values{
		{"job": {"sync-vendors"}},
		{"state": {"failed", "lost,timed_out"}},
		{"replica": {"replica-4"}},
		{"job": {"merge-events"}, "state": {"succeeded"}, "limit": {"1"}},
	}
	for i, want := range []int{2, 3, 1, 1} {
		if got := ask(filters[i]); len(got) != want {
			t.Errorf("%v: %d runs, want %d", filters[i], len(got), want)
		}
	}
	last := o.Store.(*history).filters
	if got, want := last[1].States,
		[]jobs.State{jobs.Failed, jobs.Lost, jobs.TimedOut}; !slices.Equal(got, want) {
		t.Errorf("got requested states %v, want %v", got, want)
	}
	if last[0].Limit != 100 {
		t.Errorf("limit is %d, want 100 by default", last[0].Limit)
	}
}

func TestRunPagesCoverAllRuns(t *testing.T) {
	o := contention()
	handler := newServer(t, o).Handler()
	var seen []string
	path := "/api/v1/runs?limit=5"
	for path != "" {
		reply := get(t, handler, path)
		var runs []storage.Record
		if err := json.Unmarshal(reply.Body.Bytes(), &runs); err != nil {
			t.Fatal(err)
		}
		for _, run := range runs {
			seen = append(seen, run.ID.String())
		}
		path = linkTo(reply, "next")
	}
	var want []string
	for _, run := range o.Store.(*history).runs {
		want = append(want, run.ID.String())
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}

// TestLongestPagesCoverAll follows the links of pages with the largest limit. They must cover all
// entries, also if the last page but one is full.
func TestLongestPagesCoverAll(t *testing.T) {
	store := func(n int, others ...storage.JobView) *history {
		h := &history{now: noon, jobs: others}
		for i := range n {
			v := job(fmt.Sprintf("job-%04d", i), "0 2 * * *")
			h.jobs = append(h.jobs, v)
			h.runs = append(h.runs, done(n-i, v.Name, "replica-1",
				time.Duration(i+1)*time.Minute, time.Second, jobs.Succeeded))
		}
		return h
	}
	grouped := job("a", "0 2 * * *")
	grouped.Group = "a-group"
	next := regexp.MustCompile(`href="([^"]*)" rel="next"`)
	for _, c := range []struct {
		store *history
		path  string
	}{{store(storage.MaxBatch + 2), "/runs"}, {store(storage.MaxBatch + 2), "/jobs"},
		{store(2*storage.MaxBatch+2, grouped), "/jobs"}} {
		handler := newServer(t, options(c.store)).Handler()
		body, n := "", 0
		for path := c.path + "?limit=1000"; path != ""; n++ {
			if n == 10 {
				t.Fatalf("%s: got a link to page %s after 10 pages, want an end", c.path, path)
			}
			page := get(t, handler, path).Body.String()
			body += page
			found := next.FindStringSubmatch(page)
			if path = ""; found != nil {
				path = html.UnescapeString(found[1])
			}
		}
		for _, v := range c.store.jobs {
			if v.Group == "" && !strings.Contains(body, `href="/jobs/`+v.Name+`"`) {
				t.Fatalf("%s: no page has job %s", c.path, v.Name)
			}
		}
	}
}

// linkTo returns the target of the response's Link header with the relation, or "".
func linkTo(reply *httptest.ResponseRecorder, rel string) string {
	match := regexp.MustCompile(`<([^>]*)>; rel="` + rel + `"`).
		FindStringSubmatch(reply.Header().Get("Link"))
	if match == nil {
		return ""
	}
	return match[1]
}

func TestJobNameWithSlash(t *testing.T) {
	reply := get(t, newServer(t, contention()).Handler(), "/api/v1/jobs/report%2Fweekly")
	if reply.Code != http.StatusOK ||
		!bytes.Contains(reply.Body.Bytes(), []byte(`"name": "report/weekly"`)) {
		t.Errorf("got %d %s, want 200 and the job report/weekly", reply.Code, reply.Body)
	}
}

// TestEveryReplicaAnswersTheSame requests the same pages from replicas in other time zones, whose
// store lists things in another order.
func TestEveryReplicaAnswersTheSame(t *testing.T) {
	first, second := contention(), contention()
	second.Replica, second.Version = "replica-2", "0.3.0"
	elsewhere := time.FixedZone("elsewhere", 5*3600)
	h := second.Store.(*history)
	h.now = h.now.In(elsewhere)
	slices.Reverse(h.locks)
	slices.Reverse(h.jobs)
	slices.Reverse(h.replicas)
	for i := range h.locks {
		h.locks[i].Since = h.locks[i].Since.In(elsewhere)
	}
	for i := range h.runs {
		h.runs[i].ScheduledAt, h.runs[i].CreatedAt = h.runs[i].ScheduledAt.In(elsewhere),
			h.runs[i].CreatedAt.In(elsewhere)
		h.runs[i].WaitSince = h.runs[i].WaitSince.In(elsewhere)
	}
	for _, path := range []string{"locks", "locks/tree", "locks/timeline",
		"locks/timeline?span=24h", "locks/contention", "locks/upcoming", "jobs", "runs", "grid",
		"agenda", "search?q=replica", "replicas", "overview", "jobs/prune-orders", "runs/" + id(10).String()} {
		a := get(t, newServer(t, first).Handler(), "/api/v1/"+path).Body.String()
		b := get(t, newServer(t, second).Handler(), "/api/v1/"+path).Body.String()
		if path == "overview" { // names the replica that answers
			b = strings.Replace(b, `"replica":"replica-2","version":"0.3.0"`,
				`"replica":"replica-1","version":"0.2.0"`, 1)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s differs between replicas:\n%s", path, diff)
		}
	}
}

func TestStoreDown(t *testing.T) {
	handler := newServer(t, down()).Handler()
	const want = "store is unavailable: dial tcp 10.0.3.7:5432: connect: connection refused"
	for _, path := range []string{"locks", "locks/tree", "locks/timeline", "locks/contention",
		"locks/upcoming", "jobs", "jobs/x", "runs", "grid", "search?q=a", "runs/" + id(1).String(),
		"runs?before=" + id(1).String(), "replicas", "overview"} {
		reply := get(t, handler, "/api/v1/"+path)
		var body struct{ Error string }
		if err := json.Unmarshal(reply.Body.Bytes(), &body); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if reply.Code != http.StatusServiceUnavailable ||
			!strings.HasPrefix(body.Error, "The database query failed: ") ||
			!strings.HasSuffix(body.Error, want) {
			t.Errorf("%s: got %d %q, want 503 and the error of the store", path, reply.Code,
				body.Error)
		}
	}
}

func TestStaleOverview(t *testing.T) {
	o := contention()
	h := o.Store.(*history)
	handler := newServer(t, o).Handler()
	read := func() (status int, overview Overview) {
		reply := get(t, handler, "/api/v1/overview")
		if err := json.Unmarshal(reply.Body.Bytes(), &overview); err != nil {
			t.Fatal(err)
		}
		return reply.Code, overview
	}
	_, before := read()
	h.err = storage.ErrUnavailable
	status, during := read()
	if status != http.StatusServiceUnavailable || !during.Stale || during.Error == "" {
		t.Errorf("during: %d, stale %t, error %q", status, during.Stale, during.Error)
	}
	if len(during.Waiting) != len(before.Waiting) || during.Summary != before.Summary ||
		!during.Now.Equal(before.Now) {
		t.Errorf("stale state is not the last: %+v", during)
	}
	h.err = nil
	if status, after := read(); status != http.StatusOK || after.Stale || after.Error != "" {
		t.Errorf("after: %d, stale %t, error %q", status, after.Stale, after.Error)
	}
}
