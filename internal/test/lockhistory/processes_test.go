package lockhistory

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/internal/test/soak"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
)

const (
	// secondsVariable is the number of seconds for which a cluster of processes works after its
	// faults.
	secondsVariable = "HOLDFAST_LOCKHISTORY_SECONDS"
	soakSeconds     = 20
	maxSeconds      = 60 // memory grows with the square of a history's length

	ttlOfWorkers = 4 * time.Second
	faultsLimit  = 2 * time.Minute
)

// TestProcesses lets several processes contend for locks with memcached and PostgreSQL. One process
// is killed in a transaction and succeeded, one is killed while it holds a lock, two are paused
// until others have their locks, and memcached is restarted. The guarantee must allow their
// history.
func TestProcesses(t *testing.T) {
	soak.Only(t) // TestGoroutines and TestRaces check short histories
	t.Parallel()
	c := newCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), faultsLimit)
	defer cancel()
	for _, name := range []string{"one", "two", "three", "four"} {
		c.start(name, workerSpec{Replica: name})
	}
	c.awaitGrants(ctx, 15)

	c.freezeInTransaction(ctx, "one")
	c.kill("one")
	c.start("one again", workerSpec{Replica: "one"})
	c.freezeWithLock(ctx, "two")
	c.kill("two")
	if err := c.memcached.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	c.note.Note("memcached is restarted")
	c.freezeInTransaction(ctx, "three")
	c.freezeWithLock(ctx, "four")
	c.awaitGrants(ctx, 15, "one again")
	for _, name := range []string{"three", "four"} {
		c.awaitEndOfSession(ctx, name)
		c.workers[name].thaw(t)
		c.note.Note(name + " goes on")
	}
	c.awaitGrants(ctx, 15, "three", "four")
	pause(t.Context(), secondsToWork(t))
	h := c.finish()
	for _, kind := range []Kind{Refused, Released, NotHeld, Committed, Superseded} {
		if h.Counts[kind] == 0 {
			t.Errorf("nothing is %s: this run shows too little", kind)
		}
	}
}

// TestRaces lets many workers lock few related names for a short time, without memcached, so that
// grants race.
func TestRaces(t *testing.T) {
	c := newCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), faultsLimit)
	defer cancel()
	few := []Request{exclusive("a"), exclusive("a/x"), exclusive("a/y"), exclusive("a/x/1"),
		shared("a"), slot("a/s", 2)}
	for _, name := range []string{"one", "two", "three"} {
		c.start(name, workerSpec{Replica: name, Workers: 8, Wanted: few,
			Longest: 40 * time.Millisecond, Hasty: true})
	}
	c.awaitGrants(ctx, soak.Pick(10, 100))
	c.finish()
}

func secondsToWork(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(secondsVariable)
	if text == "" {
		return soakSeconds * time.Second
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 1 || seconds > maxSeconds {
		t.Fatalf("%s: want 1 to %d, got %q", secondsVariable, maxSeconds, text)
	}
	return time.Duration(seconds) * time.Second
}

// cluster is the servers, all processes that were started, and a history of their faults.
type cluster struct {
	*testing.T
	url       string
	memcached *servertest.Memcached
	conn      *pgx.Conn // the test's own
	dir       string
	workers   map[string]*worker
	noted     *os.File
	note      *Recorder
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs PostgreSQL and memcached")
	}
	c := &cluster{T: t, url: server.Database(t), memcached: servertest.NewMemcached(t),
		dir: t.TempDir(), workers: map[string]*worker{}}
	store, err := postgres.Open(t.Context(),
		postgres.Options{URL: c.url, Migrate: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	if c.conn, err = pgx.Connect(t.Context(), c.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.conn.Close(context.Background()) })
	if _, err := c.conn.Exec(t.Context(), ledgerTable); err != nil {
		t.Fatal(err)
	}
	if c.noted, err = os.Create(filepath.Join(c.dir, "notes")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.noted.Close() })
	c.note = NewRecorder(c.noted, "test")
	return c
}

// start starts a worker from the spec. Missing fields are as in TestProcesses.
func (c *cluster) start(name string, spec workerSpec) {
	c.Helper()
	spec.Name, spec.File, spec.Seed = name, filepath.Join(c.dir, name), uint64(len(c.workers))
	spec.URL, spec.TTL = c.url+"&application_name="+url.QueryEscape(name), ttlOfWorkers
	if spec.Wanted == nil {
		spec.Memcached, spec.Workers, spec.Wanted, spec.Longest, spec.Writes = c.memcached.Addr(),
			3, wanted, longestHold, true
		spec.Rest = soak.Pick(100*time.Millisecond, 0) // mostly, sessions are waited for
	}
	c.workers[name] = startWorker(c.T, spec)
	c.note.Note(name + " is started")
}

// freezeWithLock pauses a worker while it holds a lock.
func (c *cluster) freezeWithLock(ctx context.Context, name string) {
	c.Helper()
	w := c.workers[name]
	w.freeze(ctx, c.T, func() bool { return holds(w.events(c.T)) })
	c.note.Note(name + " is paused, with a lock")
}

// freezeInTransaction pauses a worker between the fence check and the commit.
func (c *cluster) freezeInTransaction(ctx context.Context, name string) {
	c.Helper()
	const inTransaction = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1 AND state = 'idle in transaction')`
	c.workers[name].freeze(ctx, c.T, func() (inside bool) {
		if err := c.conn.QueryRow(ctx, inTransaction, name).Scan(&inside); err != nil {
			c.Fatal(err)
		}
		return inside
	})
	c.note.Note(name + " is paused, in a fenced transaction")
}

// kill ends a paused worker.
func (c *cluster) kill(name string) {
	c.Helper()
	c.workers[name].kill(c.T)
	c.note.Note(name + " is killed")
}

// awaitGrants waits until each of the named workers, or all, have n more locks.
func (c *cluster) awaitGrants(ctx context.Context, n int, names ...string) {
	c.Helper()
	if len(names) == 0 {
		for name := range c.workers {
			names = append(names, name)
		}
	}
	for _, name := range names {
		granted := func() (count int) {
			for _, e := range c.workers[name].events(c.T) {
				if e.Kind == Granted {
					count++
				}
			}
			return count
		}
		for from := granted(); granted() < from+n; {
			c.wait(ctx, "locks of "+name)
		}
	}
}

// wait waits a short time before a condition is checked again.
func (c *cluster) wait(ctx context.Context, what string) {
	c.Helper()
	pause(ctx, 20*time.Millisecond)
	if ctx.Err() != nil {
		c.Fatalf("%s: %v", what, context.Cause(ctx))
	}
}

// awaitEndOfSession waits until the last session of a worker has been swept.
func (c *cluster) awaitEndOfSession(ctx context.Context, name string) {
	c.Helper()
	var session uuid.UUID
	for _, e := range c.workers[name].events(c.T) {
		if e.Kind == Confirmed {
			session = e.Session
		}
	}
	for over := false; !over; c.wait(ctx, "the end of the session of "+name) {
		if err := c.conn.QueryRow(ctx,
			`SELECT ended_at IS NOT NULL FROM holdfast.sessions WHERE id = $1`,
			session).Scan(&over); err != nil {
			c.Fatal(err)
		}
	}
}

// finish ends all workers and checks their histories.
func (c *cluster) finish() *History {
	c.Helper()
	for _, w := range c.workers {
		select {
		case <-w.exited:
		default:
			w.end(c.T)
		}
	}
	var events []Event
	for _, w := range c.workers {
		events = append(events, w.events(c.T)...)
	}
	if err := c.note.Err(); err != nil {
		c.Fatal(err)
	}
	notes, err := os.Open(c.noted.Name())
	if err != nil {
		c.Fatal(err)
	}
	defer notes.Close()
	noted, err := Read(notes)
	if err != nil {
		c.Fatal(err)
	}
	h, err := New(append(events, noted...))
	if err != nil {
		c.Fatal(err)
	}
	ledger := c.ledger()
	began := time.Now()
	if err := h.Check(ledger); err != nil {
		c.Error(err)
	}
	c.Logf("%d locks, %d rows in the ledger, checked in %s: %v", len(h.Locks), len(ledger),
		time.Since(began), h.Counts)
	return h
}

// ledger reads the ledger when all writers have ended. The last transaction of a killed process may
// outlast it.
func (c *cluster) ledger() []Written {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), faultsLimit)
	defer cancel()
	const others = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`
	for left := 1; left > 0; c.wait(ctx, "the last transactions") {
		if err := c.conn.QueryRow(ctx, others).Scan(&left); err != nil {
			c.Fatal(err)
		}
	}
	rows, err := c.conn.Query(ctx, readLedger)
	if err != nil {
		c.Fatal(err)
	}
	ledger, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Written])
	if err != nil {
		c.Fatal(err)
	}
	return ledger
}
