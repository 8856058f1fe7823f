package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

const (
	// beatTimeout bounds one try of a heartbeat with its connect. A session that expires after 15 s
	// has several tries.
	beatTimeout = 2 * time.Second

	// beatAttempts is how often a heartbeat is tried before the call fails.
	beatAttempts = 3

	// maxHeartbeatConns is how many sessions of a process have connections of their own for
	// heartbeats, and how many idle connections other sessions share. A process seldom has more
	// than two sessions.
	maxHeartbeatConns = 4
)

// heartbeatConns are connections for heartbeats only, so that heartbeats never wait for a
// connection that other calls use. It is not a pgx pool, because a pool counts a broken connection
// until its close is confirmed. It may be used concurrently.
type heartbeatConns struct {
	connector
	schema schemaName

	mu       sync.Mutex
	idle     []*pgx.Conn                   // of no session
	sessions map[uuid.UUID]*sessionBackend // at most maxHeartbeatConns
	closed   bool
	watching sync.WaitGroup

	open context.Context // ends when the store is closed
	end  context.CancelFunc
}

// newHeartbeatConns returns connections with the settings of c.
func newHeartbeatConns(c connector, schema schemaName) *heartbeatConns {
	c.config = c.config.Copy()
	// The end of a watch must not cancel a query at the server, whatever the program has set.
	c.config.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()}
	}
	l := &heartbeatConns{connector: c, schema: schema, sessions: map[uuid.UUID]*sessionBackend{}}
	l.open, l.end = context.WithCancel(context.Background())
	return l
}

// queueBeat adds a heartbeat to a batch. own is the state of the session's connection, or nil if
// the batch uses another connection. pid is a parameter of renewSession: the process ID of the
// backend that it records, 0 for none, or nil for the recorded one.
type queueBeat func(b *pgx.Batch, own *sessionBackend, pid *int64)

// send sends the batch that queue builds, which it calls once per try. It closes a connection that
// breaks, and retries at once on another. It prefers the connection of the session.
func (l *heartbeatConns) send(ctx context.Context, session uuid.UUID, queue queueBeat) error {
	own, another := l.take(session)
	if own != nil {
		defer l.give(session, own)
	}
	for left := beatAttempts; ; {
		err := l.try(ctx, own, another, queue)
		if left--; err == nil || ctx.Err() != nil || left == 0 || !isBroken(err) {
			return err
		}
	}
}

// try sends the batch once. A connection that replaces that of a session for one heartbeat is
// closed afterwards.
func (l *heartbeatConns) try(ctx context.Context, own *sessionBackend, another bool,
	queue queueBeat) error {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	b := &pgx.Batch{}
	if own != nil {
		return own.use(ctx, l.connector, func(conn *pgx.Conn) error {
			queue(b, own, own.pid())
			return conn.SendBatch(ctx, b).Close()
		})
	}
	conn, err := l.shared(ctx)
	if err != nil {
		return err
	}
	pid := new(int64)
	if another {
		pid = nil
	}
	queue(b, nil, pid)
	err = conn.SendBatch(ctx, b).Close()
	l.share(conn, isBroken(err), !another)
	return err
}

// shared returns an idle connection of no session, or a new one.
func (l *heartbeatConns) shared(ctx context.Context) (*pgx.Conn, error) {
	if conn := l.idleConn(); conn != nil {
		return conn, nil
	}
	return l.connect(ctx)
}

func (l *heartbeatConns) idleConn() *pgx.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.idle)
	if n == 0 {
		return nil
	}
	conn := l.idle[n-1]
	l.idle = l.idle[:n-1]
	return conn
}

// share returns a connection of no session, or closes it. If it broke, share closes the idle ones
// too, because they go to the same server.
func (l *heartbeatConns) share(conn *pgx.Conn, broken, keep bool) {
	l.mu.Lock()
	dropped := []*pgx.Conn{conn}
	switch {
	case broken:
		dropped = append(dropped, l.idle...)
		l.idle = nil
	case keep && !l.closed && len(l.idle) < maxHeartbeatConns && !conn.IsClosed():
		l.idle, dropped = append(l.idle, conn), nil
	}
	l.mu.Unlock()
	for _, conn := range dropped {
		hangUp(conn)
	}
}

// close closes the idle connections. The others are closed after use.
func (l *heartbeatConns) close() {
	l.mu.Lock()
	l.closed = true
	idle := l.idle
	l.idle = nil
	for id, b := range l.sessions {
		l.drop(id, b)
	}
	l.mu.Unlock()
	l.end()
	for _, conn := range idle {
		hangUp(conn)
	}
	l.watching.Wait()
}

// hangUp closes a connection. It waits at most 100 ms for the server's answer.
func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = conn.Close(ctx) // the connection is unusable in any case
}
