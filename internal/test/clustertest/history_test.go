package clustertest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/test/soak"
)

// The size of the history of TestLongHistory, unless the environment sets another. The pages are
// designed for HOLDFAST_JOBS=10000 HOLDFAST_RUNS=10000000 HOLDFAST_RATE=1000. HOLDFAST_HISTORY
// names a database that the test keeps. The test fills it only if it has no runs. HOLDFAST_PAGES is
// a regular expression: the test requests only the addresses that match it. HOLDFAST_JITTER spreads
// the firings of each second over this time.
const (
	fewJobs = 300
	// Only histories with more runs than in a soak are compared with slowest.
	soakRuns = 20_000
	// slowest is the limit of the 99th percentile of each kind of page with a long history.
	slowest = 100 * time.Millisecond
	// answerLimit ends a request that hangs. In a soak, tests of other packages use the processors.
	answerLimit = 3 * time.Minute
	// samples is the number of requests of each kind of page, or more, with a long history.
	samples = 200
)

// history is a database with many jobs and old runs, and its replicas.
type history struct {
	*cluster
	jobs, runs int // the jobs are those of the past runs
	rate       int // firings a second during the measurement, each of another job
	base       string
	middle     string // the id of a run in the middle
	times      map[string][]timing
}

// timing is the time of one answer.
type timing struct {
	path  string
	bytes int
	took  time.Duration
}

// The test requests every page and its JSON twin with every combination of parameters. Each
// parameter has a value with many rows and one with few. With HOLDFAST_RATE three replicas fire
// that number of the jobs every second meanwhile.
func TestLongHistory(t *testing.T) {
	soak.Only(t)
	t.Parallel()
	h := &history{runs: fromEnvironment(t, "HOLDFAST_RUNS", soakRuns),
		rate: fromEnvironment(t, "HOLDFAST_RATE", 0), times: make(map[string][]timing)}
	h.jobs = fromEnvironment(t, "HOLDFAST_JOBS", fewJobs) - h.rate
	h.cluster = newCluster(t, settings{stock: h.rate == 0, url: os.Getenv("HOLDFAST_HISTORY"),
		jobs:    manyJobs(h.jobs) + frequentJobs(h.rate),
		history: "8760h", refresh: "1h", limit: 15 * time.Minute})
	if h.runs > soakRuns { // may exceed the time limit of a test
		h.ctx = t.Context()
	}
	h.start("a") // creates the tables and registers the jobs
	if err := h.replicas["a"].Stop(h.ctx); err != nil {
		t.Fatal(err)
	}
	if !h.filled() {
		h.fill()
	}
	h.start("a")
	if h.rate > 0 {
		h.start("b", "c")
		h.awaitValue("all frequent jobs fire", `SELECT count(*) >= $1 FROM holdfast.runs
			WHERE created_at > now() - interval '2 seconds' AND state = 'succeeded'`, h.rate)
		h.forgetDowntime()
	}
	h.base = h.replicas["a"].URL
	h.middle = askOne[string](h.cluster,
		`SELECT id::text FROM holdfast.runs WHERE created_at > (SELECT min(created_at) + (max(created_at) - min(created_at)) / 2 FROM holdfast.runs) ORDER BY created_at, id LIMIT 1`)
	began := time.Now()
	for _, path := range h.requests() {
		h.time(path)
	}
	h.report(time.Since(began))
}

// forgetDowntime deletes the firings that the frequent jobs missed while no replica ran, because a
// database that the test keeps would have more of them than other unsuccessful runs. The misfire
// checks record them for some time after the start.
func (h *history) forgetDowntime() {
	h.t.Helper()
	h.awaitValue("the misfire checks have passed the downtime", `SELECT $1 = (SELECT count(*)
		FROM holdfast.jobs WHERE name LIKE 'often-%' AND checked_until > $2)`, h.rate, time.Now())
	for _, statement := range []string{
		`DELETE FROM holdfast.runs WHERE unsuccessful_state IS NOT NULL AND job LIKE 'often-%'`,
		"VACUUM ANALYZE"} {
		if _, err := h.db.Exec(h.ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			h.t.Fatal(err)
		}
	}
}

// frequentJobs returns a cron table of jobs that fire every second and lock one table each.
func frequentJobs(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "  - {name: often-%04d, schedule: {every: 1s}, handler: nothing, "+
			"timeout: 20s, tables: [often.t%d], jitter: %s}\n", i, i,
			cmp.Or(os.Getenv("HOLDFAST_JITTER"), "0s"))
	}
	return text.String()
}

func fromEnvironment(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// manyJobs returns a cron table of jobs with one scheduled time a day each, at all hours, in 40
// groups. They lock 500 tables of 20 schemas. A tenth of them also lock one semaphore.
func manyJobs(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "  - {name: job-%05d, description: \"Moves things from here to there, "+
			"number %d\", schedule: \"%d %d * * *\", timezone: Europe/Berlin, handler: sql, "+
			"group: group-%d, tables: [s%d.t%d]",
			i, i, i%60, i/60%24, i%40, i%20, i%500)
		if i%10 == 0 {
			text.WriteString(", resources: [{name: vendor-api, slots: 5}]")
		}
		text.WriteString(", params: {statement: SELECT 1}}\n")
	}
	return text.String()
}

// longPast is the SQL of a month of runs, spread evenly over the jobs. One in forty failed or was
// skipped. Some of the youngest run or wait. The ids contain their times, as the scheduler's ids
// do.
const longPast = `
INSERT INTO holdfast.sessions (id, replica, version, ttl, started_at, renewed_at, expires_at)
SELECT ('00000000-0000-7000-8000-00000000000' || n)::uuid, 'replica-' || n, 'test', '1 day', t - interval '1 day', t, t + interval '30 days' FROM generate_series(0, 2) n, clock_timestamp() t;
INSERT INTO holdfast.runs (id, job, scheduled_at, attempt, state, session, replica, token, created_at, started_at, finished_at, reason, detail, blocker, error)
SELECT (lpad(to_hex((extract(epoch FROM t) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(n %% 4096), 3, '0') || '8' || lpad(to_hex(n), 15, '0'))::uuid,
    'job-' || lpad((n::bigint * 7919 %% %[1]d)::text, 5, '0'), t, CASE WHEN state IN ('waiting', 'skipped', 'missed') THEN 0 ELSE 1 END, state,
    ('00000000-0000-7000-8000-00000000000' || n %% 3)::uuid, CASE WHEN n < 50 THEN 'long-gone' ELSE 'replica-' || n %% 3 END,
    CASE WHEN state NOT IN ('waiting', 'skipped', 'missed') THEN nextval('holdfast.tokens') END, t,
    CASE WHEN state NOT IN ('waiting', 'skipped', 'missed') THEN t END, CASE WHEN state NOT IN ('waiting', 'running') THEN t + n %% 90 * interval '1 second' END,
    CASE state WHEN 'skipped' THEN CASE WHEN n %% 3 = 0 THEN 'overlap' ELSE 'lock_held' END WHEN 'waiting' THEN 'lock_held' WHEN 'missed' THEN 'misfire'
        WHEN 'lost' THEN 'session_lost' WHEN 'cancelled' THEN 'cancelled' WHEN 'timed_out' THEN 'timeout' WHEN 'failed' THEN CASE WHEN n %% 200000 = 3 THEN 'panic' ELSE '' END ELSE '' END,
    '', CASE WHEN state IN ('skipped', 'waiting') THEN jsonb_build_object('resource', 'table:s' || n %% 20 || '/t' || n %% 500, 'holder',
        jsonb_build_object('replica', 'replica-1', 'job', 'job-' || lpad((n %% %[1]d)::text, 5, '0'), 'run_id', gen_random_uuid())) END,
    CASE WHEN state = 'failed' THEN 'vendor api: 503 Service Unavailable' ELSE '' END
FROM (SELECT n, now - interval '29 days' + n * (interval '29 days' / %[2]d) AS t, CASE
        WHEN n > %[2]d - 300 THEN 'waiting' WHEN n > %[2]d - 500 THEN 'running' WHEN n %% 1000000 = 7 THEN 'cancelled' WHEN n %% 50000 = 9 THEN 'timed_out'
        WHEN n %% 10000 = 1 THEN 'lost' WHEN n %% 5000 = 2 THEN 'missed' WHEN n %% 200 = 3 THEN 'failed' WHEN n %% 50 = 5 THEN 'skipped' ELSE 'succeeded' END AS state
    FROM generate_series(1, %[2]d) n, (SELECT clock_timestamp() AS now OFFSET 0) c) past;
INSERT INTO holdfast.waits (run, session, since) SELECT id, session, created_at FROM holdfast.runs WHERE state = 'waiting';
INSERT INTO holdfast.claims (token, run, session, granted_at) SELECT token, id, session, created_at FROM holdfast.runs WHERE state = 'running';
INSERT INTO holdfast.grants SELECT d.resource, token, 'shared', 0 FROM holdfast.runs r CROSS JOIN LATERAL (
    SELECT e ->> 'resource' FROM holdfast.definitions d, jsonb_array_elements(d.resources) e WHERE d.job = r.job AND e ->> 'resource' LIKE 'table:%%') d (resource) WHERE state = 'running';
INSERT INTO holdfast.outputs (run, output) SELECT id, repeat('a line of a log' || E'\n', 50) FROM holdfast.runs WHERE state = 'failed' AND created_at > now() - interval '2 days';
INSERT INTO holdfast.audit SELECT gen_random_uuid(), now() - n * interval '25 seconds', 'operator-' || n %% 7, 'page', 'password', '192.0.2.' || n %% 7, md5(n::text), 'replica-' || n %% 3, CASE WHEN n %% 5000 = 0 THEN 'release' ELSE 'pause' END,
    'job job-' || lpad((n %% %[1]d)::text, 5, '0'), 'as agreed', NULL, '', '' FROM generate_series(1, %[2]d / 100) n;
INSERT INTO holdfast.wait_history (run, job, holder, resource, state, since, until) SELECT gen_random_uuid(), 'job-' || lpad((n %% %[1]d)::text, 5, '0'),
    'job-' || lpad((n * 31 %% %[1]d)::text, 5, '0'), 'table:s' || n %% 20 || '/t' || n %% 500, 'running', t - interval '1 minute', t
    FROM generate_series(1, %[2]d / 50) n, LATERAL (SELECT now() - interval '29 days' + n * (interval '29 days' / (%[2]d / 50)) AS t) past;
INSERT INTO holdfast.pauses (id, kind, name, paused_at, paused_by, reason) SELECT gen_random_uuid(), 'job', 'job-' || lpad(n::text, 5, '0'), now(), 'ada', 'as agreed' FROM generate_series(0, 9) n;
INSERT INTO holdfast.tallies SELECT holdfast.quarter(created_at), state, CASE WHEN started_at IS NULL THEN -1 ELSE get_byte(uuid_send(id), 15) %% 6 END, count(*)
    FROM holdfast.runs WHERE finished_at IS NOT NULL GROUP BY 1, 2, 3 ON CONFLICT DO NOTHING;
INSERT INTO holdfast.backfills (id, job, from_at, to_at, parallel, schedule, state, created_at, created_by, reason, ended_at, handled_until, times, runs, succeeded)
SELECT gen_random_uuid(), 'job-' || lpad((n * 7 %% %[1]d)::text, 5, '0'), t - interval '9 days', t - interval '1 day', 2, '0 3 * * * Europe/Berlin', 'completed', t, 'ada', 'as agreed', t + interval '1 hour', t, 8, 8, 8
    FROM generate_series(1, 1000) n, LATERAL (SELECT now() - n * interval '30 minutes' AS t) past`

// indexesOfRuns lists the indexes that fill creates after it has inserted the runs.
const indexesOfRuns = `
SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'holdfast.runs'::regclass AND NOT indisprimary`

// filled reports whether the database has a history.
func (h *history) filled() bool {
	h.t.Helper()
	return askOne[bool](h.cluster,
		`SELECT count(*) > $1 FROM (SELECT FROM holdfast.runs LIMIT $1 + 1) r`, h.runs/2)
}

// fill inserts the history.
func (h *history) fill() {
	h.t.Helper()
	began := time.Now()
	indexes, err := ask[struct{ Name, Definition string }](h.ctx, h.cluster, indexesOfRuns)
	if err != nil {
		h.t.Fatal(err)
	}
	statements := []string{"ALTER TABLE holdfast.runs DISABLE TRIGGER USER"}
	for _, index := range indexes {
		statements = append(statements, "DROP INDEX "+index.Name)
	}
	statements = append(statements, fmt.Sprintf(longPast, h.jobs, h.runs))
	for _, index := range indexes {
		statements = append(statements, index.Definition)
	}
	statements = append(statements, "ALTER TABLE holdfast.runs ENABLE TRIGGER USER")
	for _, statement := range []string{strings.Join(statements, ";\n"), "VACUUM ANALYZE"} {
		// each statement in a transaction of its own
		if _, err := h.db.Exec(h.ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			h.t.Fatal(err)
		}
	}
	h.t.Logf("%d runs of %d jobs were written in %s", h.runs, h.jobs,
		time.Since(began).Round(time.Second))
}

// parameter is a query parameter with a value that many rows match and a value that few or none
// match.
type parameter struct{ much, little string }

// addresses returns the pages with all combinations of their parameters.
func (h *history) addresses() []string {
	h.t.Helper()
	ran, failed := h.aRun("state = 'succeeded'"), h.aRun("state = 'failed'")
	job := func(path string) string { return "/jobs/job-00007" + path }
	hour := "from=" + h.timeBefore("20 days") + "&until=" + h.timeBefore("19 days 23 hours")
	week := "from=" + h.timeBefore("7 days")
	pages := []string{
		"/", "/locks", "/replicas", job(""), "/jobs/job-00000", job("/explain"),
		job("/explain?at=" + h.timeBefore("3 days")), "/runs/" + ran, "/runs/" + failed,
		"/jobs?limit=1000", "/runs?limit=1000", "/audit?limit=1000", "/jobs?text=nothing",
		"/jobs?state=running", "/jobs?state=skipped",
		"/runs?state=skipped,failed,waiting", "/runs?state=running",
		"/runs?resource=slot%3Avendor-api", "/runs?resource=slot%3Avendor-api&state=failed",
		"/runs?replica=replica-1&state=failed&resource=s7%2Ft7",
		"/runs?job=none&state=failed&reason=panic", "/runs?job=job-00007", "/runs?error=vendor",
		"/jobs?sort=next", "/jobs?sort=duration",
	}
	counted := "/runs?from=" + h.quarterBefore("29 days")
	pages = append(pages, counted, counted+"&state=failed,timed_out",
		"/runs?from="+h.quarterBefore("7 days"), "/runs?from="+h.quarterBefore("1 day"))
	pages = append(pages, combined("/jobs", parameter{"text=here", "text=number+77"},
		parameter{"group=group-7", "group=none"},
		parameter{"state=succeeded", "state=timed_out"}, parameter{"source=config", "source=store"},
		parameter{"paused=no", "paused=yes"},
		parameter{"after=job-00200", "before=job-00200"})...)
	pages = append(pages, combined("/runs", parameter{"job=job-00007", "job=none"},
		parameter{"state=succeeded", "state=cancelled"},
		parameter{"reason=lock_held", "reason=panic"},
		parameter{"replica=replica-1", "replica=long-gone"},
		parameter{"resource=s7", "resource=s7%2Ft7"}, parameter{week, hour},
		parameter{"before=" + h.middle, "after=" + h.middle})...)
	pages = append(pages, combined("/audit", parameter{"actor=operator-3", "actor=nobody"},
		parameter{"action=pause", "action=drain"},
		parameter{"target=job+job-00007", "target=run+x"})...)
	for _, page := range []string{"/locks/timeline", "/locks/contention"} {
		pages = append(pages, combined(page, parameter{"span=7d", "span=15m"},
			parameter{"resource=s7", "resource=s7%2Ft7"}, parameter{week, hour})...)
	}
	pages = append(pages, combined("/grid", parameter{"span=7d", "span=6h"},
		parameter{"text=here", "text=number+77"}, parameter{"group=group-7", "group=none"},
		parameter{"until=" + h.timeBefore("1 day"), "until=" + h.timeBefore("20 days")},
		parameter{"only=failures-or-skips", "only=failures"},
		parameter{"after=job-00200", "before=job-00200"})...)
	pages = append(pages, combined("/locks/upcoming",
		parameter{"resource=s7", "resource=s7%2Ft7"})...)
	pages = append(pages, combined("/agenda", parameter{"span=7d", "span=1h"},
		parameter{"text=job", "text=nothing"}, parameter{"conflicts=yes", "conflicts=yes"})...)
	pages = append(pages, "/backfills", "/backfills?job=job-00007", "/backfills/"+
		askOne[string](h.cluster, `SELECT id::text FROM holdfast.backfills LIMIT 1`))
	pages = append(pages, "/webhooks", "/locks/timeline?skip=300", "/search?q=job", "/search?q=s7",
		"/search?q=nothing", "/search?q="+ran[:4], "/search?q="+ran[:8])
	var all []string
	for _, page := range pages {
		all = append(all, page, twin(page))
	}
	// The twin of /locks is a list. The tree has a twin of its own.
	return append(all, combined("/api/v1/locks/tree", parameter{"text=t7", "text=nothing"},
		parameter{"state=waiting", "state=held"}, parameter{"under=s7", "under=s7%2Ft7"})...)
}

func twin(page string) string {
	if page == "/" {
		return "/api/v1/overview"
	}
	return "/api/v1" + page
}

// combined returns the path with all combinations of the parameters, first with the values that
// many rows match, then with the others.
func combined(path string, parameters ...parameter) []string {
	var all []string
	for chosen := range 1 << len(parameters) {
		var much, little []string
		for i, p := range parameters {
			if chosen>>i&1 == 1 {
				much, little = append(much, p.much), append(little, p.little)
			}
		}
		if len(much) == 0 {
			all = append(all, path)
			continue
		}
		all = append(all, path+"?"+strings.Join(much, "&"), path+"?"+strings.Join(little, "&"))
	}
	return all
}

func (h *history) aRun(condition string) string {
	return askOne[string](h.cluster,
		`SELECT id::text FROM holdfast.runs WHERE `+condition+` ORDER BY created_at DESC, id DESC LIMIT 1`)
}

func (h *history) timeBefore(ago string) string {
	return askOne[time.Time](h.cluster, `SELECT clock_timestamp() - $1::interval`, ago).UTC().
		Format("2006-01-02T15:04:05Z")
}

// requests returns the addresses in the order of the requests: each at least once, and with a long
// history so often that each kind has enough samples. The kinds alternate, so that what the
// replica caches for some seconds counts as often as with people.
func (h *history) requests() []string {
	h.t.Helper()
	chosen, err := regexp.Compile(os.Getenv("HOLDFAST_PAGES"))
	if err != nil {
		h.t.Fatal(err)
	}
	all := slices.DeleteFunc(h.addresses(), func(path string) bool {
		return !chosen.MatchString(path)
	})
	if h.runs <= soakRuns {
		return all
	}
	kinds := make(map[string][]string)
	for _, path := range all {
		kinds[kindOf(path)] = append(kinds[kindOf(path)], path)
	}
	for _, paths := range kinds {
		for range (samples - 1) / len(paths) {
			all = append(all, paths...)
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// kindOf returns the kind of page of an address. Lists with the largest limit, which no page links
// to, are kinds of their own.
func kindOf(address string) string {
	path, query, _ := strings.Cut(address, "?")
	parts := strings.Split(path, "/")
	for i, part := range parts[:len(parts)-1] {
		if part == "jobs" || part == "runs" || part == "backfills" {
			parts[i+1] = "{}" // a name or an id
		}
	}
	switch path = strings.Join(parts, "/"); {
	case query == "limit=1000":
		path += "?limit=1000"
	case strings.HasPrefix(query, "from="): // may count all runs of the time
		path += "?from="
	case query != "":
		path += "?"
	}
	return path
}

// quarterBefore returns the beginning of a quarter of an hour, from which pages count runs.
func (h *history) quarterBefore(ago string) string {
	h.t.Helper()
	at, err := time.Parse(time.RFC3339, h.timeBefore(ago))
	if err != nil {
		h.t.Fatal(err)
	}
	return at.Truncate(15 * time.Minute).Format(time.RFC3339)
}

// time measures one answer.
func (h *history) time(path string) {
	h.t.Helper()
	began := time.Now()
	status, body := h.get(h.base + path)
	for try := 1; status == http.StatusServiceUnavailable && h.runs <= soakRuns &&
		try < pageTries; try++ {
		status, body = h.get(h.base + path)
	}
	took := time.Since(began)
	h.times[kindOf(path)] = append(h.times[kindOf(path)], timing{path, len(body), took})
	if status != http.StatusOK {
		h.t.Errorf("%s: %d after %s: %.300s", path, status, took.Round(time.Millisecond), body)
	}
}

func (h *history) get(address string) (int, string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.ctx, answerLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		h.t.Fatal(err) // names the address
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		h.t.Fatalf("%s: %v", address, err)
	}
	return response.StatusCode, string(body)
}

// report logs the times of each kind of page, and fails the test for those that took too long. The
// kind with limit=1000 has no limit.
func (h *history) report(lasted time.Duration) {
	h.t.Helper()
	var lines []string
	for kind, all := range h.times {
		slices.SortFunc(all, func(a, b timing) int { return cmp.Compare(a.took, b.took) })
		// 99 % of the answers took at most p99: the nearest rank.
		p50, p99, most := all[len(all)/2], all[(99*len(all)+99)/100-1], all[len(all)-1]
		lines = append(lines, fmt.Sprintf("%-40s %4d answers, p50 %6.1f ms, p99 %6.1f ms, max "+
			"%6.1f ms, %d bytes: %s", kind, len(all), ms(p50.took), ms(p99.took), ms(most.took),
			most.bytes, most.path))
		if h.runs > soakRuns && p99.took > slowest && !strings.HasSuffix(kind, "?limit=1000") {
			h.t.Errorf("p99 of %s is %.1f ms, want at most %s", kind, ms(p99.took), slowest)
			for _, slow := range all[len(all)*95/100:] {
				h.t.Logf("%.1f ms: %s", ms(slow.took), slow.path)
			}
		}
	}
	slices.Sort(lines)
	h.t.Logf("%d jobs, %d runs:\n%s", h.jobs+h.rate, h.runs, strings.Join(lines, "\n"))
	if h.rate == 0 {
		return
	}
	fired := askOne[int](h.cluster, `SELECT count(*) FROM holdfast.runs
		WHERE created_at > now() - $1::interval AND job LIKE 'often-%' AND state = 'succeeded'`,
		lasted)
	h.t.Logf("%.0f firings a second for %s", float64(fired)/lasted.Seconds(),
		lasted.Round(time.Second))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
