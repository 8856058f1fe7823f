package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs/fence"
)

// TestFenceInstall creates the tables twice in a database, and reads them.
func TestFenceInstall(t *testing.T) {
	if server == nil {
		t.Skip("needs PostgreSQL: run without -short")
	}
	url := server.Database(t)
	config := filepath.Join(t.TempDir(), "holdfast.yaml")
	if err := os.WriteFile(config, []byte("databases: {warehouse: {url: '"+url+"'}}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := Execute(t.Context(), append(args, "-c", config), &out, &out, app.Options{})
		return out.String(), err
	}
	for range 2 {
		if out, err := run("fence", "install", "--database", "warehouse"); err != nil ||
			!strings.Contains(out, "database warehouse has the tables of the fence") {
			t.Fatalf("got %s, %v", out, err)
		}
	}
	if _, err := run("fence", "install", "--database", "wharehouse"); err == nil ||
		!strings.Contains(err.Error(), `expected one of ["warehouse"]`) {
		t.Errorf("got %v for an unknown database, want those that exist", err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		return fence.Probe(t.Context(), fence.Pgx(tx))
	}); err != nil {
		t.Error(err)
	}
}

func TestFenceInstallWithoutDatabases(t *testing.T) {
	path, _ := retriedStore(t)
	got := perform(t, nil, "fence", "install", "--database", "warehouse", "-c", path)
	if want := `database "warehouse": the configuration has no section databases`; got.code != 1 ||
		got.err != want {
		t.Errorf("got %+v, want exit code 1 and %q", got, want)
	}
}

// TestFencePrint prints the SQL of each dialect.
func TestFencePrint(t *testing.T) {
	for _, d := range fence.Dialects() {
		var out bytes.Buffer
		if err := Execute(t.Context(), []string{"fence", "print", "--dialect", d.Name()}, &out,
			&out, app.Options{}); err != nil || out.String() != d.SQL() {
			t.Errorf("%s: got %s, %v", d.Name(), out.String(), err)
		}
	}
	if err := Execute(t.Context(), []string{"fence", "print", "--dialect", "oracle"}, os.Stdout,
		os.Stderr, app.Options{}); err == nil ||
		!strings.Contains(err.Error(), "expected postgres, mariadb, mysql, redshift") {
		t.Errorf("got %v, want the dialects", err)
	}
}
