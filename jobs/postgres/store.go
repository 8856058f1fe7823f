package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Options are the settings of a Store.
type Options struct {
	URL string // a libpq URL or keyword string
	// JobsURL is for the transactions of jobs: the same database, with a role that has fewer
	// permissions. "" means URL.
	JobsURL string
	// Pool is a pool of the program, instead of URL and JobsURL. The store does not close it. The
	// store of a replica opens at most 6 more connections with its settings:
	//   - 2 for queries of the admin page
	//   - 1 for notifications, and 1 more while a page is open
	//   - 1 for heartbeats
	//   - 1 for a short time, to end a transaction that a dead replica has left open
	//
	// Each further session, such as that of a locking.Locker, may need 1 more.
	Pool            *pgxpool.Pool
	MaxConnections  int    // for the store's own statements; 0 means 10
	WorkConnections int    // for the transactions of jobs; 0 means 10
	Schema          string // of the store's tables; "" means DefaultSchema
	Migrate         bool   // bring the schema up to date first
	Log             zerolog.Logger
}

// Store is a storage.Store on PostgreSQL. It may be used concurrently.
type Store struct {
	schema schemaName
	pool   *dbPool // of the store's own statements: short, so that few connections serve all
	// of the admin page: however many queries it sends and however long they take, they delay no
	// start or heartbeat
	views      *dbPool
	work       *dbPool         // of the jobs' transactions: however many hang, heartbeats go on
	heartbeats *heartbeatConns // only for heartbeats
	cluster    uuid.UUID
	log        zerolog.Logger

	connector     connector     // of connections outside the pools
	listenTimeout time.Duration // how long a notification may take
	listenSilence time.Duration // see listenSilence
	lockTimeout   string        // how long a statement of the store waits for a row
	pinnedAfter   time.Duration // see pinnedAfter
	// see disconnectedFor
	disconnectedFor time.Duration
	raced           event // see startsBeside
	missedFence     event // see fencesToAdd
	fences          knownFences
	triggers        *triggerBatcher
	sharer          *sharer
}

var (
	_ storage.Store         = (*Store)(nil)
	_ storage.RunStore      = (*Store)(nil)
	_ storage.LoginAttempts = (*Store)(nil)
)

// Open connects, migrates if Options.Migrate is set, and reads the cluster's id. It returns an
// error that wraps storage.ErrUnavailable if the database cannot be reached. It returns a
// *SchemaError if the schema requires a newer binary.
func Open(ctx context.Context, o Options) (*Store, error) {
	schema, err := newSchemaName(o.Schema)
	if err != nil {
		return nil, err
	}
	s := &Store{schema: schema, log: o.Log, listenTimeout: answerTimeout,
		listenSilence: listenSilence, lockTimeout: "1s", pinnedAfter: pinnedAfter,
		disconnectedFor: disconnectedFor}
	s.triggers = newTriggerBatcher(s)
	s.sharer = newSharer(s)
	if o.Pool != nil {
		err = s.borrow(ctx, o)
	} else {
		err = s.connect(ctx, o)
	}
	if err == nil {
		err = s.prepare(ctx, o.Migrate)
	}
	if err == nil && o.JobsURL != "" {
		err = s.checkJobsRole(ctx)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// connect makes pools for the URLs.
func (s *Store) connect(ctx context.Context, o Options) error {
	own, err := parsePool(o.URL, cmp.Or(o.MaxConnections, 10))
	if err != nil {
		return err
	}
	s.connector = connector{own}
	s.heartbeats = newHeartbeatConns(s.connector, s.schema)
	batches := own.Copy()
	batches.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		return registerLists(conn.TypeMap())
	}
	if s.pool, err = s.newPool(ctx, batches); err != nil {
		return err
	}
	work, err := parsePool(cmp.Or(o.JobsURL, o.URL), cmp.Or(o.WorkConnections, 10))
	if err != nil {
		return err
	}
	work.AfterRelease = resetSessions(s.log)
	if s.work, err = s.newPool(ctx, work); err != nil {
		return err
	}
	s.views, err = s.newPool(ctx, viewsOf(own))
	return err
}

// viewConnections bounds the connections of the admin page's queries.
const viewConnections = 2

// viewsOf returns the settings of the admin page's connections, from those of another pool. They
// make PostgreSQL end a query that takes too long, also after its client has gone. They turn off
// just-in-time compilation, which would take longer than the queries.
func viewsOf(config *pgxpool.Config) *pgxpool.Config {
	config = config.Copy()
	config.MaxConns = viewConnections
	config.ConnConfig.RuntimeParams["statement_timeout"] = "3s"
	config.ConnConfig.RuntimeParams["jit"] = "off"
	return config
}

// parsePool returns the settings of a pool of the store.
func parsePool(url string, size int) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("parse database url: %w", err)
	}
	if err := checkMode(config.ConnConfig); err != nil {
		return nil, fmt.Errorf("database url: %w", err)
	}
	config.MaxConns = int32(size)
	config.ShouldPing = mayBeBroken
	configure(config.ConnConfig)
	return config, nil
}

func (s *Store) newPool(ctx context.Context, config *pgxpool.Config) (*dbPool, error) {
	opened, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", err)
	}
	return &dbPool{Pool: opened, schema: s.schema}, nil
}

// resetSession undoes the changes that a job's statements may have left in the session.
var resetSession = []string{"CLOSE ALL", "RESET ROLE", "RESET ALL", setKeepAlive, "DISCARD TEMP",
	"UNLISTEN *", "SELECT pg_advisory_unlock_all()"}

// alreadyReset marks a connection whose session was reset together with its last commit, so that
// the pool need not reset it again.
const alreadyReset = "holdfast: session is reset"

func markReset(conn *pgx.Conn) { conn.PgConn().CustomData()[alreadyReset] = true }

// resetSessions returns a function that undoes a job's changes in the session of a connection. The
// function returns false if the connection must be closed.
func resetSessions(log zerolog.Logger) func(conn *pgx.Conn) bool {
	return func(conn *pgx.Conn) bool {
		if data := conn.PgConn().CustomData(); data[alreadyReset] != nil {
			delete(data, alreadyReset)
			return true
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := conn.Exec(ctx, strings.Join(resetSession, ";"), pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			log.Debug().Err(err).Msg("job connection closed")
		}
		return err == nil
	}
}

func setDefault(params map[string]string, key, value string) {
	if _, set := params[key]; !set {
		params[key] = value
	}
}

func (s *Store) prepare(ctx context.Context, migrated bool) error {
	if err := s.schema.checkWord(ctx, s.pool); err != nil {
		return err
	}
	if migrated {
		if err := migrate(ctx, s.pool, migrations, schemaVersion, s.log); err != nil {
			return err
		}
	}
	if err := requireReadCommitted(ctx, s.pool); err != nil {
		return err
	}
	schema, err := requireSchema(ctx, s.pool)
	if err != nil {
		return err
	}
	s.cluster = schema.cluster
	return nil
}

// checkJobsRole returns an error unless the connections of jobs lead to the same database, with the
// permissions that each fenced transaction needs first.
func (s *Store) checkJobsRole(ctx context.Context) error {
	if err := requireReadCommitted(ctx, s.work); err != nil {
		return fmt.Errorf("role of jobs: %w", err)
	}
	schema, err := requireSchema(ctx, s.work)
	if err != nil {
		return fmt.Errorf("role of jobs: %w", err)
	}
	if schema.cluster != s.cluster {
		return fmt.Errorf("role of jobs: its database has cluster %s, expected %s", schema.cluster,
			s.cluster)
	}
	return nil
}

// ClusterID implements storage.Store.
func (s *Store) ClusterID() uuid.UUID { return s.cluster }

// Close waits at most 5 s for calls in progress, and closes the connections.
func (s *Store) Close() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if s.heartbeats != nil {
			s.heartbeats.close()
		}
		for _, pool := range []*dbPool{s.work, s.views, s.pool} {
			pool.close()
		}
	}()
	select {
	case <-closed:
	case <-time.After(closeTimeout):
		s.log.Warn().Msg("database connections still in use by abandoned handlers")
	}
}

// closeTimeout bounds Close: an abandoned handler may hold its connection for ever.
const closeTimeout = 5 * time.Second

// Pool returns the connections for the transactions of jobs. Unless the pool is Options.Pool, the
// store resets a connection after each job.
func (s *Store) Pool() *pgxpool.Pool { return s.work.Pool }

// beginPipeline bounds the transaction's waits, and makes the planner look up rows by key. A
// connection plans a statement once, often while the tables are still empty. Then a scan of the
// whole table looks cheapest, and the plan would remain in use while the history grows. Bitmap
// scans are off because they do not mark dead index entries, which tables of short-lived rows need.
// beginPipeline fails if the transaction has another isolation level, which cannot be changed once
// a query runs.
//
// Statements that join a list of keys to a table look up each key (LATERAL … OFFSET 0, or = ANY),
// so that no other plan is possible. beginByHash prevents that the lists of a large batch are
// compared pairwise. It is no SET LOCAL: outside of BEGIN and COMMIT, PostgreSQL sends and logs a
// warning for each of them.
const (
	beginPipeline = `
SELECT set_config('transaction_isolation', 'read committed', true),
    set_config('lock_timeout', $1, true),
    set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true),
    set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)`
	beginByHash = beginPipeline + `, set_config('enable_nestloop', 'off', true)`
)

// pipeline sends the queued statements in one round trip as one implicit transaction: all take
// effect or none. Each statement sees all commits before its own start.
func (s *Store) pipeline(ctx context.Context, what string, queue func(b *pgx.Batch)) error {
	return wrap(what, s.send(ctx, beginPipeline, queue))
}

// pipelineByHash is pipeline for statements that join lists to each other.
func (s *Store) pipelineByHash(ctx context.Context, what string, queue func(b *pgx.Batch)) error {
	return wrap(what, s.send(ctx, beginByHash, queue))
}

// sendAgain is pipelineByHash for statements that lock fences after addFences. If a fence is
// missing, the transaction had no effect, and sendAgain calls queue again with retry. The retry
// adds the fence.
func (s *Store) sendAgain(ctx context.Context, queue func(b *pgx.Batch, retry bool)) error {
	send := func(retry bool) error {
		return s.send(ctx, beginByHash, func(b *pgx.Batch) { queue(b, retry) })
	}
	err := send(false)
	for codeOf(err) == fenceGone && ctx.Err() == nil {
		s.missedFence.note()
		s.fences.forget()
		err = send(true)
	}
	return err
}

// fenceGone is the SQLSTATE, of an overflow, with which the lock of a missing fence fails.
const fenceGone = "22003"

// send is pipeline with the driver's error, for a batch that begins with the statement begin.
func (s *Store) send(ctx context.Context, begin string, queue func(b *pgx.Batch)) error {
	b := &pgx.Batch{}
	b.Queue(begin, s.lockTimeout)
	queue(b)
	err := s.pool.send(ctx, b)
	if codeOf(err) == readOnly {
		// they lead to a server that is no longer the primary
		for _, pool := range []*dbPool{s.pool, s.work, s.views} {
			pool.Reset()
		}
	}
	return err
}

// heartbeat is pipeline for heartbeats, on their own connections. It calls queue for each try.
func (s *Store) heartbeat(ctx context.Context, session uuid.UUID,
	queue queueBeat) error {
	err := s.heartbeats.send(ctx, session, func(b *pgx.Batch, own *sessionBackend, pid *int64) {
		b.Queue(beginPipeline, s.lockTimeout)
		queue(b, own, pid)
		s.schema.batch(b)
	})
	if errors.Is(err, storage.ErrSessionLost) {
		s.heartbeats.release(session)
	}
	return err
}
