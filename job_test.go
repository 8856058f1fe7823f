package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
)

type rollupParams struct {
	Region string `json:"region"`
}

// TestJobsOfGo runs a job of Go code together with a job of a file that depends on it. The job must
// get its params and hold its table while it runs.
func TestJobsOfGo(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "holdfast.yaml")
	if err := os.WriteFile(file, []byte(`
replica: {name: of-the-file}
admin: {listen: ""}
jobs:
  - {name: report, handler: done, schedule: {after: [rollup]}, tables: [report]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	got, release := make(chan rollupParams, 1), make(chan struct{})
	reported := make(chan struct{}, 1)
	var log lockedBuffer
	replica, err := holdfast.New(holdfast.WithConfigFile(file),
		holdfast.WithSQLite(sqlite.Driver, filepath.Join(dir, "test.db")),
		holdfast.WithReplicaName("a"), holdfast.WithPage(admin.Page, "127.0.0.1:0"),
		holdfast.WithHandlers(jobs.Handle("done",
			func(context.Context, *jobs.Run, struct{}) error {
				select {
				case reported <- struct{}{}:
				default: // a later run
				}
				return nil
			})),
		holdfast.WithJobs(holdfast.Job[rollupParams]{
			Name: "rollup", Schedule: schedule.Every(time.Second),
			Writes: []string{"sales_{region}"},
			Params: rollupParams{Region: "north"}, Overridable: []string{"region"},
			Timeout: time.Minute,
			Run: func(_ context.Context, run *jobs.Run, p rollupParams) error {
				run.Log().Warn().Int("rows", 7).Msg("rolled up")
				select {
				case got <- p:
				default: // a later run
				}
				<-release
				return nil
			},
		}),
		holdfast.WithSlog(slog.New(slog.NewTextHandler(&log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := running(replica)
	stopOnce := sync.OnceValue(stop)
	defer stopOnce()
	if p := <-got; p != (rollupParams{Region: "north"}) {
		t.Errorf("got params %+v, want those of the job", p)
	}
	if locks := get(t, "http://"+replica.AdminAddr()+"/api/v1/locks"); !strings.Contains(locks,
		"public/sales_north") {
		t.Errorf("got locks %s, want one on the table public/sales_north", locks)
	}
	keys, err := replica.Operations().Overridable(t.Context(), "rollup")
	if err != nil || !slices.Equal(keys, []string{"region"}) {
		t.Errorf("got the overridable params %v, %v, want region", keys, err)
	}
	close(release)
	<-reported
	if err := stopOnce(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{`level=WARN msg="rolled up"`, "rows=7", "job=rollup run=",
		`level=INFO msg="scheduler started"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, log.String())
		}
	}
}

// TestMistakesOfJobsInGo checks that all mistakes of a file and of Go code are reported together.
func TestMistakesOfJobsInGo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(file, []byte("workers: 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	nothing := func(context.Context, *jobs.Run, struct{}) error { return nil }
	_, err := holdfast.New(holdfast.WithConfigFile(file), holdfast.WithJobs(
		holdfast.Job[struct{}]{Name: "forgotten"},
		holdfast.Job[struct{}]{Name: "doubled", Schedule: schedule.Every(time.Minute),
			OnlyTriggered: true, Run: nothing, Handler: "sql", Writes: []string{"a"},
			NoTables: true},
		holdfast.Job[map[string]any]{Name: "statement", Schedule: schedule.Cron("@daily"),
			Handler: "sql", Params: map[string]any{"statment": "SELECT 1"}, NoTables: true},
		holdfast.Job[chan int]{Name: "channel", Schedule: schedule.At(time.Now()),
			Handler: "command", Params: make(chan int), NoTables: true},
		holdfast.Job[struct{}]{Name: "late", Schedule: schedule.After("nowhere"), Run: nothing,
			NoTables: true, Overlap: "both", Priority: 12},
		holdfast.Job[struct{}]{Name: "handled", OnlyTriggered: true, NoTables: true,
			Handler: "command", NeedsPostgres: true},
		holdfast.Job[struct{}]{OnlyTriggered: true, NoTables: true, Run: nothing},
		holdfast.Job[struct{}]{Name: "twin", OnlyTriggered: true, NoTables: true, Run: nothing},
		holdfast.Job[struct{}]{Name: "twin", OnlyTriggered: true, NoTables: true, Run: nothing},
		holdfast.Job[struct{}]{Name: "http", OnlyTriggered: true, NoTables: true, Run: nothing},
		holdfast.Job[struct{}]{Name: "mine", OnlyTriggered: true, NoTables: true, Run: nothing},
	), holdfast.WithHandlers(jobs.Handle("mine", nothing)))
	var wrong *configs.Errors
	if !errors.As(err, &wrong) {
		t.Fatalf("got %v, want *configs.Errors", err)
	}
	for _, want := range []string{
		file + `:1:10: workers: found 0`,
		`job "forgotten": schedule: found nothing, expected a Schedule`,
		`job "forgotten": handler: found nothing, expected a function in Run`,
		`job "forgotten": tables: found nothing, expected Writes, Reads`,
		`job "doubled": schedule: found a Schedule and OnlyTriggered`,
		`job "doubled": handler: found Run and Handler`,
		`job "doubled": tables: found locks and NoTables`,
		`job "statement": params.statment: unknown key "statment", expected one of statement`,
		`job "channel": params: found a value without JSON`,
		`job "channel": schedule`,
		`job "late": overlap: found "both", expected one of skip, queue, allow`,
		`job "late": priority: found 12, expected a whole number, 1 to 9`,
		`job "late": schedule.after[0]: unknown job "nowhere"`,
		`job "handled": handler: found NeedsPostgres without Run`,
		`job 7 in Go: name: found nothing`,
		`job "twin": name: `,
		`job "http": handler: found Run, and a handler with the name "http" of the job`,
		`job "mine": handler: found Run, and a handler with the name "mine" of the job`,
	} {
		if !strings.Contains("\n"+err.Error(), "\n"+want) {
			t.Errorf("no mistake begins with\n%s in\n%v", want, err)
		}
	}
	if n := strings.Count(err.Error(), `job "http": `); n != 1 {
		t.Errorf("%d mistakes of the job http, want 1 in\n%v", n, err)
	}
}

// TestNewBuildsConfig checks that New completes a configuration that Go code has made, and refuses
// one that does not start from the defaults.
func TestNewBuildsConfig(t *testing.T) {
	quiet, embedded := holdfast.WithLog(zerolog.Nop(), nil), holdfast.WithDriver(sqlite.Driver)
	nothing := jobs.Handle("greet", func(context.Context, *jobs.Run, struct{}) error { return nil })
	built := configs.Defaults()
	built.Admin.Listen = ""
	built.Jobs = []configs.Job{{Name: "rollup", Handler: "greet", Tables: []string{"a b"}}}
	if _, err := holdfast.New(embedded, holdfast.WithConfig(&built), holdfast.WithHandlers(nothing),
		quiet); err == nil || !strings.Contains(err.Error(), `job "rollup": tables[0]: `) {
		t.Errorf("a job with a mistake: got %v, want the mistake", err)
	}
	built.Jobs[0].Tables[0] = "sales"
	if _, err := holdfast.New(embedded, holdfast.WithConfig(&built), holdfast.WithHandlers(nothing),
		quiet); err != nil {
		t.Errorf("got %v, want a replica", err)
	}
	if _, err := holdfast.New(holdfast.WithConfig(&configs.Config{Workers: 3}),
		quiet); !errors.Is(err, configs.ErrNotBegun) {
		t.Errorf("got %v, want configs.ErrNotBegun", err)
	}
	if _, err := holdfast.New(embedded, holdfast.WithConfig(&built),
		holdfast.WithConfigFile("x.yaml"), quiet); err == nil {
		t.Error("WithConfig and WithConfigFile: got no error")
	}
}

// get returns the body of a response.
func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// lockedBuffer may be used concurrently.
type lockedBuffer struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.String()
}
