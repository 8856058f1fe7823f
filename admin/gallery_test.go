package admin

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// galleryState is one state of a page with its expected contents.
type galleryState struct {
	name    string
	options Options
	path    string
	status  int
	before  func(t *testing.T, s *Server)
	sent    url.Values // if set, the state is the response to this form
	has     []string
}

func (g galleryState) address() string { return cmp.Or(g.path, "/") }

func galleryStates() []galleryState { return append(pageStates(), formStates()...) }

func pageStates() []galleryState {
	stale := contention()
	states := []galleryState{
		{name: "empty", options: empty(), has: []string{
			"No replica is registered. No tables are known. No run is running or waiting.",
			"No tables yet.", "No firings.",
		}},
		{name: "calm", options: calm(),
			has: []string{"Two replicas, all live. 1 of 2 tables held. Runs: one running, " +
				"none waiting.", `<h1 id="headline">Healthy</h1>`}},
		{name: "contention", options: contention(), has: []string{
			"Four replicas: two live, one late, one lost.", "holds " + tailOf("public/orders"), "42 min",
			"Replica replica-4 is lost and not back.",
		}},
		{name: "fifty", options: fifty(), has: []string{"25 of 50 tables held", "more running"}},
		{name: "hostile", options: hostile(), has: []string{"&lt;script&gt;"}},
		{name: "layers", options: layers(),
			has: []string{"covered by the exclusive lock on", "1 lock within it", "expired"}},
		{name: "memcached", options: watched(), path: "/replicas", has: []string{
			"as <bdi>replica-1</bdi> sees it", "12,041 entries, 4 of 128 MB, 131 connections",
			"evicted 4 entries", "evictions is on", ": start it with -M",
			"idle_timeout is 60", "connect: connection refused", ">unknown<",
		}},
		{name: "drift", options: drifting(), has: []string{
			"two different cron tables",
			"rollup-sales: replica-1 and replica-4 have an older definition",
			"Replica replica-4 cannot start runs: its clock is 1m1.25s behind",
		}},
		{name: "down", options: down(), status: http.StatusServiceUnavailable, has: []string{
			"The database does not answer", "connection refused",
			"This replica has no cached state to show.",
		}},
		{name: "stale", options: stale, status: http.StatusServiceUnavailable, has: []string{
			"PostgreSQL does not answer",
			"The page shows the state that <bdi>replica-1</bdi> cached",
			"holds " + tailOf("public/orders"),
		}, before: func(t *testing.T, s *Server) {
			get(t, s.Handler(), "/")
			stale.Store.(*history).err = down().Store.(*history).err
		}},
		{name: "stopped", options: calm(), path: "/?refresh=off",
			has: []string{`<span>Updates paused</span>`, `<a href="/">Resume updates</a>`}},
		{name: "overview-busy", options: busy(), has: []string{"Failed or skipped, 24&nbsp;h"}},
		{name: "overview-ten-thousand", options: tenThousand(),
			has: []string{"of 200 tables held"}},
		{name: "not-found", options: calm(), path: "/nothing", status: http.StatusNotFound,
			has: []string{"404 Not Found", `<a class="button plain" href="/search">Show search</a>`,
				`id="search"`}},
		{name: "bad-request", options: calm(), path: "/runs?state=done",
			status: http.StatusBadRequest,
			has:    []string{"state is &#34;done&#34;, expected some of"}},

		{name: "explain", options: contention(),
			path: "/jobs/rollup-sales/explain?at=2026-03-14T02:30:08Z",
			has:  []string{"Explain another time", "Runs of this firing"}},
		{name: "explain-now", options: busy(), path: "/jobs/rollup-sales/explain",
			has: []string{"Not scheduled"}},
		{name: "explain-wrong", options: busy(), path: "/jobs/rollup-sales/explain?at=yesterday",
			status: http.StatusBadRequest,
			has:    []string{"at is &#34;yesterday&#34;, expected a time"}},
		staleState("explain-stale", contention(),
			"/jobs/rollup-sales/explain?at=2026-03-14T02:30:08Z", "Runs of this firing"),
		{name: "jobs", options: busy(), path: "/jobs",
			has: []string{"every 5 minutes, Berlin time", "warehouse", "paused",
				"only when triggered", "role=\"img\" aria-label=\"last 20 runs: ",
				`class="num p3 gone">3.0 s</td>`}},
		{name: "jobs-empty", options: empty(), path: "/jobs",
			has: []string{"No jobs yet."}},
		{name: "jobs-one", options: one(), path: "/jobs", has: []string{"nightly"}},
		{name: "jobs-ten-thousand", options: tenThousand(), path: "/jobs?paused=no",
			has: []string{"tenant-00049/load", `rel="next"`, `<span class="n">10,000</span>`}},
		{name: "jobs-many-groups", options: tenThousand(), path: "/jobs",
			has: []string{"20 of 500 jobs<span", "Group of 500 jobs"}},
		{name: "jobs-groups", options: grouped(), path: "/jobs", has: []string{
			"2 jobs<span", `<span class="badge failed">1 failed</span>`}},
		{name: "jobs-middle", options: tenThousand(),
			path: "/jobs?group=region-03&after=tenant-04000%2Fload&state=",
			has:  []string{`rel="prev"`, `rel="next"`, "Clear filters"}},
		{name: "jobs-families", options: families(), path: "/jobs",
			has: []string{`<bdi class="name">shard-compact.*</bdi>`, "5 jobs<span",
				`<bdi class="name">tenant-rollup-*</bdi>`, "1 failed", "3 succeeded"}},
		{name: "jobs-sorted", options: busy(), path: "/jobs?sort=next&order=desc",
			has: []string{`aria-sort="descending"`, `data-slots=""`}},
		{name: "jobs-failing", options: ordered(), path: "/jobs?state=failing",
			has: []string{"charlie", `Failing <span class="n bad">1`}},
		{name: "jobs-durations", options: tenThousand(), path: "/jobs?sort=duration",
			has: []string{"not known yet"}},
		{name: "jobs-none", options: busy(), path: "/jobs?text=nothing",
			has: []string{"No jobs match."}},
		{name: "jobs-hostile", options: hostile(), path: "/jobs", has: []string{"&lt;script&gt;"}},
		{name: "jobs-down", options: down(), path: "/jobs", status: http.StatusServiceUnavailable,
			has: []string{"does not answer", "has no cached copy of this page"}},
		staleState("jobs-stale", busy(), "/jobs", "every 5 minutes"),

		{name: "job-daily", options: busy(), path: "/jobs/prune-orders",
			has: []string{"<bdi>Europe/Berlin</bdi>, job", "<bdi>2026-03-15 02:30:00</bdi></td>",
				"has another definition of this job than the active one"}},
		{name: "job", options: busy(), path: "/jobs/rollup-sales",
			has: []string{"Duration", "at the median", "Start delay", "Direct dependents",
				"Their dependents", `<a class="date`, "/jobs/rollup-sales/explain?at=",
				"Saved state", "Last backfill", "All backfills of this job", "81244",
				"Next scheduled times", "every 5 minutes", "Outcomes", "public/sales_rollup",
				"DELETE FROM sales_rollup", "<bdi>chat</bdi>",
				"A firing is skipped while an earlier run of the job is active."}},
		{name: "job-many-dependents", options: busy(), path: "/jobs/rollup-stock",
			has: []string{"0 dependencies and 15 dependents", "and 3 more"}},
		{name: "job-secrets", options: busy(), path: "/jobs/sync-vendors",
			has: []string{"https://[redacted]@vendors.example/prices"}},
		{name: "job-paused", options: busy(), path: "/jobs/report%2Fmonthly",
			has: []string{"The group <bdi>reports</bdi> is paused", "the quarter is being closed",
				"does not have this job in its cron table"}},
		{name: "job-absent", options: absent(), path: "/jobs/report%2Fmonthly",
			has: []string{"on no replica", "No live replica has had this job since"}},
		{name: "job-never-ran", options: busy(), path: "/jobs/reindex",
			has: []string{"The job has not run yet.", "only when triggered",
				"This replica knows no next scheduled time."}},
		{name: "job-under-way", options: contention(), path: "/jobs/rollup-sales",
			has: []string{"Active runs"}},
		{name: "job-hostile", options: hostile(),
			path: "/jobs/" + url.PathEscape(`<script>alert(1)</script>`),
			has:  []string{"&lt;script&gt;"}},
		{name: "job-unknown", options: busy(), path: "/jobs/nobody", status: http.StatusNotFound,
			has: []string{"job &#34;nobody&#34;: not found"}},
		{name: "job-down", options: down(), path: "/jobs/nobody",
			status: http.StatusServiceUnavailable, has: []string{"does not answer"}},
		staleState("job-stale", busy(), "/jobs/rollup-sales", "Duration"),

		{name: "runs", options: contention(), path: "/runs",
			has: []string{`href="/locks/timeline?resource=public%2forders">`, "</a> is locked by",
				"An earlier run of the job is active.", "its replica was lost"}},
		{name: "runs-counted", options: countedRuns(), path: lastHour,
			has: []string{`<span class="n bad">10</span>`, "511 runs, 2 on this page"}},
		{name: "runs-filtered", options: busy(),
			path: "/runs?job=rollup-sales&state=skipped,failed&state=lost&reason=&resource=public%2Fsales_rollup&from=2026-03-13T00%3A00", has: []string{"Clear filters</a>", `name="state" value="skipped"`, "state: skipped, failed, lost", `value="2026-03-13T00:00"`}},
		{name: "runs-middle", options: tenThousand(), path: "/runs?before=" + id(20_500).String(),
			has: []string{`rel="prev"`, `rel="next"`}},
		{name: "runs-news", options: contention(), path: "/runs?newest=2026-03-14T03:12:10Z",
			has: []string{"1 new run. <a"}},
		{name: "runs-many-news", options: busy(), path: "/runs?newest=2026-03-14T01:12:10Z",
			has: []string{" new runs. <a"}},
		{name: "runs-mistake", options: busy(), path: "/runs?q=reason%3Alock_hold",
			has: []string{"No reason is &#34;lock_hold&#34;; did you mean &#34;lock_held&#34;?"}},
		{name: "runs-empty", options: empty(), path: "/runs",
			has: []string{"No runs yet."}},
		{name: "runs-none", options: busy(), path: "/runs?reason=panic",
			has: []string{"No runs match."}},
		{name: "runs-hostile", options: hostile(), path: "/runs", has: []string{"&lt;script&gt;"}},
		{name: "runs-down", options: down(), path: "/runs", status: http.StatusServiceUnavailable,
			has: []string{"does not answer"}},
		staleState("runs-stale", contention(), "/runs", "its replica was lost"),

		{name: "backfills", options: backfilled(), path: "/backfills", has: []string{
			"Active backfills", "Ended backfills", "rollup-sales", "by <bdi>ann</bdi>",
			"new prices", "120 left out", "its job was removed", ">Cancel backfill<"}},
		{name: "backfills-filtered", options: backfilled(),
			path: "/backfills?job=sync-vendors&state=cancelled",
			has:  []string{"cancelled by bob", "Clear filters"}},
		{name: "backfills-many", options: manyBackfills(), path: "/backfills",
			has: []string{"All active backfills", `rel="next"`}},
		{name: "backfills-none", options: backfilled(), path: "/backfills?job=nobody",
			has: []string{"No backfills match."}},
		{name: "backfills-empty", options: empty(), path: "/backfills",
			has: []string{"No backfills yet.", "scheduler backfill JOB --from TIME --to TIME"}},
		{name: "backfills-hostile", options: hostile(), path: "/backfills",
			has: []string{"&lt;script&gt;"}},
		{name: "backfills-down", options: down(), path: "/backfills",
			status: http.StatusServiceUnavailable, has: []string{"does not answer"}},
		staleState("backfills-stale", backfilled(), "/backfills", "Active backfills"),
		{name: "backfill", options: backfilled(), path: backfillAddress(activeBackfill),
			has: []string{"139 of 216 done", "Unsuccessful runs", "All runs of this backfill",
				"Cancel backfill", "Handled until"}},
		{name: "backfill-paused", options: actionOptions(backfilled(), paused(storage.Target{
			Kind: storage.TargetJob, Name: "rollup-sales"}, "the quarter is being closed")),
			path: backfillAddress(activeBackfill),
			has:  []string{"The job is paused", "The backfill continues after the resume."}},
		{name: "backfill-ended", options: backfilled(), path: backfillAddress(endedBackfill),
			has: []string{"The backfill was cancelled", "190 not handled",
				"The backfill added no runs."}},
		{name: "backfill-hostile", options: hostile(), path: backfillAddress(activeBackfill),
			has: []string{"&lt;script&gt;"}},
		{name: "backfill-unknown", options: backfilled(), path: backfillAddress(1),
			status: http.StatusNotFound, has: []string{": not found"}},
		staleState("backfill-stale", backfilled(), backfillAddress(activeBackfill),
			"139 of 216 done"),
		{name: "runs-of-backfill", options: backfilled(),
			path: param.RunsOfBackfillPath(id(activeBackfill)),
			has:  []string{"backfill: …", ">backfill</span>"}},
		{name: "run-of-backfill", options: backfilled(), path: param.RunPath(id(700)),
			has: []string{"Added by backfill", backfillAddress(activeBackfill)}},

		{name: "grid", options: night(), path: "/grid", has: []string{
			"a column is 30 min", `class="cell skipped"`, `class="cell running"`, "6 of 13",
			"the newest 97 runs are in the columns"}},
		{name: "grid-groups", options: grouped(), path: "/grid?span=6h", has: []string{
			`href="/grid?group=night&amp;span=6h"`, "Without a group"}},
		{name: "grid-families", options: families(), path: "/grid?span=6h", has: []string{
			`aria-expanded="false"`, "shard-compact.*", "5 jobs", "adds up jobs that differ only"}},
		{name: "grid-family-open", options: families(),
			path: "/grid?span=6h&open=tenant-rollup-hooli",
			has:  []string{`aria-expanded="true"`, `class="member"`, "; failed: tenant-rollup-hooli"}},
		{name: "grid-paused", options: pausedGrid(), path: "/grid?span=6h",
			has: []string{`class="cell paused"`, "because of a pause", "A dotted cell"}},
		{name: "grid-failures", options: grouped(), path: "/grid?only=failures-or-skips",
			has: []string{`aria-current="true">Failed or skipped`, "rebuild", "zones"}},
		{name: "grid-no-failures", options: grouped(), path: "/grid?only=failures&text=zones",
			has: []string{"No jobs match in this time."}},
		{name: "grid-week", options: night(), path: "/grid?span=7d&group=",
			has: []string{"a column is 4 h"}},
		{name: "grid-month", options: night(), path: "/grid?span=30d",
			has: []string{"a column is 1 d", ">30 days</a>"}},
		{name: "grid-earlier", options: night(), path: "/grid?until=2026-03-14T02:00&span=6h",
			has: []string{">Later</a>", "a column is 15 min"}},
		{name: "grid-empty", options: empty(), path: "/grid", has: []string{"No jobs yet."}},
		{name: "grid-none", options: busy(), path: "/grid?text=nothing",
			has: []string{"No jobs match."}},
		{name: "grid-ten-thousand", options: tenThousand(), path: "/grid",
			has: []string{`rel="next"`}},
		{name: "grid-hostile", options: hostile(), path: "/grid",
			has: []string{"&lt;script&gt;"}},
		{name: "grid-down", options: down(), path: "/grid",
			status: http.StatusServiceUnavailable, has: []string{"does not answer"}},
		staleState("grid-stale", night(), "/grid", `class="cell skipped"`),

		{name: "agenda", options: withUpcoming(night()), path: "/agenda", has: []string{
			"firings of 7 jobs are scheduled until", "are expected to wait for another job",
			"The same as a table"}},
		{name: "agenda-hours", options: hourly(), path: "/agenda?hours=all",
			has: []string{"First hours</a>", "1 wait</span>", "10 min"}},
		{name: "agenda-skips", options: impatient(), path: "/agenda?span=1h&conflicts=yes",
			has: []string{"a skip is expected, because load holds public/orders", "1 skipped",
				"skip expected"}},
		{name: "agenda-paused", options: pausedHourly(), path: "/agenda?span=1h",
			has: []string{"1 paused job starts no runs", "paused by bob"}},
		{name: "agenda-hour", options: hourly(), path: "/agenda?span=1h",
			has: []string{"report scheduled 2026-03-14 04:05:00 UTC, waits 5 min", "60 firings",
				`class="waitbar"`}},
		{name: "agenda-none", options: hourly(), path: "/agenda?text=nothing",
			has: []string{"No jobs match."}},
		{name: "agenda-empty", options: empty(), path: "/agenda",
			has: []string{"This replica knows no firings in this time.", "No firings."}},
		{name: "agenda-ten-thousand", options: withUpcoming(rush()), path: "/agenda",
			has: []string{"simulation ends after 50,000 scheduled times", `rel="next"`}},
		{name: "agenda-hostile", options: withUpcoming(hostile()), path: "/agenda",
			has: []string{"&lt;script&gt;"}},
		{name: "agenda-down", options: down(), path: "/agenda",
			status: http.StatusServiceUnavailable, has: []string{"does not answer"}},
		staleState("agenda-stale", hourly(), "/agenda?span=1h", "60 firings"),

		{name: "search", options: contention(), path: "/search?q=rollup", has: []string{
			"All jobs with this text", "public/sales_rollup", `id="search"`, "Keyboard"}},
		{name: "search-runs", options: fifty(), path: "/search?q=0195912a",
			has: []string{"There are more results than these 20 of each kind."}},
		{name: "search-start", options: calm(), path: "/search",
			has: []string{"Enter a part of the name"}},
		{name: "search-none", options: calm(), path: "/search?q=nothing",
			has: []string{"Nothing has “<bdi>nothing</bdi>” in its name"}},
		{name: "search-hostile", options: hostile(), path: "/search?q=%3Cscript",
			has: []string{"&lt;script&gt;"}},
		{name: "search-down", options: down(), path: "/search?q=a",
			status: http.StatusServiceUnavailable, has: []string{"does not answer"}},

		{name: "run-failed", options: story(), path: "/runs/" + id(302).String(),
			has: []string{"Started, attempt 3 was the last", "giving up after 3 attempts",
				"503 Service Unavailable", "public/vendors was held by job report/weekly",
				"Attempt 3 waited 6.0 s", "public/vendors was held by job load-prices",
				"Waited for public/vendors, held by load-prices, from",
				"<bdi>waited 6.0 s for public/vendors, held by load-prices</bdi>",
				"failed<span class=\"place\"> on <bdi>replica-1</bdi></span>"}},
		{name: "run-attempt", options: story(), path: "/runs/" + id(302).String() + "?attempt=1",
			has: []string{`<span class="a-32">INF</span> page 1`,
				`<span class="a-1 a-31">ERR</span> &lt;b&gt;502&lt;/b&gt; from the vendor^[[9`,
				"<bdi>vendor api: 502 Bad Gateway</bdi></pre>", "ran 12 s, <bdi>replica-1</bdi>", "2 lines",
				`aria-label="Output of attempt 1"`, "retry wait 5.0 s", "Attempt 2 timed out"}},
		{name: "run-search", options: story(),
			path: "/runs/" + id(302).String() + "?attempt=3&find=prices&match=17",
			has:  []string{"17</b> of 40 matches", ">Clear search<", `<li id="L17" class="here">`}},
		{name: "run-search-none", options: story(),
			path: "/runs/" + id(302).String() + "?attempt=3&find=nowhere",
			has:  []string{"No line contains the text."}},
		{name: "run-attempt-without-output", options: story(),
			path: "/runs/" + id(302).String() + "?attempt=2", has: []string{"No output."}},
		{name: "run-attempt-unknown", options: story(),
			path: "/runs/" + id(302).String() + "?attempt=7", status: http.StatusNotFound,
			has: []string{"attempt 7"}},
		{name: "run-many-attempts", options: everRetried(), path: "/runs/" + id(401).String(),
			has: []string{"Earlier attempts", "The last 12 attempts are shown", "Not started",
				"Error of attempt 40",
				`<li id="L7">`, "Lines 8 to 1800 are hidden.", "Show all 2,000 lines",
				`<li id="L1801">`}},
		{name: "run-triggered", options: story(), path: "/runs/" + id(303).String(),
			has: []string{"Params of this run", "&#34;rows&#34;: 18240", "Triggered"}},
		{name: "run-lost", options: story(), path: "/runs/" + id(300).String(),
			has: []string{"Runs of this firing", "its replica was lost"}},
		{name: "run-running", options: contention(), path: "/runs/" + id(10).String(),
			has: []string{"Held locks", "public/sales_rollup",
				"No output yet.", "Advisory lock taken"}},
		{name: "run-waiting", options: contention(), path: "/runs/" + id(21).String(),
			has: []string{"Waits", "public/orders is held by job rollup-sales"}},
		{name: "run-skipped", options: contention(), path: "/runs/" + id(30).String(),
			has: []string{"public/orders was held by job rollup-sales on replica-1</bdi>. Run",
				"Skipped", "Blocked by", `<p class="note warn">`,
				"has run for <time", "No output. The run did not start."}},
		{name: "run-hostile", options: hostile(), path: "/runs/" + id(3).String(),
			has: []string{"&lt;script&gt;"}},
		{name: "run-unknown", options: calm(), path: "/runs/" + id(777).String(),
			status: http.StatusNotFound, has: []string{": not found"}},
		staleState("run-stale", contention(), "/runs/"+id(10).String(), "Held locks"),

		{name: "replicas", options: contention(), path: "/replicas",
			has: []string{"replica-4", "lost", "rollup-sales", "answers",
				`<h1>Replicas <span class="count">3 of 4 live</span></h1>`,
				"Replica replica-4 is lost and not back.",
				`<a href="/runs?replica=replica-4&amp;state=lost">Show lost runs`}},
		{name: "replicas-day", options: replicaDay(), path: "/replicas",
			has: []string{"Last 24 h", "draining, live for", "was lost: its session expired",
				"The same as a table"}},
		{name: "replicas-many", options: manySessions(), path: "/replicas",
			has: []string{"5 replicas that ended earlier are not shown."}},
		{name: "replicas-drift", options: drift(), path: "/replicas",
			has: []string{"0.3.0-rc.1", "problems", "-1840 ms", "draining",
				"Jobs with different definitions", `class="tight odd"`}},
		{name: "replicas-databases", options: withDatabases(calm()), path: "/replicas",
			has: []string{"Databases of jobs", "connection refused",
				"is not available to 1 of 2 replicas"}},
		{name: "replicas-empty", options: empty(), path: "/replicas",
			has: []string{"0 of 0 live"}},
		{name: "replicas-hostile", options: hostile(), path: "/replicas",
			has: []string{"&lt;script&gt;"}},
		staleState("replicas-stale", contention(), "/replicas", "replica-4"),

		{name: "audit", options: busy(), path: "/audit",
			has: []string{"rollup hangs on a dead vendor connection", "paused", "group reports",
				`<dd><time class="clock" datetime="2026-03-14T05:00:00Z"`, `class="verb"`}},
		{name: "audit-empty", options: calm(), path: "/audit",
			has: []string{"No actions yet."}},
		{name: "audit-none", options: busy(), path: "/audit?actor=nobody",
			has: []string{"No entries match."}},
		{name: "audit-down", options: down(), path: "/audit", status: http.StatusServiceUnavailable,
			has: []string{"does not answer"}},
		staleState("audit-stale", busy(), "/audit", "group reports"),
	}
	return append(states, lockGallery()...)
}

// staleState returns a state that shows a cached page while the store is unavailable.
func staleState(name string, o Options, path string, has ...string) galleryState {
	return galleryState{
		name: name, options: o, path: path, status: http.StatusServiceUnavailable,
		has: append(has, "The page shows the state that <bdi>replica-1</bdi> cached",
			`class="stale"`),
		before: func(t *testing.T, s *Server) {
			get(t, s.Handler(), path)
			o.Store.(*history).err = down().Store.(*history).err
		},
	}
}

// one is a cluster with one job that has not run.
func one() Options {
	return options(&history{now: noon,
		jobs:     []storage.JobView{job("nightly", "0 2 * * *", "orders")},
		replicas: []storage.ReplicaView{liveReplica(1, "replica-1", time.Second, 0)}})
}

// TestGallery renders every state of every page. A soak includes the states with thousands of jobs.
// With HOLDFAST_GALLERY set to a folder it writes the pages there.
func TestGallery(t *testing.T) {
	t.Parallel()
	for _, state := range galleryStates() {
		t.Run(state.name, func(t *testing.T) {
			if len(state.options.Store.(*history).jobs) > 1000 {
				// TestTreeOfThousandsIsPaged and TestPagesForwardAndBackward show such pages
				soak.Only(t)
			}
			server := newServer(t, state.options)
			if state.before != nil {
				state.before(t, server)
			}
			reply := get(t, state.handler(server), state.address())
			if want := cmp.Or(state.status, http.StatusOK); reply.Code != want {
				t.Errorf("status %d, want %d", reply.Code, want)
			}
			body := reply.Body.String()
			for _, want := range state.has {
				if !strings.Contains(flat(body), flat(want)) {
					t.Errorf("page lacks %q", want)
				}
			}
			if strings.Contains(body, "\x1b") {
				t.Error("page has an escape sequence")
			}
			if !strings.HasSuffix(body, "</html>\n") {
				t.Error("end of the page: got none, want </html>")
			}
			writeGallery(t, state.name, server, body)
		})
	}
}

// flat returns a page without the white space that has no effect: line breaks are blanks, and there
// are none between elements.
func flat(page string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(page), " "), "> <", "><")
}

// writeGallery writes a page and its assets into the folder that HOLDFAST_GALLERY names, or does
// nothing if it is not set.
func writeGallery(t *testing.T, name string, s *Server, body string) {
	t.Helper()
	folder := os.Getenv("HOLDFAST_GALLERY")
	if folder == "" {
		return
	}
	for plain, file := range s.site.Templates.Assets.ByName {
		body = strings.ReplaceAll(body, "/static/"+file.Hashed, plain)
		if err := os.WriteFile(filepath.Join(folder, plain), file.Body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, name+".html"), []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
}

// newServer is New with templates that all tests share, because parsing and escaping them takes
// longer than the rest of most tests. Its pages may take longer than usual, because the machine may
// be busy.
func newServer(t *testing.T, o Options) *Server {
	t.Helper()
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	templates, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	server, err := build(o, templates)
	if err != nil {
		t.Fatal(err)
	}
	server.site.Queries.Timeout = time.Minute
	return server
}

// get requests the path from loopback.
func get(t *testing.T, handler http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, path, nil)
	request.Host = "127.0.0.1:8080"
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}
