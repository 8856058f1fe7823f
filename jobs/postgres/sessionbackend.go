package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/sleep"
)

const (
	// showBackend records the backend of a session as renewSession does, and renews nothing: the
	// replica's trust in its session follows from the replies to its heartbeats alone.
	showBackend = `
UPDATE holdfast.sessions SET backend = CASE WHEN pg_backend_pid() = $2::bigint
    THEN pg_backend_pid() END
WHERE id = $1 AND ended_at IS NULL AND expires_at > clock_timestamp()
RETURNING backend IS NOT NULL, clock_timestamp()`

	// unusedAfter is the time without a heartbeat after which a session's connection may be closed
	// to make room for that of another session. It is longer than any useful TTL.
	unusedAfter = 10 * time.Minute

	// The delays before a lost connection is opened again.
	firstReopening = 100 * time.Millisecond
	lastReopening  = time.Second
)

// sessionBackend is the heartbeat connection of one session. While the connection is open, its
// backend in PostgreSQL shows that the process of the session exists. Between calls, a goroutine
// waits for the end of the connection. If PostgreSQL ends the connection, the goroutine opens
// another one at once.
//
// The mutex of heartbeatConns guards the first four fields. The others belong to the caller that
// has set busy.
type sessionBackend struct {
	busy     bool
	released bool // the session has ended
	used     time.Time
	watch    *watch // nil while busy, and behind a pooler

	conn *pgx.Conn // nil: none
	// since is PostgreSQL's clock when the connection first recorded its backend; zero: it has not,
	// for example because it leads to a pooler.
	since    time.Time
	recorded bool // the session may show the backend of this connection, or of an earlier one
	searches bool // see renewSession
	search   search
}

// watch waits for the end of an idle connection.
type watch struct {
	stop context.CancelFunc
	done chan struct{} // closed when the connection may be used again
}

// take returns the connection of the session for exclusive use, until give. It returns nil if
// another call uses the connection, and then another is true, or if the session has none and may
// not have one.
func (l *heartbeatConns) take(session uuid.UUID) (own *sessionBackend, another bool) {
	if session == uuid.Nil {
		return nil, false
	}
	l.mu.Lock()
	b := l.sessions[session]
	switch {
	case b != nil && b.busy:
		l.mu.Unlock()
		return nil, true
	case b == nil:
		if l.closed || !l.makeRoom() {
			l.mu.Unlock()
			return nil, false
		}
		b = &sessionBackend{}
		l.sessions[session] = b
	}
	return l.claim(b), false
}

// takeOpen is take for calls that need a connection that is open and shows its session.
func (l *heartbeatConns) takeOpen(session uuid.UUID) (own *sessionBackend, another bool) {
	l.mu.Lock()
	b := l.sessions[session]
	if b == nil || b.busy || b.watch == nil {
		defer l.mu.Unlock()
		return nil, b != nil && b.busy
	}
	return l.claim(b), false
}

// claim makes b busy, unlocks the mutex, and ends the watch.
func (l *heartbeatConns) claim(b *sessionBackend) *sessionBackend {
	w := b.watch
	b.busy, b.watch = true, nil
	l.mu.Unlock()
	if w != nil {
		w.stop()
		<-w.done
	}
	return b
}

// makeRoom reports whether one more session may have a connection. It releases one that is no
// longer used. The mutex is locked.
func (l *heartbeatConns) makeRoom() bool {
	if len(l.sessions) < maxHeartbeatConns {
		return true
	}
	for id, b := range l.sessions {
		if !b.busy && time.Since(b.used) > unusedAfter {
			l.drop(id, b)
			return true
		}
	}
	return false
}

// give ends the exclusive use. It watches the connection, or opens another one if it was lost.
func (l *heartbeatConns) give(session uuid.UUID, b *sessionBackend) {
	l.mu.Lock()
	b.used = time.Now()
	if b.released || l.closed {
		delete(l.sessions, session)
		l.mu.Unlock()
		b.hangUp()
		return
	}
	defer l.mu.Unlock()
	switch {
	case b.lost():
		l.watching.Go(func() { l.reopen(session, b) })
	default:
		b.busy = false
		if !b.since.IsZero() {
			l.watchConn(session, b)
		}
	}
}

// release closes the connection of a session that has ended.
func (l *heartbeatConns) release(session uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.sessions[session]; b != nil {
		l.drop(session, b)
	}
}

// drop is release with the mutex locked.
func (l *heartbeatConns) drop(session uuid.UUID, b *sessionBackend) {
	b.released = true
	if b.busy {
		return // give closes it
	}
	delete(l.sessions, session)
	w := b.watch
	l.watching.Go(func() {
		if w != nil {
			w.stop()
			<-w.done
		}
		b.hangUp()
	})
}

// watchConn starts the watch of an idle connection. The mutex is locked.
func (l *heartbeatConns) watchConn(session uuid.UUID, b *sessionBackend) {
	ctx, stop := context.WithCancel(l.open)
	w := &watch{stop: stop, done: make(chan struct{})}
	b.watch = w
	conn := b.conn.PgConn()
	l.watching.Go(func() {
		defer stop()
		for ctx.Err() == nil && !conn.IsClosed() {
			// It also returns after a notification. Errors close conn, except the end of ctx.
			_ = conn.WaitForNotification(ctx)
		}
		close(w.done)
		l.mu.Lock()
		lost := b.watch == w && !b.released && !l.closed
		if lost {
			b.busy, b.watch = true, nil
		}
		l.mu.Unlock()
		if lost {
			l.reopen(session, b)
		}
	})
}

// reopen opens another connection and shows its backend, until it succeeds or the session has
// ended. b is busy. Meanwhile heartbeats use other connections.
func (l *heartbeatConns) reopen(session uuid.UUID, b *sessionBackend) {
	for delay := firstReopening; !l.isOver(b); delay = min(2*delay, lastReopening) {
		live, err := l.show(session, b)
		if err == nil && !live {
			l.release(session)
		}
		if err == nil {
			break
		}
		sleep.For(l.open, delay)
	}
	l.give(session, b)
}

// isOver reports whether the connection of b is no longer needed.
func (l *heartbeatConns) isOver(b *sessionBackend) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed || b.released
}

// show records the backend of a new connection. It reports whether the session is live.
func (l *heartbeatConns) show(session uuid.UUID, b *sessionBackend) (live bool, err error) {
	ctx, cancel := context.WithTimeout(l.open, beatTimeout)
	defer cancel()
	err = b.use(ctx, l.connector, func(conn *pgx.Conn) error {
		var shown bool
		var now time.Time
		err := conn.QueryRow(ctx, l.schema.in(showBackend), session, b.pid()).Scan(&shown, &now)
		if err == pgx.ErrNoRows {
			return nil
		}
		if live = err == nil; live {
			b.shown(shown, now)
		}
		return err
	})
	return live, err
}

// use calls f with the connection, which it opens before if there is none. If the connection
// breaks, use closes it.
func (b *sessionBackend) use(ctx context.Context, c connector, f func(*pgx.Conn) error) error {
	if b.conn != nil && b.conn.IsClosed() {
		b.conn = nil
	}
	if b.conn == nil {
		conn, err := c.connect(ctx)
		if err != nil {
			return err
		}
		b.conn, b.since, b.search = conn, time.Time{}, search{}
	}
	err := f(b.conn)
	if isBroken(err) || b.conn.IsClosed() {
		b.hangUp()
	}
	return err
}

// lost reports whether the session may show the backend of a connection that is closed now.
func (b *sessionBackend) lost() bool {
	return b.recorded && (b.conn == nil || b.since.IsZero())
}

func (b *sessionBackend) hangUp() {
	if b.conn != nil {
		hangUp(b.conn)
		b.conn = nil
	}
}

// pid returns the process ID of the backend according to the protocol. It returns 0 for a
// connection without deadlines, such as one of a program's dialer through an SSH tunnel: its watch
// could not be stopped before the next heartbeat.
func (b *sessionBackend) pid() *int64 {
	pid := new(int64)
	if b.conn.PgConn().Conn().SetDeadline(time.Time{}) == nil {
		*pid = int64(b.conn.PgConn().PID())
	}
	return pid
}

// shown handles the reply to a statement that recorded the backend of the connection, or none
// behind a pooler, at the time now of PostgreSQL.
func (b *sessionBackend) shown(recorded bool, now time.Time) {
	b.recorded = recorded
	if recorded && b.since.IsZero() {
		b.since = now
	}
}
