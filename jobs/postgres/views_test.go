package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// PostgreSQL must end a slow query of the page, also if its client continues to wait. Other
// connections have no such limit.
func TestServerEndsSlowQueriesOfPages(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	start := time.Now()
	_, err := s.a.views.Exec(t.Context(), "SELECT pg_sleep(60)")
	if took := time.Since(start); codeOf(err) != "57014" || took < 3*time.Second ||
		took > 20*time.Second {
		t.Errorf("after %s: %v", took, err)
	}
	var compiles string
	if err := s.a.views.QueryRow(t.Context(), "SHOW jit").Scan(&compiles); err != nil ||
		compiles != "off" {
		t.Errorf("what the page asks is compiled: %q, %v", compiles, err)
	}
	for name, pool := range map[string]*dbPool{"views": s.a.views, "pool": s.a.pool,
		"work": s.a.work} {
		var limit string
		if err := pool.QueryRow(t.Context(), "SHOW statement_timeout").Scan(&limit); err != nil ||
			(limit == "3s") != (name == "views") {
			t.Errorf("%s: statements are ended after %q, %v", name, limit, err)
		}
	}
}

// Queries of pages block all connections of the page. Sessions and runs must continue.
func TestPagesUseNoConnectionsOfFirings(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "one")
	s.exec("BEGIN")
	// only lists of jobs read this table here
	s.exec("LOCK TABLE holdfast.definitions IN ACCESS EXCLUSIVE MODE")
	defer s.exec("ROLLBACK")
	ctx, stop := context.WithCancel(t.Context())
	var pages sync.WaitGroup
	for range 3 * viewConnections {
		pages.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.a.Jobs(ctx); !errors.Is(err, storage.ErrUnavailable) {
					t.Errorf("a page: %v", err)
				}
			}
		})
	}
	for s.a.views.Stat().AcquiredConns() < viewConnections {
		time.Sleep(time.Millisecond) // until queries of pages use all of their connections
	}
	if _, err := s.a.Heartbeat(t.Context(), session, storage.ReplicaStatus{}); err != nil {
		t.Error(err)
	}
	stop()
	pages.Wait()
}

// The test closes all other connections.
func TestAllQueriesOfPagesUseTheirConnections(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	s.a.pool.Close()
	s.a.work.Close()
	ctx := t.Context()
	for name, ask := range map[string]func() error{
		"now":      func() error { _, err := s.a.Now(ctx); return err },
		"locks":    func() error { _, err := s.a.Locks(ctx); return err },
		"jobs":     func() error { _, err := s.a.Jobs(ctx); return err },
		"runs":     func() error { _, err := s.a.Runs(ctx, storage.RunFilter{}); return err },
		"run":      func() error { _, err := s.a.Run(ctx, uuid.New()); return err },
		"replicas": func() error { _, err := s.a.Replicas(ctx); return err },
		"drift":    func() error { _, err := s.a.Drift(ctx, 1); return err },
		"count":    func() error { _, err := s.a.CountFailures(ctx, "x"); return err },
		"failure":  func() error { return s.a.AddFailure(ctx, time.Minute, "x") },
		"sign-out": func() error { return s.a.EndSignIns(ctx, "x", 1, time.Minute) },
		"ended":    func() error { _, err := s.a.Generations(ctx); return err },
	} {
		if err := ask(); err != nil && !(name == "run" && errors.Is(err, storage.ErrNotFound)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
