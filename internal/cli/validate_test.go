package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
)

// TestValidateChecksTheStore checks that validate refuses what a replica refuses at its start.
func TestValidateChecksTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(path, []byte("jobs: [{name: a, handler: work}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	work := jobs.Handle("work", func(context.Context, *jobs.Run, struct{}) error { return nil })
	program := app.Options{Handlers: []jobs.Registration{work.NeedsPostgres()}}
	var out, errOut bytes.Buffer
	err := Execute(t.Context(), []string{"validate", "-c", path}, &out, &errOut, program)
	if !errors.Is(err, app.ErrNoPostgres) || out.Len() > 0 {
		t.Errorf("got %q, %v, want ErrNoPostgres", out.String(), err)
	}
}

// TestValidatePrintsJobs checks that validate prints the jobs of the file and of the program, with
// defaults and without secrets.
func TestValidatePrintsJobs(t *testing.T) {
	t.Setenv("HOLDFAST_TEST_SECRET", "sesame-open")
	path := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(path, []byte(`
timezone: Europe/Berlin
jobs:
  - {name: load, for_each: [a, b], schedule: "0 3 * * *", handler: command, tables: [totals],
     read_tables: [sales], params: {command: ["load", "${HOLDFAST_TEST_SECRET}"]}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	greet := jobs.Handle("greet", func(context.Context, *jobs.Run, struct{}) error { return nil })
	program := app.Options{Handlers: []jobs.Registration{greet},
		Jobs: []configs.BuiltJob{configs.NewBuiltJob(configs.Job{Name: "greet", Handler: "greet",
			Spec: schedule.Cron("@daily"), Timezone: "UTC"})}}
	printed := func(args ...string) string {
		t.Helper()
		var out, errOut bytes.Buffer
		args = append([]string{"validate", "--print", "-c", path}, args...)
		if err := Execute(t.Context(), args, &out, &errOut, program); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	table := `JOB     SOURCE   SCHEDULE   ZONE           HANDLER  RESOURCES
load.a  file     0 3 * * *  Europe/Berlin  command  public/sales (shared), public/totals
load.b  file     0 3 * * *  Europe/Berlin  command  public/sales (shared), public/totals
greet   program  @daily     UTC            greet    `
	var got []string
	for line := range strings.SplitSeq(printed("-o", "wide"), "\n") {
		got = append(got, strings.TrimRight(line, " "))
	}
	var want []string
	for line := range strings.SplitSeq(table+"\n", "\n") {
		want = append(want, strings.TrimRight(line, " "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	text := printed("-o", "json")
	var list []configuredJob
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 3 {
		t.Fatalf("got %s, %v, want 3 jobs", text, err)
	}
	if first := list[0]; strings.Contains(text, "sesame-open") ||
		!strings.Contains(string(first.Params), "[redacted]") || len(first.Resources) != 2 ||
		first.Policies["timeout"] != "An attempt has no time limit." {
		t.Errorf("got %+v", first)
	}
	if last := list[2]; last.Source != fromProgram || string(last.Params) != "{}" ||
		last.Resources == nil {
		t.Errorf("got %+v, want a job of the program", last)
	}
}
