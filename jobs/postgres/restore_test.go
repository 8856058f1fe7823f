package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// dumped runs pg_dump or pg_restore.
func dumped(t *testing.T, program string, args ...string) {
	t.Helper()
	path, err := servertest.FindBinary(program, "postgresql")
	if err != nil {
		t.Fatal(err)
	}
	if output, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", program, err, output)
	}
}

// skipWithOldDump skips a test if the server is newer than pg_dump, which refuses such a server.
func skipWithOldDump(t *testing.T, s *harness) {
	t.Helper()
	path, err := servertest.FindBinary("pg_dump", "postgresql")
	if err != nil {
		t.Fatal(err)
	}
	version, err := exec.CommandContext(t.Context(), path, "--version").Output()
	if err != nil {
		t.Fatalf("pg_dump --version: %v", err)
	}
	var client int
	if _, err := fmt.Sscanf(string(version), "pg_dump (PostgreSQL) %d", &client); err != nil {
		t.Fatalf("release of pg_dump in %q: %v", version, err)
	}
	if release := query[int](s, "SELECT current_setting('server_version_num')::int") /
		10_000; release > client {
		t.Skipf("the server is PostgreSQL %d, and pg_dump is %d: put pg_dump %d first in PATH",
			release, client, release)
	}
}

// After the restore of an older dump, the first session raises the tokens above those that other
// systems have seen, and no later session raises them again.
func TestTokensAfterARestore(t *testing.T) {
	for _, opens := range []string{"replica", "program"} {
		t.Run(opens, func(t *testing.T) {
			t.Parallel()
			s := newHarness(t)
			skipWithOldDump(t, s)
			session := s.session(s.a, "a")
			first := s.granted(s.a, session, request(t, "first", "first"))
			dump := filepath.Join(t.TempDir(), "dump")
			dumped(t, "pg_dump", "--format=custom", "--file="+dump, s.url)
			seen := s.granted(s.a, session, request(t, "seen", "seen"))
			if seen.Token != first.Token+1 {
				t.Errorf("before the restore: got tokens %d and %d", first.Token, seen.Token)
			}

			s.exec("DROP SCHEMA holdfast CASCADE")
			dumped(t, "pg_restore", "--dbname="+s.url, dump)
			restored := openAs(t, s.url, "restored")
			if opens == "program" {
				if err := restored.Grants().OpenSession(t.Context(), locking.Session{
					ID: uuid.New(), Replica: "p", TTL: time.Minute}); err != nil {
					t.Fatal(err)
				}
			}
			var tokens []jobs.Token
			for _, name := range []string{"next", "after"} {
				opened := openAs(t, s.url, name)
				run := s.granted(opened, s.session(opened, name), request(t, name, name))
				tokens = append(tokens, run.Token)
			}
			if tokens[0] <= seen.Token || tokens[1] != tokens[0]+1 {
				t.Errorf("after the restore: got tokens %d, want them to go on after %d", tokens,
					seen.Token)
			}
		})
	}
}

// Replicas that start at the same time after a restore raise the tokens once.
func TestTokensAreRaisedOnce(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.session(s.a, "a")
	s.exec("UPDATE holdfast.meta SET home = 'elsewhere'")
	done := make(chan error, 2)
	for name, store := range map[string]*Store{"a": s.a, "b": s.b} {
		go func() { done <- store.raiseAfterRestore(t.Context(), name) }()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := query[int](s, "SELECT last_value FROM holdfast.tokens"); got != 100_000_000_000 {
		t.Errorf("got last token %d, want that of one restore", got)
	}
	raised, err := s.a.RaiseTokens(t.Context())
	if err != nil || raised.From != 100_000_000_000 || raised.To != 200_000_000_000 {
		t.Errorf("RaiseTokens: got %+v, %v", raised, err)
	}
	const entries = "SELECT string_agg(actor || ' ' || action, ',') FROM holdfast.audit"
	if got := query[string](s, entries); got != "replica b raise_tokens" &&
		got != "replica a raise_tokens" {
		t.Errorf("audit log: got %q, want the replica that raised the tokens", got)
	}
}

// docs/deployment.md has the version of the schema of each release.
func TestDocumentedSchema(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/deployment.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "<!-- releases -->\n")
	table, _, ended := strings.Cut(table, "<!-- end -->")
	rows := strings.Split(strings.TrimSpace(table), "\n")
	if want := fmt.Sprintf("| unreleased | %d |", schemaVersion); !found || !ended ||
		!strings.HasPrefix(rows[len(rows)-1], want) {
		t.Errorf("got table %q, want %q in its last row", table, want)
	}
}

// Logical replication copies rows and no sequences, so tokens of the rows count too.
func TestTokensOfRowsCount(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	run := s.granted(s.a, s.session(s.a, "a"), request(t, "job", "orders"))
	s.exec("UPDATE holdfast.runs SET token = 5000 WHERE id = $1", run.ID)
	s.exec("ALTER SEQUENCE holdfast.tokens RESTART")
	if raised, err := s.a.RaiseTokens(t.Context()); err != nil || raised.From != 5000 {
		t.Errorf("got %+v, %v, want 5000 as the largest token", raised, err)
	}
}

// A session opens within seconds, however long the history is.
func TestRaisedTokensReadTheNewestRuns(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.history(`INSERT INTO holdfast.runs (id, job, scheduled_at, attempt, state, created_at, token)
SELECT gen_random_uuid(), 'job', at, 1, 'succeeded', at, extract(epoch FROM at)::bigint / 60
FROM generate_series(now() - interval '30000 minutes', now(), '1 minute') at`)
	s.exec("VACUUM ANALYZE holdfast.runs")
	plan := s.plan(beginPipeline, raiseTokens)
	if strings.Contains(plan, "Scan on runs") ||
		!strings.Contains(plan, "Index Scan Backward using runs_created on runs") {
		t.Errorf("got plan\n%s\nwant the newest runs by runs_created", plan)
	}
	want := query[jobs.Token](s, "SELECT max(token) FROM holdfast.runs")
	if raised, err := s.a.RaiseTokens(t.Context()); err != nil || raised.From != want {
		t.Errorf("got %+v, %v, want %d as the largest token", raised, err, want)
	}
}

// Tokens that an operator has raised are not raised again by the next session.
func TestRaisedTokensAreThoseOfTheRestore(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.session(s.a, "a")
	s.exec("UPDATE holdfast.meta SET home = 'elsewhere'")
	raised, err := s.a.RaiseTokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.session(s.b, "b")
	if got := query[jobs.Token](s, "SELECT last_value FROM holdfast.tokens"); got != raised.To {
		t.Errorf("got last token %d, want %d", got, raised.To)
	}
}

// A publication of all tables, for logical replication, must not prevent the deletion of rows.
func TestTablesCanBePublished(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	tx, err := s.watcher().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // nothing was written
	tables := query[[]string](s, `
SELECT array_agg(c.oid::regclass::text) FROM pg_class c
    WHERE c.relkind = 'r' AND c.relnamespace = 'holdfast'::regnamespace`)
	publication := "CREATE PUBLICATION all_tables FOR TABLE " + strings.Join(tables, ", ")
	if _, err := tx.Exec(t.Context(), publication); err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if _, err := tx.Exec(t.Context(), "DELETE FROM "+table+" WHERE false"); err != nil {
			t.Fatal(err)
		}
	}
}
