package clustertest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/cli"
	"github.com/holdfast-dev/holdfast/internal/test/race"
	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

const (
	// If asProgram is set, the test binary runs as the program under test.
	asProgram = "HOLDFAST_CLUSTERTEST_PROGRAM"
	template  = "template_cluster"
)

var (
	server   *servertest.Postgres // shared by all tests that do not stop or damage it
	buildDir string
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		cli.Main(holdfast.WithHandlers(handlers()...))
		return
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	err := runManyAtOnce()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if buildDir, err = os.MkdirTemp("", "holdfast-clustertest-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(buildDir)
	return servertest.Main(m, func(pg *servertest.Postgres) { server = pg })
}

// runManyAtOnce raises the number of parallel tests, because tests mostly wait for processes and
// deadlines. -parallel on the command line has priority.
func runManyAtOnce() error {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", "6")
}

// raceFlags are those of the Makefile. Other flags would compile SQLite and all its importers
// again.
var raceFlags = []string{
	"-race", "-ldflags=-s -w", "-gcflags=all=-dwarf=false -d=checkptr=0",
	"-gcflags=modernc.org/...=-race=false -dwarf=false -d=checkptr=0",
	"-gcflags=golang.org/x/crypto/argon2=-race=false -dwarf=false -d=checkptr=0",
}

// stock returns the path of the stock binary, which is built once.
var stock = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "scheduler")
	args := []string{"build", "-o", path}
	if race.Enabled {
		args = append(args, raceFlags...)
	}
	cmd := exec.Command("go", append(args, "github.com/holdfast-dev/holdfast/cmd/scheduler")...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, output)
	}
	return path, nil
})

func stockProgram(t *testing.T) string {
	t.Helper()
	path, err := stock()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ownProgram returns the path of the test binary. Its environment must have asProgram.
func ownProgram(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// preparedServer returns the shared server. It first creates the template database with the schema,
// by the stock binary's migrate, and with the tables of the ledger.
func preparedServer(t *testing.T) *servertest.Postgres {
	t.Helper()
	if testing.Short() {
		t.Skip("needs PostgreSQL and memcached")
	}
	if err := prepareCommon(); err != nil {
		t.Fatal(err)
	}
	return server
}

var prepareCommon = sync.OnceValue(func() error { return prepare(context.Background(), server) })

func prepare(ctx context.Context, pg *servertest.Postgres) error {
	program, err := stock()
	if err != nil {
		return err
	}
	if err := pg.CreateDatabase(ctx, template, "template0"); err != nil {
		return err
	}
	config := filepath.Join(buildDir, "template.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "database: {url: %q}\n", pg.URL(template)),
		0o600); err != nil {
		return err
	}
	if output, err := exec.CommandContext(ctx, program, "migrate", "-c", config).
		CombinedOutput(); err != nil {
		return fmt.Errorf("migrate: %w: %s", err, output)
	}
	conn, err := pgx.Connect(ctx, pg.URL(template))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, ledgerTables)
	if closing := conn.Close(ctx); err == nil {
		err = closing
	}
	return err
}
