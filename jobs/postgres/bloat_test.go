package postgres

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// A transaction that stays open retains all deleted rows in tables and indexes. A lock on a name
// that had many holders meanwhile must read no more blocks than a lock on another name.
func TestLocksReadNoMoreBesideALongTransaction(t *testing.T) {
	t.Parallel()
	const past = 20_000 // former locks on the name
	s := newHarness(t)
	if version := query[int](s,
		"SELECT current_setting('server_version_num')::int"); version < 150000 {
		t.Skipf("version %d of PostgreSQL does not tell at once what was read", version)
	}
	s.stopAutovacuum()
	long, err := s.b.views.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer long.Rollback(t.Context()) //nolint:errcheck // it wrote nothing
	if _, err := long.Exec(t.Context(), "SELECT count(*) FROM holdfast.grants"); err != nil {
		t.Fatal(err)
	}
	session := s.locks(s.a, "a")
	// plans are made while the tables are empty
	s.release(s.a, s.hold(s.a, session, lockRequest(t, "path:first")))
	for _, name := range []string{"path:busy", "path:busy/file", "slot:busy"} {
		s.exec("INSERT INTO holdfast.grants SELECT $1, nextval('holdfast.tokens'), 'exclusive', "+
			"0 FROM generate_series(1, $2::int)", name, past)
	}
	s.exec("INSERT INTO holdfast.claims SELECT nextval('holdfast.tokens'), gen_random_uuid(), "+
		"$1, now(), '{}' FROM generate_series(1, $2::int)", session, past)
	s.exec("DELETE FROM holdfast.grants")
	s.exec("DELETE FROM holdfast.claims")
	for _, name := range []string{"path:busy/file", "path:busy", "slot slot:busy"} {
		s.release(s.a, s.hold(s.a, session, lockRequest(t, name))) // passes them
	}
	for _, wanted := range []string{"path:busy/file", "shared path:busy/file", "slot slot:busy",
		"path:calm", "path:busy/file/deeper"} {
		t.Run(wanted, func(t *testing.T) {
			s.t = t
			s.release(s.a, s.hold(s.a, session, lockRequest(t, wanted))) // its fence is there
			const steps = 20
			before := s.blocksRead()
			for range steps {
				s.release(s.a, s.hold(s.a, session, lockRequest(t, wanted)))
			}
			perLock := (s.blocksRead() - before) / steps
			t.Logf("%d blocks a lock", perLock)
			if perLock > 120 {
				// 20,000 index entries take about 180 blocks, and their rows as many again
				t.Errorf("%d blocks read for a lock beside %d former ones", perLock, past)
			}
		})
	}
}

// Floors rise once in many locks, not at each lock: otherwise the fences would bloat instead.
func TestFloorsAreRaisedRarely(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.locks(s.a, "a")
	reader := s.hold(s.a, session, lockRequest(t, "shared path:a"))
	var raised []int64
	for range 4 {
		s.exec("SELECT nextval('holdfast.tokens') FROM generate_series(1, 600)")
		s.release(s.a, s.hold(s.a, session, lockRequest(t, "path:b/c")),
			s.hold(s.a, session, lockRequest(t, "shared path:a")))
		raised = append(raised, query[int64](s, "SELECT floor FROM holdfast.fences WHERE "+
			"resource = 'path:b/c'"))
	}
	if raised[0] != 0 || raised[1] == 0 || raised[2] != raised[1] || raised[3] <= raised[2]+1000 {
		t.Errorf("floors of a name that was locked every 600 tokens: %v", raised)
	}
	if above := query[int64](s,
		"SELECT floor FROM holdfast.fences WHERE resource = 'path:b'"); above != 0 {
		t.Errorf("floor %d of a name that was shared as an ancestor", above)
	}
	if floor := query[int64](s,
		"SELECT floor FROM holdfast.fences WHERE resource = 'path:a'"); floor > int64(reader) {
		t.Errorf("floor %d above the token %d of one who still holds", floor, reader)
	}
	if blocker := s.refused(s.b, session, lockRequest(t, "path:a")); blocker.Waiting {
		t.Errorf("refused by %+v", blocker)
	}
}

// Starts of new firings raise floors too, but not above the token of a run that still holds.
func TestNewFiringsRaiseFloors(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	floor := func(table string) int64 {
		return query[int64](s, "SELECT coalesce(max(floor), 0) FROM holdfast.fences "+
			"WHERE resource = $1", "table:public/"+table)
	}
	reader := request(t, "reader", "sales")
	reader.Requests[0].Mode = locking.Shared
	held := s.granted(s.a, session, reader)
	starts := 0
	for ; floor("orders") == 0; starts++ {
		if starts == 1000 { // each start raises it with a probability of 1/raiseOdds
			t.Fatal("no floor was raised by 1,000 starts")
		}
		s.exec("SELECT nextval('holdfast.tokens') FROM generate_series(1, 1500)")
		r := request(t, "job", "orders", "sales")
		r.Firing.ScheduledAt = testScheduledAt.Add(time.Duration(starts) * time.Minute)
		r.Requests[1].Mode = locking.Shared
		run := s.granted(s.a, session, r)
		if floor := floor("orders"); floor > int64(run.Token) {
			t.Fatalf("floor %d above the token %d of a holder", floor, run.Token)
		}
		s.finished(s.a, run)
	}
	if floor := floor("sales"); floor > int64(held.Token) {
		t.Errorf("floor %d above the token %d of a run that still holds", floor, held.Token)
	}
}

// A heartbeat must not read more blocks as more claims end beside a long transaction. Otherwise it
// would at some time be too slow, and the session would expire.
func TestHeartbeatsReadNoMoreBesideALongTransaction(t *testing.T) {
	t.Parallel()
	const past = 100_000 // claims that have ended
	s := newHarness(t)
	if version := query[int](s,
		"SELECT current_setting('server_version_num')::int"); version < 150000 {
		t.Skipf("version %d of PostgreSQL does not tell at once what was read", version)
	}
	s.stopAutovacuum()
	long, err := s.b.views.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer long.Rollback(t.Context()) //nolint:errcheck // it wrote nothing
	if _, err := long.Exec(t.Context(), "SELECT count(*) FROM holdfast.claims"); err != nil {
		t.Fatal(err)
	}
	session := s.session(s.a, "a")
	old := s.granted(s.a, session, request(t, "old", "orders"))
	s.exec("INSERT INTO holdfast.claims SELECT nextval('holdfast.tokens'), gen_random_uuid(), "+
		"$1, now() FROM generate_series(1, $2::int)", session, past)
	s.exec("DELETE FROM holdfast.claims WHERE token <> $1", old.Token)
	heartbeat := func() storage.HeartbeatReply {
		t.Helper()
		heartbeat, err := s.a.Heartbeat(t.Context(), session, storage.ReplicaStatus{})
		if err != nil {
			t.Fatal(err)
		}
		return heartbeat
	}
	for range 2 {
		// the first heartbeat notes the drawn tokens, the second that all their claims are visible
		s.exec("UPDATE holdfast.sessions SET raised_at = raised_at - ttl - interval '31 seconds'")
		heartbeat()
	}
	young := s.granted(s.a, session, request(t, "young", "sales"))
	for want := range 2 {
		if want == 1 { // and as it becomes an old one
			s.exec("UPDATE holdfast.sessions SET raised_at = raised_at - ttl - interval '31 " +
				"seconds'")
			heartbeat()
		}
		claims := heartbeat().Claims
		if len(claims) != 2 || claims[old.Token] != old.ID || claims[young.Token] != young.ID {
			t.Errorf("claims %v, want tokens %d and %d", claims, old.Token, young.Token)
		}
	}
	const steps = 10
	before := s.blocksRead()
	start := time.Now()
	for range steps {
		heartbeat()
	}
	perHeartbeat := (s.blocksRead() - before) / steps
	t.Logf("%d blocks and %s a heartbeat", perHeartbeat, time.Since(start)/steps)
	if perHeartbeat > 60 {
		t.Errorf("%d blocks read for a heartbeat beside %d claims that have ended", perHeartbeat,
			past)
	}
}

// A claim may be committed after the floor was read although its token was drawn before. The next
// heartbeat must report it.
func TestHeartbeatReportsLateClaims(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	session := s.session(s.a, "a")
	resume := s.pause("a", "holdfast.claims", "COMMIT", "true")
	late := request(t, "late", "orders")
	done := s.start(s.a, session, late)
	awaitWaiting(s, "a", done) // its token is drawn
	s.exec("SELECT nextval('holdfast.tokens') FROM generate_series(1, 100)")
	age := func() {
		s.exec("UPDATE holdfast.sessions SET raised_at = raised_at - ttl - interval '31 seconds'")
	}
	age()
	if _, err := s.b.Heartbeat(t.Context(), session, storage.ReplicaStatus{}); err != nil {
		// it notes the drawn tokens
		t.Fatal(err)
	}
	resume()
	s.expect(done, storage.StartGranted)
	age()
	for range 2 {
		heartbeat, err := s.b.Heartbeat(t.Context(), session, storage.ReplicaStatus{})
		if err != nil || len(heartbeat.Claims) != 1 {
			t.Errorf("claims %v, %v", heartbeat.Claims, err)
		}
	}
}

// stopAutovacuum excludes the reads of autovacuum from blocksRead.
func (s *harness) stopAutovacuum() {
	s.t.Helper()
	for _, table := range []string{"claims", "grants", "fences"} {
		s.exec("ALTER TABLE holdfast." + table + " SET (autovacuum_enabled = off)")
	}
}

// blocksRead returns how many blocks of claims, grants and fences store a has read, from memory or
// from disk.
func (s *harness) blocksRead() (n int) {
	s.t.Helper()
	const flush = "SELECT pg_stat_force_next_flush()"
	for range s.a.pool.Stat().TotalConns() {
		conn, err := s.a.pool.Acquire(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		defer conn.Release()
		if _, err := conn.Exec(s.t.Context(), flush); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, session := range query[[]uuid.UUID](s, "SELECT array_agg(id) FROM holdfast.sessions") {
		if err := s.a.heartbeats.send(s.t.Context(), session,
			func(b *pgx.Batch, _ *sessionBackend, _ *int64) { b.Queue(flush) }); err != nil {
			s.t.Fatal(err)
		}
	}
	s.exec(flush) // excludes the test's own earlier reads
	return query[int](s, `
SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::int
FROM pg_statio_user_tables WHERE schemaname = 'holdfast'
    AND relname IN ('claims', 'grants', 'fences')`)
}
