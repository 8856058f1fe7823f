package clustertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/test/replicas"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The test runs the command of `make run` in an empty folder. Jobs fire at once, commands of the
// CLI read the database meanwhile, and the program shuts down cleanly.
func TestEmbeddedConfiguration(t *testing.T) {
	preparedServer(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), clusterLimit)
	defer cancel()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "configs", "embedded.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	address, err := servertest.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "embedded.yaml"),
		strings.ReplaceAll(string(text), "127.0.0.1:8080", address))
	p := startProgram(ctx, t, dir, nil, "run", "-c", "embedded.yaml")
	page := &replicas.Process{Name: "embedded", URL: "http://" + address}
	for _, job := range []string{"record-events", "rollup-events", "check-page", "export-totals"} {
		p.await(fmt.Sprintf("%s has succeeded", job), func() (bool, error) {
			var runs []storage.Record
			err := page.Get(ctx, "/api/v1/runs?state=succeeded&job="+job, &runs)
			return len(runs) > 0, err
		})
	}
	for _, state := range []string{"failed", "timed_out", "lost"} {
		var runs []storage.Record
		if err := page.Get(ctx, "/api/v1/runs?state="+state, &runs); err != nil || len(runs) > 0 {
			t.Errorf("state %s: got runs %+v (%v), want none", state, runs, err)
		}
	}
	if s := call(ctx, t, dir, "runs", "-c", "embedded.yaml", "--job",
		"record-events"); s.code != 0 || !strings.Contains(s.out, "succeeded") {
		t.Errorf("runs beside it: %+v", s)
	}
	if page := fetch(ctx, t, page.URL+"/"); !strings.Contains(page, "record-events") {
		t.Errorf("page: %q", page)
	}
	p.stop()
	// The database keeps history and effects after the program's end.
	if s := call(ctx, t, dir, "jobs", "-c", "embedded.yaml"); s.code != 0 ||
		!strings.Contains(s.out, "succeeded") {
		t.Errorf("jobs after it: %+v", s)
	}
}
