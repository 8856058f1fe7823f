package postgres

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func inspected(t *testing.T, url string) Inspection {
	t.Helper()
	found, err := Inspect(t.Context(), url, "")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestInspect(t *testing.T) {
	s := newSingleHarness(t)
	found := inspected(t, s.url)
	if found.VersionNumber < OldestVersion || found.Version == "" || found.ReadOnly ||
		found.Pooled || !found.Superuser || !found.ChangesAudit || found.ReadCommitted != nil ||
		found.StatementTimeout != 0 || found.Offset.Abs() > 5*time.Second ||
		found.Schema != nil || found.Cluster != s.a.ClusterID() {
		t.Errorf("as the owner: %+v", found)
	}
	makeRoles(s)
	as := func(role, options string) Inspection {
		t.Helper()
		u, err := url.Parse(s.url)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.User(role)
		query := u.Query()
		query.Set("options", options)
		u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
		return inspected(t, u.String())
	}
	if found := as("holdfast", ""); found.Superuser || !found.ChangesAudit ||
		found.Role != "holdfast" || found.Schema != nil {
		t.Errorf("as a replica: %+v", found)
	}
	found = as("holdfast_jobs", "-c statement_timeout=2500 "+
		"-c idle_in_transaction_session_timeout=1h -c default_transaction_read_only=on")
	if found.ChangesAudit || found.StatementTimeout != 2500*time.Millisecond ||
		found.IdleTimeout != time.Hour || !found.ReadOnly || found.Schema != nil {
		t.Errorf("as a job: %+v", found)
	}
	// A membership gives the permission after SET ROLE, even if it is not inherited.
	s.exec("ALTER ROLE holdfast_jobs NOINHERIT; REVOKE holdfast_jobs FROM holdfast; " +
		"GRANT holdfast TO holdfast_jobs")
	if found := as("holdfast_jobs", ""); !found.ChangesAudit {
		t.Errorf("as a member of the role of replicas: %+v", found)
	}
}

func TestInspectThroughAPooler(t *testing.T) {
	t.Parallel()
	s := newSingleHarness(t)
	s.exec(
		`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = %L',
			current_database(), 'repeatable read'); END $$`)
	found := inspected(t, strings.Replace(s.url, server.Addr(), startPooler(t), 1))
	if !found.Pooled || !errors.Is(found.ReadCommitted, ErrIsolation) {
		t.Errorf("found %+v", found)
	}
	s.exec("UPDATE holdfast.meta SET min_binary = 99")
	var newer *SchemaError
	if found := inspected(t, s.url); !errors.As(found.Schema, &newer) || found.Pooled {
		t.Errorf("with a newer schema: %+v", found)
	}
	s.exec("DROP SCHEMA holdfast CASCADE")
	if found := inspected(t, s.url); !errors.Is(found.Schema, storage.ErrNotFound) ||
		found.ChangesAudit {
		t.Errorf("without a schema: %+v", found)
	}
	if _, err := Inspect(t.Context(), "postgres://127.0.0.1:1/none", ""); !errors.Is(err,
		storage.ErrUnavailable) {
		t.Errorf("without a server: %v", err)
	}
}
