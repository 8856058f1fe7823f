package servertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Prometheus is a running Prometheus.
type Prometheus struct {
	Addr string // host:port

	dir     string
	process *process
}

// NewPrometheus runs Prometheus with a configuration until the test ends, and returns once it
// answers queries.
func NewPrometheus(t testing.TB, config string) *Prometheus {
	t.Helper()
	program, err := FindBinary("prometheus", "prometheus")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "prometheus-")
	if err != nil {
		t.Fatal(err)
	}
	p := &Prometheus{dir: dir}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("Prometheus's log:\n%s", lastOutput(p.logPath()))
		}
		if p.process != nil {
			err = p.process.end(syscall.SIGTERM, stopGrace)
		}
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(dir, "prometheus.yml")
	if err = os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for range startTries {
		if err = p.start(t.Context(), program, file); err == nil || t.Context().Err() != nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *Prometheus) logPath() string { return filepath.Join(p.dir, "log") }

// start runs Prometheus on a free port.
func (p *Prometheus) start(ctx context.Context, program, config string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	p.Addr = address(port)
	logFile, err := os.OpenFile(p.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("log of Prometheus: %w", err)
	}
	defer logFile.Close()
	started, err := startProcess(nil, syscall.SIGKILL, p.dir, logFile, program,
		"--config.file="+config, "--storage.tsdb.path="+filepath.Join(p.dir, "data"),
		"--web.listen-address="+p.Addr)
	if err != nil {
		return err
	}
	err = started.waitReady(ctx, "Prometheus", p.logPath(), func(ctx context.Context) bool {
		return answersOK(ctx, "http://"+p.Addr+"/-/ready")
	})
	if err != nil {
		return errors.Join(err, started.end(syscall.SIGKILL, stopGrace))
	}
	p.process = started
	return nil
}

// Await queries Prometheus until the query has a result, and returns the labels of its series. The
// test fails if there is none within the limit.
func (p *Prometheus) Await(t testing.TB, query string, limit time.Duration) []map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(readyChecks)
	defer tick.Stop()
	for {
		series, err := p.query(ctx, query)
		if len(series) > 0 {
			return series
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: got no series, %v", query, err)
		}
	}
}

func (p *Prometheus) query(ctx context.Context, query string) ([]map[string]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+p.Addr+"/api/v1/query?query="+url.QueryEscape(query), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Data struct {
			Result []struct{ Metric map[string]string }
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("answer of Prometheus: %w", err)
	}
	var series []map[string]string
	for _, r := range answer.Data.Result {
		series = append(series, r.Metric)
	}
	return series, nil
}
