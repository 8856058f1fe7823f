package holdfasttest

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/internal/test/simstore"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Scheduler is one replica on a store in memory. Its clock is that of the bubble of
// testing/synctest in which [New] was called. Its methods must be called in that bubble, by the
// goroutine of the test.
type Scheduler struct {
	t         testing.TB
	store     *simstore.Store
	db        *sql.DB // nil with the transaction of the test
	tx        pgx.Tx  // nil without
	databases map[string]*jobDatabase
	replica   *holdfast.Replica
	inner     *app.Replica
	explainer *explain.Explainer
	limit     time.Duration // fireLimit; shorter in a test of the end of the limit
	stopped   chan struct{} // closed when Run has returned
	err       error         // of Run; after stopped
}

// New returns a scheduler with the jobs of these options, which are the program's options for
// holdfast.New. A mistake in them fails the test. New replaces the database, memcached, the address
// of the page, the collector of traces and the webhooks. The name of the replica is "test", and the
// audit log has no chain. Without holdfast.WithLog and holdfast.WithSlog, warnings go to the log of
// the test.
//
// New must be called in the function of synctest.Test. It returns when the jobs are registered. The
// scheduler fires them while the test moves the clock, for example with [Scheduler.Advance], and
// stops at the end of the test.
//
// The fenced transactions of handlers are those of a SQLite database in memory. Prepare it with
// [Scheduler.Exec], and query it with [Scheduler.DB]. Each database of the section databases is a
// SQLite database of its own: see [Scheduler.ExecIn] and [Scheduler.DBOf].
func New(t testing.TB, options ...holdfast.Option) *Scheduler {
	t.Helper()
	requireBubble(t, "New")
	s := &Scheduler{t: t, store: simstore.New(), db: SQLite(t), limit: fireLimit}
	s.start(sqlite.NewTestStore(s.db, storedRuns{s.store}),
		func(runs storage.TestRuns) (storage.RunStore, *sql.DB) {
			db := SQLite(t)
			return sqlite.NewTestStore(db, runs), db
		}, options)
	return s
}

// NewWithTx is [New] for jobs whose handlers need PostgreSQL. Their fenced transactions are
// savepoints of tx: see [BeginTx] and [WithTx]. Those of jobs with a Database are in tx too.
func NewWithTx(t testing.TB, tx pgx.Tx, options ...holdfast.Option) *Scheduler {
	t.Helper()
	requireBubble(t, "NewWithTx")
	s := &Scheduler{t: t, store: simstore.New(), tx: tx, limit: fireLimit}
	runs := postgres.NewTestStore(tx, storedRuns{s.store})
	s.start(runs, func(others storage.TestRuns) (storage.RunStore, *sql.DB) {
		return runs.Beside(others), nil
	}, options)
	return s
}

// noAudit discards events of the replica.
type noAudit struct{}

// WriteAudit implements storage.AuditWriter.
func (noAudit) WriteAudit(context.Context, storage.Action, string, string, any) error { return nil }

// start runs the replica until the end of the test, and waits until it is ready. open returns the
// store of runs in a database of jobs, with that database if there is one.
func (s *Scheduler) start(runs storage.RunStore,
	open func(storage.TestRuns) (storage.RunStore, *sql.DB), options []holdfast.Option) {
	s.t.Helper()
	s.databases = map[string]*jobDatabase{}
	log := zerolog.New(zerolog.ConsoleWriter{Out: s.t.Output(), NoColor: true,
		TimeFormat: time.DateTime}).Level(zerolog.WarnLevel).With().Timestamp().Logger()
	shared := &app.Shared{Locks: app.InMemory(), Unpaced: true,
		Store: app.Storage{Store: s.store, RunStore: runs, Events: noAudit{},
			Outbox: noOutbox{}},
		Databases: func(name string) engine.Database {
			d := &jobDatabase{name: name}
			d.RunStore, d.db = open(newDatabaseRuns(storedRuns{s.store}))
			s.databases[name] = d
			return d
		}}
	var err error
	s.replica, s.inner, err = holdfast.ForTest(shared,
		append([]holdfast.Option{holdfast.WithLog(log, nil)}, options...)...)
	if err != nil {
		s.t.Fatalf("new scheduler: %v", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(s.t.Context()))
	if err := s.replica.Open(ctx); err != nil {
		stop()
		s.t.Fatalf("open the scheduler: %v", err)
	}
	s.explainer = explain.New(explain.Options{Store: s.store, Table: s.inner.Scheduler().Table(),
		Pauses: s.store.Pauses})
	s.stopped = make(chan struct{})
	go func() {
		defer close(s.stopped)
		s.err = s.replica.Run(ctx)
	}()
	s.t.Cleanup(func() {
		stop()
		<-s.stopped
		if s.err != nil {
			s.t.Errorf("end of the scheduler: %v", s.err)
		}
	})
	s.awaitReady()
}

// awaitReady waits until the replica has registered its jobs. The store answers at once.
func (s *Scheduler) awaitReady() {
	s.t.Helper()
	ctx := context.Background()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		synctest.Wait()
		err := s.replica.Ready(ctx)
		if err == nil {
			return
		}
		select {
		case <-s.stopped:
			s.t.Fatalf("the scheduler has stopped: %v", s.err)
		default:
		}
		if time.Now().After(deadline) {
			s.t.Fatal(err)
		}
	}
}

// Replica returns the replica, for code under test that triggers jobs, waits for them, or shows the
// page. The test must not call its Run and Close.
func (s *Scheduler) Replica() *holdfast.Replica { return s.replica }

// DB returns the database of the fenced transactions of handlers, in memory and empty at first. It
// has one connection: see [SQLite]. It is nil after [NewWithTx].
func (s *Scheduler) DB() *sql.DB { return s.db }

// Exec runs the statements in the database of the fenced transactions of handlers, or in the
// transaction of [NewWithTx], one after the other. An error fails the test.
func (s *Scheduler) Exec(statements ...string) {
	s.t.Helper()
	if s.tx != nil {
		execTx(s.t, s.tx, statements)
	} else {
		execSQLite(s.t, s.db, statements)
	}
}

// DBOf is [Scheduler.DB] for a database of the section databases. An unknown name fails the test.
func (s *Scheduler) DBOf(database string) *sql.DB {
	s.t.Helper()
	return s.database(database).db
}

// ExecIn is [Scheduler.Exec] for a database of the section databases.
func (s *Scheduler) ExecIn(database string, statements ...string) {
	s.t.Helper()
	if d := s.database(database); d.db != nil {
		execSQLite(s.t, d.db, statements)
	} else {
		execTx(s.t, s.tx, statements)
	}
}

func (s *Scheduler) database(name string) *jobDatabase {
	s.t.Helper()
	d, known := s.databases[name]
	if !known {
		s.t.Fatalf("unknown database %q, expected one of %q", name,
			slices.Sorted(maps.Keys(s.databases)))
	}
	return d
}

// Advance moves the clock by d, and runs what fires meanwhile. If a run has not ended by that time,
// it goes on when the clock moves again.
func (s *Scheduler) Advance(d time.Duration) {
	s.t.Helper()
	if d < 0 {
		s.t.Fatalf("advance the clock by %s: expected 0 or more", d)
	}
	time.Sleep(d)
	synctest.Wait()
}

// AdvanceTo is [Scheduler.Advance] to a time.
func (s *Scheduler) AdvanceTo(at time.Time) {
	s.t.Helper()
	if now := time.Now(); at.Before(now) {
		s.t.Fatalf("advance the clock to %s: it is %s", shown(at), shown(now))
	}
	s.Advance(time.Until(at))
}
