package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// beatTimeout bounds one try of a heartbeat with its connect. A session that expires after 15 s
	// has several tries.
	beatTimeout = 2 * time.Second

	// beatAttempts is how often a heartbeat is tried before the call fails.
	beatAttempts = 3

	// maxHeartbeatConns is how many idle connections a process retains for heartbeats. A process
	// seldom has more than two sessions.
	maxHeartbeatConns = 4
)

// heartbeatConns are connections for heartbeats only, so that heartbeats never wait for a
// connection that other calls use. It is not a pgx pool, because a pool counts a broken connection
// until its close is confirmed. It may be used concurrently.
type heartbeatConns struct {
	connector

	mu     sync.Mutex
	idle   []*pgx.Conn
	closed bool
}

// send sends the batch that queue builds, which it calls once per try. It closes a connection that
// breaks, and retries at once on another.
func (l *heartbeatConns) send(ctx context.Context, queue func(b *pgx.Batch)) error {
	for left := beatAttempts; ; {
		err := l.try(ctx, queue)
		if left--; err == nil || ctx.Err() != nil || left == 0 || !isBroken(err) {
			return err
		}
	}
}

func (l *heartbeatConns) try(ctx context.Context, queue func(b *pgx.Batch)) error {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	conn, err := l.take(ctx)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	queue(b)
	err = conn.SendBatch(ctx, b).Close()
	l.give(conn, isBroken(err))
	return err
}

// take returns an idle connection or a new one.
func (l *heartbeatConns) take(ctx context.Context) (*pgx.Conn, error) {
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

// give returns a connection, or closes it. If it broke, give closes the idle ones too, because they
// go to the same server.
func (l *heartbeatConns) give(conn *pgx.Conn, broken bool) {
	l.mu.Lock()
	dropped := []*pgx.Conn{conn}
	switch {
	case broken:
		dropped = append(dropped, l.idle...)
		l.idle = nil
	case !l.closed && len(l.idle) < maxHeartbeatConns && !conn.IsClosed():
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
	l.mu.Unlock()
	for _, conn := range idle {
		hangUp(conn)
	}
}

// hangUp closes a connection. It waits at most 100 ms for the server's answer.
func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = conn.Close(ctx) // the connection is unusable in any case
}
