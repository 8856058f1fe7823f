package deploytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// Prometheus accepts the alerts. Each fires in the case that it is for, and none in a healthy
// cluster.
func TestAlerts(t *testing.T) {
	const rules, tests = "alerts.rules", "alerts.yaml"
	run(t, "promtool", "prometheus", "check", "rules", filepath.Join(folder, rules))
	run(t, "promtool", "prometheus", "test", "rules", tests)

	cases := read(t, "../internal/test/deploytest/"+tests)
	alerts := regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(read(t, rules), -1)
	for _, alert := range alerts {
		fires := regexp.MustCompile(`alertname: ` + alert[1] + "\n +exp_alerts:\n")
		silent := "alertname: " + alert[1] + "}"
		if !fires.MatchString(cases) || !strings.Contains(cases, silent) {
			t.Errorf("%s: %s has no case in which it fires and one in which it does not", tests,
				alert[1])
		}
	}
	if len(alerts) < 8 {
		t.Errorf("got %d alerts, want at least 8", len(alerts))
	}
}

// With the configuration in docs/metrics.md, Prometheus keeps the label job of the metrics: alerts
// and dashboard have series of each job.
func TestPrometheusScrapesTheLabelsOfJobs(t *testing.T) {
	needs(t, "prometheus")
	t.Parallel()
	const secret = "token-of-prometheus"
	replica := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" || r.Header.Get("Authorization") != "Bearer "+secret {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintln(w, `holdfast_runs_total{job="rollup",state="succeeded"} 1`)
	}))
	defer replica.Close()
	block := regexp.MustCompile("(?ms)^   ```yaml\n(   scrape_configs:.*?)^   ```$").FindStringSubmatch(
		read(t, "../docs/metrics.md"))
	if block == nil {
		t.Fatal("docs/metrics.md has no configuration of Prometheus")
	}
	config := regexp.MustCompile(`targets: \[.*\]`).ReplaceAllString(
		strings.ReplaceAll(block[1], "\n   ", "\n")[len("   "):],
		fmt.Sprintf("targets: [%q]}]", replica.Listener.Addr()))
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, secret)
	config = strings.Replace(config, "/etc/prometheus/holdfast-token", file, 1)
	series := servertest.NewPrometheus(t, "global: {scrape_interval: 1s}\n"+config).
		Await(t, "holdfast_runs_total", limit)
	if len(series) != 1 || series[0]["job"] != "rollup" ||
		series[0]["instance"] != replica.Listener.Addr().String() {
		t.Errorf("got %v, want a series of the job rollup", series)
	}
}

// Prometheus accepts all queries of the dashboard. internal/metrics has the test of their metrics
// and labels.
func TestQueriesOfTheDashboard(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "grafana/holdfast.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	queries := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries++
			// Grafana replaces its variables before it sends the query.
			query := strings.ReplaceAll(target.Expr, "$__rate_interval", "1m")
			fmt.Fprintf(&rules, "      - {record: q%d, expr: %q}\n", queries, query)
		}
	}
	if queries < 20 {
		t.Errorf("got %d queries, want at least 20", queries)
	}
	file := filepath.Join(t.TempDir(), "queries.yaml")
	write(t, file, rules.String())
	run(t, "promtool", "prometheus", "check", "rules", file)
}
