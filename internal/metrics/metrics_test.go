package metrics

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// TestUnregisterTwice has the metrics of another replica at the registerer when Unregister is
// called for the second time.
func TestUnregisterTwice(t *testing.T) {
	program := prometheus.NewRegistry()
	first, second := New(Options{Names: 1}), New(Options{Names: 1})
	if err := first.Register(program); err != nil {
		t.Fatal(err)
	}
	first.Unregister(program)
	if err := second.Register(program); err != nil {
		t.Fatal(err)
	}
	first.Unregister(program)
	if found, err := program.Gather(); err != nil || len(found) == 0 {
		t.Errorf("got %d metrics and %v, want those of the second replica", len(found), err)
	}
}

func table(t *testing.T, name string) locking.Resource {
	t.Helper()
	resource, err := locking.Table(name, "public")
	if err != nil {
		t.Fatal(err)
	}
	return resource
}

func jobName(t *testing.T, name string) locking.Resource {
	t.Helper()
	resource, err := locking.Job(name)
	if err != nil {
		t.Fatal(err)
	}
	return resource
}

// full returns a Metrics with values in each family.
func full(t *testing.T, names int) *Metrics {
	t.Helper()
	m := New(Options{Names: names, Version: "v1.2.3"})
	m.Watch(Sources{
		Stats: func() engine.Stats {
			return engine.Stats{
				Workers: 32, Busy: 3, Running: 2, Waiting: 7, Queued: 4, Parked: 1, Session: true,
				SessionsOpened: 2, SessionsLost: 1, Ready: true, Jobs: 9,
				ClockOffset: -1500 * time.Millisecond, ClockKnown: true, ServerLists: 1,
				CronTables: 2, Dropped: 5, SealsAudit: true, UnsealedAge: 90 * time.Second,
			}
		},
		Servers: func() []memcached.Health {
			return []memcached.Health{
				{Server: "cache:11211", State: memcached.StateSafe, Seen: memcached.Seen{Restarts: 2, Outages: 3, Flushes: 4, Evictions: 5, SlabEvictions: 6, OutOfMemory: 7, RefusedConnections: 8}},
				{Server: "cache:11212", State: memcached.StateUnreachable}, {Server: "cache:11213", State: memcached.StateUnknown},
			}
		},
		Spans: func() (int64, int64, int64) { return 10, 2, 1 },
		Databases: func() map[string]bool {
			return map[string]bool{"warehouse": true, "marts": false}
		},
		Status: func() map[string]bool {
			return map[string]bool{"neutral": false, "amber": true, "red": false}
		},
	})
	m.Expect([]jobs.Job{{Name: "idle"}})
	locks := []locking.Request{{Resource: jobName(t, "sales"), Mode: locking.Exclusive},
		{Resource: table(t, "orders"), Mode: locking.Exclusive},
		{Resource: table(t, "prices"), Mode: locking.Shared}}
	for _, e := range []jobs.Event{
		{Kind: jobs.EventScheduled}, {Kind: jobs.EventScheduled}, {Kind: jobs.EventAdopted},
		{Kind: jobs.EventStarted, Attempt: 1, StartDelay: 3 * time.Second, Waited: 2500 * time.Millisecond, Locking: 2 * time.Second},
		{Kind: jobs.EventRetried, State: jobs.Failed, Took: time.Second, Held: 1200 * time.Millisecond},
		{Kind: jobs.EventStarted, Attempt: 2, StartDelay: time.Hour, Waited: time.Second, Locking: time.Second},
		{Kind: jobs.EventFinished, State: jobs.Succeeded, Took: 3 * time.Second, Held: 4 * time.Second},
		{Kind: jobs.EventSkipped, State: jobs.Skipped, Reason: reasons.LockHeld, Locking: 9 * time.Second, Blocker: &jobs.Blocker{Resource: "public/orders"}},
		{Kind: jobs.EventSkipped, State: jobs.Skipped, Reason: reasons.Overlap, Locking: 9 * time.Second, Blocker: &jobs.Blocker{Resource: "job:sales"}},
		{Kind: jobs.EventMissed, State: jobs.Missed, Reason: reasons.Misfire},
		// a run of another replica that was swept
		{Kind: jobs.EventLost, State: jobs.Lost, Reason: reasons.SessionLost},
		// a run of its own
		{Kind: jobs.EventLost, State: jobs.Lost, Reason: reasons.ClaimLost, Took: 5 * time.Second, Held: 5 * time.Second},
		{Kind: jobs.EventFinished, State: jobs.Cancelled}, // while it waited
	} {
		e.Job, e.Locks = "sales", locks
		m.Observe(&e)
	}
	m.Lock(locking.Event{Kind: locking.EventRestored, Resource: table(t, "orders")})
	m.Lock(locking.Event{Kind: locking.EventTaken, Resource: table(t, "orders")})
	m.Lock(locking.Event{Kind: locking.EventLost})
	m.starts.WithLabelValues("granted")
	m.asked("start", time.Now(), storage.ErrUnavailable)
	m.operation("add").note(time.Now(), nil)
	return m
}

// series returns every sample of Holdfast's own metrics by name and labels. A histogram has its
// count and sum.
func series(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			var labels []string
			for _, l := range metric.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := f.GetName() + "{" + strings.Join(labels, ",") + "}"
			switch {
			case !strings.HasPrefix(name, "holdfast_"):
			case metric.Histogram != nil:
				all[name+" count"], all[name+" sum"] = float64(metric.Histogram.GetSampleCount()),
					metric.Histogram.GetSampleSum()
			default:
				all[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return all
}

// Each event changes the right metrics and no others.
func TestNumbers(t *testing.T) {
	start := time.Now()
	got := series(t, full(t, 200))
	const reloaded = "holdfast_config_reload_timestamp_seconds{}"
	if at := got[reloaded]; at < float64(start.Unix()) || at > float64(time.Now().Unix()+1) {
		t.Errorf("the configuration was read at %f, the test began at %d", at, start.Unix())
	}
	delete(got, reloaded)
	want := map[string]float64{
		"holdfast_firings_total{job=sales,kind=scheduled}": 2, "holdfast_firings_total{job=sales,kind=adopted}": 1, "holdfast_attempts_total{job=sales}": 2,
		"holdfast_retries_total{job=sales}": 1, "holdfast_runs_total{job=sales,state=succeeded}": 1, "holdfast_runs_total{job=sales,state=skipped}": 2,
		"holdfast_runs_total{job=sales,state=missed}": 1, "holdfast_runs_total{job=sales,state=lost}": 2, "holdfast_runs_total{job=sales,state=cancelled}": 1,
		"holdfast_skips_total{job=sales,reason=lock_held}": 1, "holdfast_skips_total{job=sales,reason=overlap}": 1, "holdfast_status{severity=amber}": 1, "holdfast_skips_total{job=sales,reason=misfire}": 1,
		"holdfast_lost_runs_total{job=sales,reason=session_lost}": 1, "holdfast_lost_runs_total{job=sales,reason=claim_lost}": 1,
		"holdfast_start_delay_seconds{job=sales} count": 1, "holdfast_start_delay_seconds{job=sales} sum": 3,
		"holdfast_worker_wait_seconds{} count": 2, "holdfast_worker_wait_seconds{} sum": 0.5,
		"holdfast_run_duration_seconds{job=sales} count": 3, "holdfast_run_duration_seconds{job=sales} sum": 9,
		"holdfast_lock_wait_seconds{resource=public/orders} count": 3, "holdfast_lock_wait_seconds{resource=public/orders} sum": 12,
		"holdfast_lock_wait_seconds{resource=public/prices} count": 2, "holdfast_lock_wait_seconds{resource=public/prices} sum": 3,
		"holdfast_lock_hold_seconds{resource=public/orders} count": 3, "holdfast_lock_hold_seconds{resource=public/orders} sum": 10.2,
		"holdfast_lock_hold_seconds{resource=public/prices} count": 3, "holdfast_lock_hold_seconds{resource=public/prices} sum": 10.2,
		"holdfast_grants_total{mode=exclusive,resource=public/orders}": 2, "holdfast_grants_total{mode=shared,resource=public/prices}": 2,
		"holdfast_advisory_locks_restored_total{resource=public/orders}": 1, "holdfast_advisory_locks_taken_over_total{resource=public/orders}": 1,
		"holdfast_workers{}": 32, "holdfast_workers_busy{}": 3, "holdfast_runs_running{}": 2, "holdfast_runs_waiting{}": 7, "holdfast_firings_queued{}": 4,
		"holdfast_firings_limited{}": 1, "holdfast_ready{}": 1, "holdfast_session{}": 1, "holdfast_sessions_opened_total{}": 2, "holdfast_sessions_lost_total{}": 1,
		"holdfast_jobs{}": 9, "holdfast_clock_offset_seconds{}": -1.5, "holdfast_cron_tables{}": 2, "holdfast_lock_server_lists{}": 1,
		"holdfast_listener_events_dropped_total{}": 5, "holdfast_audit_unsealed_age_seconds{}": 90,
		"holdfast_build_info{version=v1.2.3}": 1, "holdfast_config_reload_success{}": 1,
		"holdfast_database_up{database=warehouse}":  1,
		"holdfast_memcached_up{server=cache:11211}": 1, "holdfast_memcached_restarts_total{server=cache:11211}": 2, "holdfast_memcached_outages_total{server=cache:11211}": 3,
		"holdfast_memcached_flushes_total{server=cache:11211}": 4, "holdfast_memcached_evictions_total{server=cache:11211}": 11,
		"holdfast_memcached_out_of_memory_total{server=cache:11211}": 7, "holdfast_memcached_refused_connections_total{server=cache:11211}": 8,
		"holdfast_trace_spans_total{result=sent}": 10, "holdfast_trace_spans_total{result=failed}": 2, "holdfast_trace_spans_total{result=dropped}": 1,
		"holdfast_store_duration_seconds{operation=start} count": 1, "holdfast_store_errors_total{error=unavailable,operation=start}": 1,
		"holdfast_memcached_duration_seconds{operation=add} count": 1,
	}
	for name := range got {
		if _, expected := want[name]; !expected && got[name] == 0 ||
			strings.HasSuffix(name, "} sum") && strings.Contains(name, "operation=") {
			delete(got, name) // starts at 0, or depends on the duration of the test
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
	if _, known := series(t, full(t, 200))["holdfast_memcached_up{server=cache:11213}"]; known {
		t.Error("holdfast_memcached_up before the first check: got a value, want none")
	}
}

// A series starts at 0, so that the first failure is an increase.
func TestSeriesBeginAtZero(t *testing.T) {
	m := New(Options{Names: 200})
	m.Expect([]jobs.Job{{Name: "sales"}})
	m.Backend(nil)
	got := series(t, m)
	for _, name := range []string{
		"holdfast_runs_total{job=sales,state=failed}", "holdfast_runs_total{job=sales,state=lost}",
		"holdfast_retries_total{job=sales}",
		"holdfast_memcached_errors_total{error=unavailable,operation=add}",
		"holdfast_swept_sessions_total{}",
	} {
		if value, there := got[name]; !there || value != 0 {
			t.Errorf("%s: got %v (found: %t), want 0", name, value, there)
		}
	}
}

// A thousand jobs and resources have at most the maximum number of series. The sums include all of
// them.
func TestLabelValuesAreBounded(t *testing.T) {
	const names, all = 3, 1000
	m := New(Options{Names: names})
	for i := range all {
		m.Observe(&jobs.Event{
			Kind: jobs.EventStarted, Job: fmt.Sprintf("job-%d", i), Attempt: 1,
			Locks: []locking.Request{{Resource: table(t, fmt.Sprintf("table_%d", i)),
				Mode: locking.Exclusive}},
		})
	}
	counted := map[string]float64{}
	own := map[string]int{}
	for name, value := range series(t, m) {
		family, _, _ := strings.Cut(name, "{")
		counted[family] += value
		if family == "holdfast_attempts_total" || family == "holdfast_grants_total" &&
			strings.Contains(name, "mode=exclusive") {
			own[family]++
		}
	}
	for _, family := range []string{"holdfast_attempts_total", "holdfast_grants_total"} {
		if own[family] != names+1 || counted[family] != all {
			t.Errorf("%s: %d series count %v, want %d and %d", family, own[family], counted[family],
				names+1, all)
		}
	}
	if others := series(t, m)["holdfast_attempts_total{job=other}"]; others != all-names {
		t.Errorf("%v of the others, want %d", others, all-names)
	}
	// an invalid label value is accepted
	m.Observe(&jobs.Event{Kind: jobs.EventScheduled, Job: "bad\xff"})
	none := New(Options{})
	none.Observe(&jobs.Event{Kind: jobs.EventScheduled, Job: "a"})
	if got := series(t, none)["holdfast_firings_total{job=other,kind=scheduled}"]; got != 1 {
		t.Errorf("without names: %v", got)
	}
}

// Names, units and help texts follow the conventions of Prometheus.
func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(full(t, 200).Gatherer())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// Each served family is in Families with its type and its labels. The families of Go and of the
// process are extra.
func TestFamiliesMatchScrape(t *testing.T) {
	m := full(t, 200)
	gathered, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[dto.MetricType]Kind{dto.MetricType_COUNTER: Counter, dto.MetricType_GAUGE: Gauge,
		dto.MetricType_HISTOGRAM: Histogram}
	got := map[string]Family{}
	others := map[string]bool{}
	for _, f := range gathered {
		prefix, _, _ := strings.Cut(f.GetName(), "_")
		if others[prefix] = true; prefix != "holdfast" {
			continue
		}
		labels := []string{}
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		got[f.GetName()] = Family{Name: f.GetName(), Kind: kinds[f.GetType()], Help: f.GetHelp(),
			Labels: labels}
	}
	want := map[string]Family{}
	for _, f := range m.Families() {
		f.Labels = append([]string{}, slices.Sorted(slices.Values(f.Labels))...)
		want[f.Name] = f
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("families (-known +scraped):\n%s", diff)
	}
	if !others["go"] || !others["process"] {
		t.Errorf("scraped are %q", slices.Collect(maps.Keys(others)))
	}
	for name, f := range got {
		if f.Kind != Histogram {
			continue
		}
		for _, g := range gathered {
			if h := g.GetMetric()[0].GetHistogram(); g.GetName() == name &&
				(len(h.GetBucket()) < 10 || h.GetSchema() == 0 && h.GetZeroThreshold() == 0) {
				t.Errorf("%s has %d classic buckets, native schema %d", name, len(h.GetBucket()),
					h.GetSchema())
			}
		}
	}
}

// A family whose help begins with the meaning of 1 has that unit, unless it is always 1.
func TestUnitsOfStates(t *testing.T) {
	for _, f := range full(t, 200).Families() {
		state := strings.HasPrefix(f.Help, "1 ")
		if got := f.Unit(); state != (got == "1 or 0") {
			t.Errorf("%s has the unit %q and the help %q", f.Name, got, f.Help)
		}
	}
}

// The test scrapes as Prometheus does.
func TestScrape(t *testing.T) {
	server := httptest.NewServer(full(t, 200).Handler())
	defer server.Close()
	for accept, want := range map[string][2]string{
		"": {"text/plain", `holdfast_runs_total{job="sales",state="succeeded"} 1`},
		"application/openmetrics-text;version=1.0.0":                                                 {"application/openmetrics-text", "# EOF"},
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited": {"application/vnd.google.protobuf", "holdfast_runs_total"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", accept)
		reply, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(reply.Body)
		if err != nil {
			t.Fatal(err)
		}
		if err := reply.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if got := reply.Header.Get("Content-Type"); reply.StatusCode != http.StatusOK ||
			!strings.HasPrefix(got, want[0]) || !bytes.Contains(body, []byte(want[1])) {
			t.Errorf("%q: %d, %s, without %s", accept, reply.StatusCode, got, want[1])
		}
	}
}

const document = "../../docs/metrics.md"

// docs/metrics.md matches the served metrics. With HOLDFAST_UPDATE set, the test writes the table.
func TestDocument(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("| name | type | unit | labels | meaning |\n| --- | --- | --- | --- | --- |\n")
	for _, f := range full(t, 200).Families() {
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s | %s |\n", f.Name, f.Kind, f.Unit(),
			strings.Join(f.Labels, ", "), f.Help)
	}
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?s)<!-- families -->\n(.*?)<!-- end -->`).FindSubmatchIndex(text)
	if found == nil {
		t.Fatal("docs/metrics.md: got no mark for the table, want one")
	}
	if os.Getenv("HOLDFAST_UPDATE") != "" {
		if err := os.WriteFile(document,
			slices.Concat(text[:found[2]], []byte(rows.String()), text[found[3]:]),
			0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(rows.String(), string(text[found[2]:found[3]])); diff != "" {
		t.Errorf("docs/metrics.md differs from what is served (-served +written); "+
			"HOLDFAST_UPDATE=1 writes it:\n%s", diff)
	}
	checkNames(t, document, string(text))
}

// The example rules use only existing metrics.
func TestAlertsUseExistingMetrics(t *testing.T) {
	const path = "../../deploy/alerts.rules"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	checkNames(t, path, string(text))
	alerts := regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(string(text), -1)
	if exprs := strings.Count(string(text), " expr: "); len(alerts) < 5 || exprs != len(alerts) {
		t.Errorf("%d alerts with %d expressions", len(alerts), exprs)
	}
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range alerts {
		if !strings.Contains(string(content), a[1]) {
			t.Errorf("docs/metrics.md does not tell of %s", a[1])
		}
	}
}

// checkNames checks that each metric in a text is served and has the labels that the text uses.
func checkNames(t *testing.T, path, text string) {
	t.Helper()
	known := map[string]Family{}
	for _, f := range full(t, 200).Families() {
		known[f.Name] = f
	}
	named := regexp.MustCompile(`\b(holdfast_[a-z_]+)(\{[^}]*\})?`).FindAllStringSubmatch(text, -1)
	if len(named) < 5 {
		t.Errorf("%s names %d metrics", path, len(named))
	}
	for _, n := range named {
		f, served := known[n[1]]
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			if h, cut := known[strings.TrimSuffix(n[1], part)]; !served && cut &&
				h.Kind == Histogram {
				f, served = h, true
			}
		}
		if !served {
			t.Errorf("%s names %s, which is not served", path, n[1])
		}
		for _, label := range regexp.MustCompile(`(\w+)(=|!)`).FindAllStringSubmatch(n[2], -1) {
			if !slices.Contains(f.Labels, label[1]) {
				t.Errorf("%s asks for %s by %s, which it has not", path, n[1], label[1])
			}
		}
	}
}
