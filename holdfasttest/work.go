package holdfasttest

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/engine"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/postgres"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// WorkOption adjusts a call of [Work].
type WorkOption func(*work)

// work is one call of Work.
type work struct {
	t       testing.TB
	ctx     context.Context
	given   jobs.Run
	timeout time.Duration
	runs    *oneRun
	// store makes the store of the run; nil: a SQLite database of its own
	store     func(runs storage.TestRuns) storage.RunStore
	elsewhere bool // the store is another database
	cluster   uuid.UUID
	locks     []storage.Lock
}

// WithTx sets the transaction of the handler: its fenced transactions are savepoints of tx, a
// transaction on PostgreSQL. See [BeginTx]. The test can prepare data in tx, and query afterwards
// what the handler has written. Transactions that the handler begins on connections of its own are
// not part of tx.
func WithTx(tx pgx.Tx) WorkOption {
	return func(w *work) {
		w.store = func(runs storage.TestRuns) storage.RunStore {
			return postgres.NewTestStore(tx, runs)
		}
	}
}

// WithSQLite sets the database of the handler: its fenced transactions are transactions of db. See
// [SQLite].
func WithSQLite(db *sql.DB) WorkOption {
	return func(w *work) {
		w.store = func(runs storage.TestRuns) storage.RunStore {
			return sqlite.NewTestStore(db, runs)
		}
	}
}

// WithDatabase says that the job has a Database: the database of [WithTx] or [WithSQLite] is not
// the one of the store. run.CompleteInTx then does not end the run, and the functions of packages
// postgres and sqlite return an error.
func WithDatabase() WorkOption { return func(w *work) { w.elsewhere = true } }

// WithFence lets the handler use package fence in a database of the test, which needs the tables of
// [fence.Install]. The run locks the tables in writes and reads. Its transactions are committed.
//
// Calls with the same cluster share the rows of the fence: a call with the same scheduled time is a
// further attempt, and one with a larger token in [WithRun] is a newer run. Take a new id for each
// test.
func WithFence(cluster uuid.UUID, writes, reads []string) WorkOption {
	return func(w *work) {
		w.t.Helper()
		w.cluster = cluster
		var requests []locking.Request
		for mode, names := range map[locking.Mode][]string{locking.Exclusive: writes,
			locking.Shared: reads} {
			for _, name := range names {
				table, err := locking.Table(name, "public")
				if err != nil {
					w.t.Fatal(err)
				}
				requests = append(requests, locking.Request{Resource: table, Mode: mode})
			}
		}
		w.locks = storage.LocksOf(requests)
	}
}

// WithRun sets the fields of the run that are not zero, such as the scheduled time or the number of
// the attempt. By default it is the first attempt of a run of the job "test", scheduled now.
func WithRun(fields jobs.Run) WorkOption { return func(w *work) { w.given = fields } }

// WithContext sets ctx as the parent of the context of the handler. If ctx ends, the context of the
// handler has the cause of ctx, such as jobs.ErrCancelled. The default is t.Context().
func WithContext(ctx context.Context) WorkOption { return func(w *work) { w.ctx = ctx } }

// WithTimeout sets the timeout of the attempt. By default there is none.
func WithTimeout(timeout time.Duration) WorkOption { return func(w *work) { w.timeout = timeout } }

// WithSaved sets the state that the job's last run saved, which run.Saved returns: v, as JSON.
func WithSaved(v any) WorkOption {
	return func(w *work) {
		w.t.Helper()
		saved, err := attempt.EncodeSaved(v)
		if err != nil {
			w.t.Fatal(err)
		}
		w.runs.savedBefore = saved
	}
}

// WithPreviousScheduledAt sets what run.PreviousScheduledAt returns.
func WithPreviousScheduledAt(at time.Time) WorkOption {
	return func(w *work) { w.runs.previous = at.UTC() }
}

// WithClaimLostAfter makes the run lose its claim when that many of its fenced transactions have
// committed. With 0, the run loses it before the handler begins. The context of the handler then
// ends with jobs.ErrClaimLost, and fenced transactions return storage.ErrSuperseded.
func WithClaimLostAfter(transactions int) WorkOption {
	return func(w *work) { w.runs.keepsFor = &transactions }
}

// Work calls the handler once, as a replica calls it for an attempt, and returns what it did.
// Params that the handler's type refuses, such as by a method Validate, fail the test. Without
// [WithTx] and [WithSQLite], the fenced transactions of the handler use an empty SQLite database in
// memory.
func Work[P any](t testing.TB,
	handler func(ctx context.Context, run *jobs.Run, params P) error, params P,
	options ...WorkOption) *Attempt {
	t.Helper()
	w := newWork(t, options)
	raw, err := json.Marshal(params)
	if err != nil {
		t.Fatalf("params of the handler: %v", err)
	}
	const name = "handler"
	registry, err := jobs.NewRegistry(jobs.Handle(name, handler))
	if err != nil {
		t.Fatal(err)
	}
	bound, err := registry.Bind(name, raw)
	if err != nil {
		t.Fatalf("call the handler: %v", err)
	}
	return w.call(bound, raw)
}

func newWork(t testing.TB, options []WorkOption) *work {
	t.Helper()
	w := &work{t: t, ctx: t.Context(), runs: &oneRun{}}
	for _, option := range options {
		option(w)
	}
	if w.store == nil {
		WithSQLite(SQLite(t))(w)
	}
	return w
}

// runStore returns the store of the run.
func (w *work) runStore() storage.RunStore {
	if !w.elsewhere {
		return w.store(w.runs)
	}
	return &jobDatabase{RunStore: w.store(newDatabaseRuns(w.runs))}
}

// call calls the handler with these params.
func (w *work) call(handler jobs.HandlerFunc, params json.RawMessage) *Attempt {
	ctx, cancel := context.WithCancelCause(w.ctx)
	defer cancel(nil)
	w.runs.begin(func() { cancel(jobs.ErrClaimLost) })
	run := w.run(params)
	end := engine.CallHandler(ctx, handler, run, w.timeout)
	a := &Attempt{State: end.State, Reason: end.Reason, Detail: end.Detail, Err: end.Err,
		Output: run.OutputText(), Result: run.Result(), t: w.t, job: run.Job}
	a.Commits, a.Saved = w.runs.written()
	if saved := run.Internal(attempt.NewKey()).Saved(); saved != nil && a.State == jobs.Succeeded {
		a.Saved = saved
	}
	a.CompletedInTx = run.Internal(attempt.NewKey()).Completed() != ""
	return a
}

// run returns the run with the given fields and the defaults of the others.
func (w *work) run(params json.RawMessage) *jobs.Run {
	run := w.given
	if run.ID == uuid.Nil {
		run.ID = uuid.New()
	}
	if run.ScheduledAt.IsZero() {
		run.ScheduledAt = time.Now()
	}
	run.ScheduledAt = run.ScheduledAt.UTC()
	run.Job, run.Replica = cmp.Or(run.Job, "test"), cmp.Or(run.Replica, "test")
	run.Attempt, run.Token = cmp.Or(run.Attempt, 1), cmp.Or(run.Token, 1)
	run.Params = params
	tail := output.NewTail(output.Max)
	log := zerolog.New(zerolog.ConsoleWriter{Out: tail, NoColor: true, TimeFormat: time.TimeOnly}).
		With().Timestamp().Logger()
	return run.With(attempt.NewKey(), &storage.Attempt{Store: w.runStore(), Output: tail,
		NewLog: func() zerolog.Logger { return log }, Cluster: w.cluster, Locks: w.locks})
}
