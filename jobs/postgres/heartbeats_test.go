package postgres

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Heartbeats must succeed while other calls use all connections of the pool.
func TestHeartbeatsDoNotWaitForAConnection(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session, program := s.session(s.a, "a"), s.locks(s.a, "program")
	for range s.a.pool.Config().MaxConns {
		conn, err := s.a.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Release)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := s.a.Heartbeat(ctx, session, storage.ReplicaStatus{}); err != nil {
		t.Errorf("heartbeat while all connections are in use: %v", err)
	}
	if _, err := s.a.Grants().Heartbeat(ctx, program); err != nil {
		t.Errorf("heartbeat of a program while all connections are in use: %v", err)
	}
}

// After a failover the idle connections lead to a server that has gone. A broken connection must
// not fail a heartbeat.
func TestHeartbeatContinuesAfterABrokenConnection(t *testing.T) {
	t.Parallel()
	for name, fate := range map[string]servertest.Fate{"closed": servertest.Cut,
		"silent": servertest.LoseReply} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t)
			proxied, proxy := openProxied(t, s.url)
			session := s.session(s.a, "a")
			heartbeat := func() {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				if _, err := proxied.Heartbeat(ctx, session, storage.ReplicaStatus{}); err != nil {
					t.Errorf("heartbeat: %v", err)
				}
			}
			heartbeat() // on an idle connection
			var broken atomic.Bool
			proxy.OnRequest(func([]byte) servertest.Fate {
				if broken.CompareAndSwap(false, true) {
					return fate
				}
				return servertest.Pass
			})
			heartbeat()
			if !broken.Load() {
				t.Error("connection of the heartbeat: got a new one, want the idle one")
			}
		})
	}
}

// A former primary answers and refuses writes. Only a new connection may reach the new primary.
func TestHeartbeatLeavesAServerThatIsReadOnly(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	if _, err := s.a.Heartbeat(t.Context(), session, storage.ReplicaStatus{}); err != nil {
		t.Fatal(err)
	}
	own, _ := s.a.heartbeats.takeOpen(session)
	if own == nil {
		t.Fatal("no idle connection for the next heartbeat")
	}
	if _, err := own.conn.Exec(t.Context(), "SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	s.a.heartbeats.give(session, own)
	if _, err := s.a.Heartbeat(t.Context(), session, storage.ReplicaStatus{}); err != nil {
		t.Errorf("heartbeat after a failover: %v", err)
	}
}

// A former primary that still answers must not keep any connection: jobs could not commit there,
// and the admin page would show old data.
func TestPoolsLeaveAServerThatIsReadOnly(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	database := pgx.Identifier{query[string](s, "SELECT current_database()")}.Sanitize()
	pools := map[string]*dbPool{"store": s.a.pool, "jobs": s.a.work, "views": s.a.views}
	s.exec("ALTER DATABASE " + database + " SET default_transaction_read_only = on")
	for name, pool := range pools {
		pool.Reset()
		_, release, err := pool.lease(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		release()
	}
	s.exec("ALTER DATABASE " + database + " RESET default_transaction_read_only")
	if _, err := s.a.Sweep(t.Context()); codeOf(err) != readOnly {
		t.Fatalf("sweep: got %v, want a refusal of a write", err)
	}
	for name, pool := range pools {
		var setting string
		if err := pool.QueryRow(t.Context(), "SELECT current_setting('transaction_read_only')").
			Scan(&setting); err != nil || setting != "off" {
			t.Errorf("%s: got read_only = %s, %v, want a new connection", name, setting, err)
		}
	}
}

// The margin of cluster time is half the time between Asked and Answered. The time in which a
// connection opens, or breaks, would make it useless.
func TestHeartbeatMeasuresTheClockAroundItsStatement(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	proxied, proxy := openProxied(t, s.url)
	session := s.session(s.a, "a")
	var cut atomic.Bool
	var opened atomic.Pointer[time.Time]
	proxy.OnRequest(func(request []byte) servertest.Fate {
		if cut.CompareAndSwap(true, false) {
			return servertest.Cut
		}
		if bytes.Contains(request, []byte(setKeepAlive)) { // the last request of an opening
			now := time.Now()
			opened.Store(&now)
		}
		return servertest.Pass
	})
	for _, when := range []string{"on a new connection", "after a broken connection"} {
		opened.Store(nil)
		reply, err := proxied.Heartbeat(t.Context(), session, storage.ReplicaStatus{})
		if err != nil {
			t.Fatal(err)
		}
		end := opened.Load()
		if end == nil {
			t.Fatalf("%s: no connection was opened", when)
		}
		if reply.SentAt.Before(*end) || reply.AnsweredAt.Before(reply.SentAt) ||
			time.Now().Before(reply.AnsweredAt) {
			t.Errorf("%s, opened at %s: asked at %s, answered at %s", when, *end, reply.SentAt,
				reply.AnsweredAt)
		}
		cut.Store(true)
	}
}
