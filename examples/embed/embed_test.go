package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/replicas"
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
	config, err := os.ReadFile("holdfast.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(config), "sqlite://", "sqlite://"+dir+"/", 1)
	p, err := replicas.Start(ctx,
		replicas.Spec{Program: program, Name: "one", Config: text, Dir: dir,
			Env: []string{asProgram + "=1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	for _, job := range []string{"refresh-sales-north", "refresh-sales-south"} {
		expectSales(ctx, t, p, job)
	}
	// The program has the CLI's commands too. They know its handlers.
	cmd := exec.CommandContext(ctx, program, "runs", "--job", "take-orders", "-o", "json", "-c",
		filepath.Join(dir, "one.yaml"))
	cmd.Env = append(os.Environ(), asProgram+"=1", "LISTEN=127.0.0.1:0")
	output, err := cmd.Output()
	var runs []storage.Record
	if err == nil {
		err = json.Unmarshal(output, &runs)
	}
	if err != nil || len(runs) == 0 {
		t.Errorf("runs of take-orders: %v in %q", err, output)
	}
	if err := p.Stop(ctx); err != nil {
		t.Errorf("it ended with %v\n%s", err, p.Tail(4000))
	}
}

// expectSales waits until a refresh has counted orders.
func expectSales(ctx context.Context, t *testing.T, p *replicas.Process, job string) {
	t.Helper()
	total := regexp.MustCompile(`(north|south): (\d+) orders, \d+ in all`)
	for {
		var runs []storage.Record
		if err := p.Get(ctx, "/api/v1/runs?state=succeeded&limit=1&job="+job, &runs); err != nil {
			t.Fatal(err)
		}
		if len(runs) > 0 {
			var run storage.Record
			if err := p.Get(ctx, "/api/v1/runs/"+runs[0].ID.String(), &run); err != nil {
				t.Fatal(err)
			}
			match := total.FindStringSubmatch(run.Output)
			if match == nil {
				t.Fatalf("output of %s: %q", job, run.Output)
			}
			if match[2] != "0" {
				return
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s never found orders\n%s", job, p.Tail(4000))
		}
	}
}

// A mistake in the params of a Go job is reported with its position before any job runs.
func TestParamsAreChecked(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "wrong.yaml")
	text := "jobs:\n  - {name: a, handler: refresh-sales, params: {region: west}}\n  - {name: b, " +
		"handler: take-orders, params: {orders: 0, shops: 1}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "validate", "-c", path)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	output, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("request: got success, want an error")
	}
	for _, want := range []string{`wrong.yaml:2:`,
		`found "west", expected one of ["north" "south"]`, `wrong.yaml:3:`, `unknown key "shops"`} {
		if !strings.Contains(string(output), want) {
			t.Errorf("got %q, want %q in it", output, want)
		}
	}
}
