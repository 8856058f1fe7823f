package memcached

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/holdfast-dev/holdfast/locking"
)

// link is the connection to one server. It is opened when a request needs it, and replaced when it
// has ended. Its methods may be called concurrently.
type link struct {
	server server
	owner  *Backend

	mu      sync.Mutex
	conn    *conn    // the last one; it may have ended
	opening *opening // nil if none is being opened
}

// opening is an attempt to connect, for which several callers can wait.
type opening struct {
	done chan struct{}
	conn *conn // set when done is closed
	err  error
}

// do runs a request on the connection, and returns that connection. It ends when ctx ends, or after
// the timeouts of connecting and of the reply.
func (l *link) do(ctx context.Context, request *call) (*conn, error) {
	c, err := l.connection(ctx)
	if err != nil {
		return nil, err
	}
	return c, c.do(ctx, request)
}

// connection returns the open connection. If there is none, it waits for a new one.
func (l *link) connection(ctx context.Context) (*conn, error) {
	if ctx.Err() != nil {
		return nil, unavailable(context.Cause(ctx))
	}
	l.mu.Lock()
	if l.conn != nil && l.conn.ended() == nil {
		defer l.mu.Unlock()
		return l.conn, nil
	}
	o := l.opening
	if o == nil {
		o = &opening{done: make(chan struct{})}
		if !l.owner.begin(func() { l.open(o) }) {
			l.mu.Unlock()
			return nil, errClosed
		}
		l.opening = o
	}
	l.mu.Unlock()
	select {
	case <-o.done:
		return o.conn, o.err
	case <-ctx.Done():
		return nil, unavailable(context.Cause(ctx))
	}
}

// open connects for all callers that wait. It does not end with the context of one of them.
func (l *link) open(o *opening) {
	ctx, cancel := context.WithTimeout(l.owner.lifetime, l.owner.timeout)
	defer cancel()
	raw, err := l.owner.dialer.dial(ctx, l.server.Network(), l.server.String())
	l.opened(o, raw, err)
}

// opened ends an attempt to connect with its result.
func (l *link) opened(o *opening, raw net.Conn, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		o.err = unavailable(err)
	case l.owner.lifetime.Err() != nil: // Close waits for readers, and may have passed this link
		_ = raw.Close() // nothing was sent
		o.err = errClosed
	default:
		o.conn = l.owner.start(raw)
		l.conn = o.conn
	}
	l.opening = nil
	close(o.done)
}

// ping returns nil if the server replies. If the connection breaks it asks again, once.
func (l *link) ping(ctx context.Context) error {
	for again := true; ; again = false {
		request := l.owner.newCall(1)
		request.version()
		_, err := l.do(ctx, request)
		if again && isBroken(err) {
			continue
		}
		if r := request.reply(0); r != nil && r.kind == replyRefused {
			return r.err
		}
		if err != nil && !errors.Is(err, locking.ErrUnavailable) {
			return unavailable(err)
		}
		return err
	}
}

// close ends the connection. None is opened any more.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.conn.fail(errClosed)
	}
}

// errClosed is the error of all requests after Close.
var errClosed = fmt.Errorf("%w: the backend is closed", locking.ErrUnavailable)
