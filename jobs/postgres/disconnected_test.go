package postgres

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// beat sends a heartbeat.
func (s *harness) beat(store *Store, session uuid.UUID) {
	s.t.Helper()
	if _, err := store.Heartbeat(s.t.Context(), session, storage.ReplicaStatus{}); err != nil {
		s.t.Fatal(err)
	}
}

// beating opens a session with a heartbeat.
func (s *harness) beating(store *Store, replica string) uuid.UUID {
	s.t.Helper()
	session := s.session(store, replica)
	s.beat(store, session)
	return session
}

// search searches for disconnected sessions as often as there are results.
func (s *harness) search(store *Store, session uuid.UUID, want ...[]string) {
	s.t.Helper()
	for i, want := range want {
		got, err := store.ExpireDisconnected(s.t.Context(), session)
		if err != nil || !slices.Equal(got.Replicas, want) {
			s.t.Errorf("search %d: expired sessions of %q, %v, want %q", i+1, got.Replicas, err,
				want)
		}
	}
}

// backend returns the recorded backend of a session, 0 for none.
func (s *harness) backend(session uuid.UUID) int {
	s.t.Helper()
	return query[int](s, `SELECT coalesce(backend, 0) FROM holdfast.sessions WHERE id = $1`,
		session)
}

// awaitNoBackend waits until the recorded backend of a session has ended.
func (s *harness) awaitNoBackend(session uuid.UUID) {
	s.t.Helper()
	s.await("its backend ends", `SELECT NOT EXISTS (SELECT FROM pg_stat_activity a
		JOIN holdfast.sessions s ON s.backend = a.pid WHERE s.id = $1)`, session)
}

// awaitBackend waits until a session has a backend other than before.
func (s *harness) awaitBackend(session uuid.UUID, before int) {
	s.t.Helper()
	s.await("another backend", `SELECT EXISTS (SELECT FROM pg_stat_activity a
		JOIN holdfast.sessions s ON s.backend = a.pid WHERE s.id = $1 AND a.pid <> $2)`, session,
		before)
}

// beatWithBackend sends heartbeats until the session has a backend. While a replica opens its lost
// connection again, a heartbeat goes over another one and records no backend. If it commits after
// the new connection has recorded its backend, only the next heartbeat records that again.
func (s *harness) beatWithBackend(store *Store, session uuid.UUID) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		s.beat(store, session)
		if s.backend(session) != 0 {
			return
		}
		if time.Now().After(end) {
			s.t.Fatal("not within a minute: a heartbeat with a backend")
		}
	}
}

// await waits until the condition is true.
func (s *harness) await(what, condition string, args ...any) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); !query[bool](s, condition, args...); {
		if time.Now().After(end) {
			s.t.Fatalf("not within a minute: %s", what)
		}
	}
}

// terminate ends the backend of a session, as an administrator does.
func (s *harness) terminate(session uuid.UUID) {
	s.t.Helper()
	s.exec(`SELECT pg_terminate_backend(backend) FROM holdfast.sessions WHERE id = $1`, session)
}

func (s *harness) live(session uuid.UUID) bool {
	s.t.Helper()
	return query[bool](s, `SELECT ended_at IS NULL AND expires_at > clock_timestamp()
		FROM holdfast.sessions WHERE id = $1`, session)
}

// newSearch is a harness whose stores expire a session at the second search.
func newSearch(t *testing.T) *harness {
	t.Helper()
	s := newHarness(t)
	s.a.disconnectedFor, s.b.disconnectedFor = 0, 0
	return s
}

// The process of a replica ends. The second search expires its session, and the next sweep records
// its run as lost.
func TestSessionOfADeadProcessExpires(t *testing.T) {
	t.Parallel()
	s := newSearch(t)
	other, dead := s.beating(s.b, "b"), s.beating(s.a, "a")
	run := s.granted(s.a, dead, request(t, "job", "orders"))
	s.search(s.b, other, nil, nil)
	s.a.Close() // as the end of a process, it ends no session
	s.awaitNoBackend(dead)
	s.search(s.b, other, nil)
	if !s.live(dead) {
		t.Error("the first search has expired the session")
	}
	s.search(s.b, other, []string{"a"}, nil)
	swept, err := s.b.Sweep(t.Context())
	if err != nil || len(swept.Lost) != 1 || swept.Lost[0].ID != run.ID {
		t.Errorf("sweep: %+v, %v, want run %s", swept, err, run.ID)
	}
	if !s.live(other) {
		t.Error("the session of the searching replica has expired")
	}
}

// Two searches in quick succession expire nothing.
func TestDisconnectedSessionExpiresAfterAWhile(t *testing.T) {
	t.Parallel()
	s := newSearch(t)
	s.b.disconnectedFor = time.Hour
	other, dead := s.beating(s.b, "b"), s.beating(s.a, "a")
	s.a.Close()
	s.awaitNoBackend(dead)
	got, err := s.b.ExpireDisconnected(t.Context(), other)
	if err != nil || len(got.Replicas) != 0 || got.Again <= 0 || got.Again > time.Hour {
		t.Errorf("first search: %+v, %v, want another one within the hour", got, err)
	}
	s.search(s.b, other, nil, nil)
	s.b.disconnectedFor = 0
	s.search(s.b, other, []string{"a"})
}

// A session of a program, which has locks and no runs, expires as one of a replica does.
func TestSessionOfADeadProgramExpires(t *testing.T) {
	t.Parallel()
	s := newSearch(t)
	other, program := s.beating(s.b, "b"), s.locks(s.a, "program")
	if _, err := s.a.Grants().Heartbeat(t.Context(), program); err != nil {
		t.Fatal(err)
	}
	s.a.Close()
	s.awaitNoBackend(program)
	s.search(s.b, other, nil, []string{"program"})
}

// A replica cannot connect at the first search. A heartbeat before the second one saves its
// session.
func TestHeartbeatBetweenSearchesSavesTheSession(t *testing.T) {
	t.Parallel()
	s := newSearch(t)
	proxied, proxy := openProxied(t, s.url)
	other, slow := s.beating(s.b, "b"), s.beating(proxied, "slow")
	proxy.Refuse(true)
	proxy.CutAll()
	s.awaitNoBackend(slow)
	s.search(s.b, other, nil)
	proxy.Refuse(false)
	s.beatWithBackend(proxied, slow)
	s.awaitBackend(slow, 0)
	s.search(s.b, other, nil, nil)
	if !s.live(slow) {
		t.Error("the session has expired")
	}
}

// A heartbeat commits after the second search has found the session, and before it expires. The
// search waits for the heartbeat, and then expires nothing.
func TestHeartbeatWithinASearchSavesTheSession(t *testing.T) {
	t.Parallel()
	s := newSearch(t)
	other, slow := s.beating(s.b, "b"), s.beating(s.a, "a")
	s.a.Close()
	s.awaitNoBackend(slow)
	s.search(s.b, other, nil)
	s.exec("BEGIN")
	s.exec("UPDATE holdfast.sessions SET renewed_at = clock_timestamp() WHERE id = $1", slow)
	searched := make(chan error, 1)
	go func() {
		expired, err := s.b.ExpireDisconnected(t.Context(), other)
		if len(expired.Replicas) != 0 {
			err = errors.Join(err, errors.New("it has expired a session that was renewed"))
		}
		searched <- err
	}()
	awaitWaiting(s, "b", searched)
	s.exec("COMMIT")
	if err := <-searched; err != nil {
		t.Error(err)
	}
	if !s.live(slow) {
		t.Error("the session has expired")
	}
}

// PostgreSQL ends the heartbeat connection of a live replica. The replica opens another one at
// once, without waiting for its next heartbeat.
func TestLostHeartbeatConnectionIsOpenedAgain(t *testing.T) {
	t.Parallel()
	s := newSearch(t)
	other, session := s.beating(s.b, "b"), s.beating(s.a, "a")
	for range 3 {
		before := s.backend(session)
		s.terminate(session)
		s.awaitBackend(session, before)
	}
	s.search(s.b, other, nil, nil)
	s.beat(s.a, session)
	s.search(s.a, session, nil, nil)
}

// A process that is frozen sends no heartbeats, but its connection is open. Only the expiry ends
// its session.
func TestFrozenProcessIsNotDisconnected(t *testing.T) {
	t.Parallel()
	s := newSearch(t)
	other, frozen := s.beating(s.b, "b"), s.beating(s.a, "a")
	s.exec("UPDATE holdfast.sessions SET expires_at = clock_timestamp() + '1 minute' WHERE id = $1",
		frozen)
	s.search(s.b, other, nil, nil, nil)
	if !s.live(frozen) {
		t.Error("the session has expired")
	}
}

// A restart, a crash or a failover of PostgreSQL ends all connections. The first replica that
// connects again must not take the others for dead.
func TestRestartOfPostgreSQLDisconnectsNoSession(t *testing.T) {
	t.Parallel()
	s := newSearch(t)
	proxied, proxy := openProxied(t, s.url)
	other, late := s.beating(s.b, "b"), s.beating(proxied, "late")
	proxy.Refuse(true)
	before := s.backend(other)
	s.terminate(late)
	s.terminate(other)
	s.awaitNoBackend(late)
	s.awaitBackend(other, before)
	s.search(s.b, other, nil, nil)
	s.beat(s.b, other)
	s.search(s.b, other, nil, nil)
	if !s.live(late) {
		t.Error("the session of the replica that connects late has expired")
	}
	// Once it has been back, it can be found.
	proxy.Refuse(false)
	s.beatWithBackend(proxied, late)
	s.awaitBackend(late, 0)
	proxy.Refuse(true)
	proxy.CutAll()
	s.awaitNoBackend(late)
	s.search(s.b, other, nil, []string{"late"})
}

// Only the three oldest replicas search, so that the cost does not grow with the replicas.
func TestOldestReplicasSearch(t *testing.T) {
	t.Parallel()
	s := newSearch(t)
	var sessions []uuid.UUID
	for _, replica := range []string{"1", "2", "3", "4"} {
		sessions = append(sessions, s.beating(s.b, replica))
	}
	dead := s.beating(s.a, "dead")
	s.a.Close()
	s.awaitNoBackend(dead)
	waits := func(want bool) {
		t.Helper()
		got, err := s.b.ExpireDisconnected(t.Context(), sessions[3])
		if err != nil || got.AfterHeartbeat != want || len(got.Replicas) > 0 {
			t.Errorf("got %+v, %v, want AfterHeartbeat to be %t", got, err, want)
		}
	}
	s.search(s.b, sessions[3], nil, nil, nil)
	s.expire(sessions[0])
	waits(true)
	s.beat(s.b, sessions[3])
	waits(false)
	s.search(s.b, sessions[3], []string{"dead"})
}

// A search or another call uses the connection of a session. A heartbeat goes over another
// connection meanwhile, and the session keeps its backend, so that its process can be found dead.
// A backend that the server does not have may be that of a former primary, and is not kept.
func TestHeartbeatBesideItsConnectionKeepsTheBackend(t *testing.T) {
	t.Parallel()
	s := newSearch(t)
	session := s.beating(s.a, "a")
	own, _ := s.a.heartbeats.takeOpen(session)
	backend := s.backend(session)
	if own == nil || backend == 0 {
		t.Fatal("no connection of the session")
	}
	s.beat(s.a, session)
	if got := s.backend(session); got != backend {
		t.Errorf("recorded backend %d, want %d still", got, backend)
	}
	if got, err := s.a.ExpireDisconnected(t.Context(), session); err != nil ||
		got.Again != searchAfter {
		t.Errorf("search meanwhile: %+v, %v, want another one after %s", got, err, searchAfter)
	}
	s.exec("UPDATE holdfast.sessions SET backend = 0 - backend WHERE id = $1", session)
	s.beat(s.a, session)
	if got := s.backend(session); got != 0 {
		t.Errorf("recorded backend %d, which the server does not have, want none", got)
	}
	s.a.heartbeats.give(session, own)
	s.beat(s.a, session)
	if s.backend(session) == 0 {
		t.Error("the next heartbeat has recorded no backend")
	}
}

// A session that ends leaves no connection, and further sessions share connections.
func TestConnectionsOfSessionsAreFew(t *testing.T) {
	t.Parallel()
	s := newSearch(t)
	var sessions []uuid.UUID
	for range maxHeartbeatConns + 3 {
		sessions = append(sessions, s.beating(s.a, "a"))
	}
	s.await("one connection for each of the first sessions and one for the others",
		`SELECT count(DISTINCT backend) = $1 AND count(*) FILTER (WHERE backend IS NULL) = 3
		FROM holdfast.sessions`, maxHeartbeatConns)
	if n := len(s.a.heartbeats.idle); n != 1 {
		t.Errorf("%d shared connections, want 1", n)
	}
	backends := query[[]int32](s, "SELECT array_agg(backend) FROM holdfast.sessions "+
		"WHERE backend IS NOT NULL")
	for i, session := range sessions {
		if i%2 == 0 {
			if err := s.a.End(t.Context(), session); err != nil {
				t.Fatal(err)
			}
			continue
		}
		s.expire(session)
		if _, err := s.a.Heartbeat(t.Context(), session, storage.ReplicaStatus{}); !errors.Is(err,
			storage.ErrSessionLost) {
			t.Fatalf("heartbeat of an expired session: %v", err)
		}
	}
	s.await("no connection of an ended session",
		`SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = ANY($1))`, backends)
	if n := len(s.a.heartbeats.sessions); n != 0 {
		t.Errorf("%d sessions have connections, want none", n)
	}
}

// neverDisconnected checks stores behind a pooler.
func (s *harness) neverDisconnected(through string) {
	s.t.Helper()
	direct := openAs(s.t, s.url, "direct")
	pooled, gone := openAs(s.t, through, "pooled"), openAs(s.t, through, "gone")
	for _, store := range []*Store{direct, pooled} {
		store.disconnectedFor = 0
	}
	other, session, dead := s.beating(direct, "direct"), s.beating(pooled, "pooled"),
		s.beating(gone, "gone")
	gone.Close()
	s.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name IN ('pooled', 'gone')`)
	// Until the backends have ended, the pooler may lend one of them once more.
	s.await("the backends end", `SELECT NOT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND application_name IN ('pooled', 'gone'))`)
	s.search(direct, other, nil, nil, nil)
	s.search(pooled, session, nil, nil, nil)
	for _, id := range []uuid.UUID{session, dead} {
		if backend := s.backend(id); backend != 0 || !s.live(id) {
			s.t.Errorf("session behind a pooler: backend %d, live %t", backend, s.live(id))
		}
	}
}

// The search costs microseconds.
func BenchmarkSearchForDisconnected(b *testing.B) {
	if server == nil {
		b.Skip("needs PostgreSQL: run without -short")
	}
	s, err := Open(b.Context(), Options{URL: server.Clone(b, template)})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	id := uuid.New()
	session := storage.Session{ID: id, Replica: "a", TTL: time.Hour}
	if err := s.Open(b.Context(), session); err != nil {
		b.Fatal(err)
	}
	if _, err := s.Heartbeat(b.Context(), id, storage.ReplicaStatus{}); err != nil {
		b.Fatal(err)
	}
	var others []*pgx.Conn
	for range 50 {
		conn, err := pgx.Connect(b.Context(), s.pool.Config().ConnString())
		if err != nil {
			b.Fatal(err)
		}
		others = append(others, conn)
	}
	if _, err := others[0].Exec(b.Context(), `
INSERT INTO holdfast.sessions (id, replica, version, ttl, started_at, renewed_at, expires_at, backend)
    SELECT gen_random_uuid(), 'r' || n, '', '15s', now(), now(), now() + interval '1 hour', a.pid
    FROM generate_series(1, 48) n, (SELECT pg_backend_pid() AS pid) a`); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if expired, err := s.ExpireDisconnected(b.Context(), id); err != nil ||
			len(expired.Replicas) != 0 {
			b.Fatal(expired, err)
		}
	}
	for _, conn := range others {
		conn.Close(b.Context())
	}
}

// A replica that has just started finds a session that was renewed before, once it has seen its
// backend.
func TestNewReplicaFindsAnOlderSession(t *testing.T) {
	t.Parallel()
	s := newSearch(t)
	dead := s.beating(s.a, "a")
	other := s.beating(s.b, "b")
	s.search(s.b, other, nil)
	s.a.Close()
	s.awaitNoBackend(dead)
	s.search(s.b, other, nil, []string{"a"})
}

// withoutDeadlines is a connection as that of an SSH tunnel.
type withoutDeadlines struct{ net.Conn }

func (withoutDeadlines) SetDeadline(time.Time) error { return errors.New("no deadlines") }

// A connection whose watch cannot be stopped is not watched, so that no heartbeat waits for it.
func TestConnectionWithoutDeadlinesRecordsNoBackend(t *testing.T) {
	t.Parallel()
	s := newSearch(t)
	config := s.a.heartbeats.config.ConnConfig
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return withoutDeadlines{conn}, err
	}
	session := s.beating(s.a, "a")
	s.beat(s.a, session)
	if backend := s.backend(session); backend != 0 {
		t.Errorf("recorded backend %d", backend)
	}
}
