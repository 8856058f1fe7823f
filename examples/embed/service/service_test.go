package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/replicas"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// If asProgram is set, the test binary runs as the example.
const asProgram = "HOLDFAST_EXAMPLE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestExample(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config, err := os.ReadFile(filepath.Join("..", "holdfast.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := servertest.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	p, err := replicas.Start(ctx, replicas.Spec{
		Program: program, Args: []string{"-listen", own}, Name: "one", Dir: dir,
		Env:    []string{asProgram + "=1"},
		Config: strings.Replace(string(config), "sqlite://", "sqlite://"+dir+"/", 1),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if status, body := get(ctx, t, "http://"+own+"/ready"); status != http.StatusOK ||
		body != "ready\n" {
		t.Errorf("the service's own address: %d, %q", status, body)
	}
	for _, job := range []string{"take-orders", "refresh-sales-north"} {
		expectSuccess(ctx, t, p, job)
	}
	operateIt(ctx, t, p, "http://"+own)
	if err := p.Stop(ctx); err != nil {
		t.Errorf("it ended with %v\n%s", err, p.Tail(4000))
	}
}

func expectSuccess(ctx context.Context, t *testing.T, p *replicas.Process, job string) {
	t.Helper()
	for {
		var runs []storage.Record
		if err := p.Get(ctx, "/api/v1/runs?state=succeeded&limit=1&job="+job, &runs); err != nil {
			t.Fatal(err)
		}
		if len(runs) > 0 {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s never succeeded\n%s", job, p.Tail(4000))
		}
	}
}

// operateIt triggers and pauses jobs through the service.
func operateIt(ctx context.Context, t *testing.T, p *replicas.Process, own string) {
	t.Helper()
	first, run := send(ctx, t, http.MethodPost, own+"/refresh/north?user=anna&key=monday")
	again, same := send(ctx, t, http.MethodPost, own+"/refresh/north?user=anna&key=monday")
	if first != http.StatusOK || again != http.StatusOK || run != same {
		t.Errorf("triggered twice with a key: %d %q, %d %q", first, run, again, same)
	}
	for path, want := range map[string]int{"/refresh/west": http.StatusNotFound,
		"/open?user=anna": http.StatusNotFound} {
		if status, body := send(ctx, t, http.MethodPost, own+path); status != want {
			t.Errorf("%s: %d %q, want %d", path, status, body, want)
		}
	}
	for _, path := range []string{"/close?user=anna", "/open?user=anna"} {
		if status, body := send(ctx, t, http.MethodPost, own+path); status != http.StatusOK ||
			body != "job take-orders\n" {
			t.Errorf("%s: got %d %q, want 200 and job take-orders", path, status, body)
		}
	}
	var audit []storage.Audited
	if err := p.Get(ctx, "/api/v1/audit?actor=anna", &audit); err != nil || len(audit) != 3 {
		t.Errorf("audit: %+v, %v", audit, err)
	}
}

func get(ctx context.Context, t *testing.T, url string) (int, string) {
	t.Helper()
	return send(ctx, t, http.MethodGet, url)
}

func send(ctx context.Context, t *testing.T, method, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}
