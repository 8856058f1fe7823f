package servertest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const statementLimit = 30 * time.Second

// Database makes an empty database for one test, which drops it at its end,
// and returns its URL.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	return p.Clone(t, "template0")
}

// Clone makes a database for one test, which drops it at its end, as a copy of
// the database called template, to which nobody may be connected meanwhile. It
// returns the URL.
func (p *Postgres) Clone(t testing.TB, template string) string {
	t.Helper()
	name := p.freshName()
	if err := p.CreateDatabase(t.Context(), name, template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.dropDatabase(name); err != nil {
			t.Errorf("end of the test's database: %v", err)
		}
	})
	return p.URL(name)
}

// CreateDatabase makes a database as a copy of template, such as "template0".
// It stays until the server is stopped: make the template of Clone so.
func (p *Postgres) CreateDatabase(ctx context.Context, name, template string) error {
	return p.execute(ctx, "CREATE DATABASE "+identifier(name)+" TEMPLATE "+identifier(template))
}

func (p *Postgres) freshName() string { return fmt.Sprintf("test_%d", p.databases.Add(1)) }

// dropDatabase drops the database with whoever is still connected. A server
// that the test has stopped keeps it.
func (p *Postgres) dropDatabase(name string) error {
	p.mu.Lock()
	running := p.process.running()
	p.mu.Unlock()
	if !running {
		return nil
	}
	return p.execute(context.Background(), "DROP DATABASE "+identifier(name)+" WITH (FORCE)")
}

func identifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// execute runs one statement by psql, so that this package needs no driver.
func (p *Postgres) execute(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, statementLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1",
		"-d", p.URL("postgres"), "-c", statement)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", statement, err, bytes.TrimSpace(output))
	}
	return nil
}
