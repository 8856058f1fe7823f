package access

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
)

// MaxConnections bounds open connections, and with them memory and file descriptors. An idle
// connection takes about 20 KB.
const MaxConnections = 512

// connections is a listener that bounds the number of open connections. When the limit is reached,
// it closes the connection that has been idle longest. A connection whose request body is
// incomplete counts as idle, so half-open requests cannot keep others out. If every connection has
// an active request, the new connection is closed.
type connections struct {
	net.Listener
	most int

	mu   sync.Mutex
	open int
	idle *list.List // of *connection without an active request, longest idle first
}

type connection struct {
	net.Conn
	owner *connections

	// Guarded by owner.mu.
	requests int
	closed   bool
	place    *list.Element // in owner.idle; nil while a request is active
}

// Limit returns a listener with at most so many open connections. Its server needs WithConnection
// and Track.
func Limit(inner net.Listener, most int) net.Listener {
	return &connections{Listener: inner, most: most, idle: list.New()}
}

// Accept returns the next connection.
func (l *connections) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.admit(accepted); c != nil {
			return c, nil
		}
		_ = accepted.Close() // the client sees the closed connection
	}
}

// admit registers a connection, or returns nil if there is no room.
func (l *connections) admit(accepted net.Conn) net.Conn {
	c := &connection{Conn: accepted, owner: l}
	l.mu.Lock()
	var oldest *connection
	if l.open >= l.most {
		front := l.idle.Front()
		if front == nil {
			l.mu.Unlock()
			return nil
		}
		oldest = front.Value.(*connection)
		l.forget(oldest)
	}
	l.open++
	c.place = l.idle.PushBack(c)
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Conn.Close() // the handler that reads from it gets an error
	}
	return c
}

// forget unregisters a connection. The caller holds mu.
func (l *connections) forget(c *connection) {
	if c.closed {
		return
	}
	c.closed = true
	l.open--
	if c.place != nil {
		l.idle.Remove(c.place)
		c.place = nil
	}
}

// Close unregisters and closes the connection, once.
func (c *connection) Close() error {
	c.owner.mu.Lock()
	c.owner.forget(c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

func (c *connection) begin() {
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	c.requests++
	if c.place != nil {
		c.owner.idle.Remove(c.place)
		c.place = nil
	}
}

func (c *connection) end() {
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	c.requests--
	if c.requests == 0 && !c.closed {
		c.place = c.owner.idle.PushBack(c)
	}
}

type connectionKey struct{}

// WithConnection is http.Server.ConnContext.
func WithConnection(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// Track marks a connection as active while a request on it is handled.
func Track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			c.begin()
			defer c.end()
			r.Body = &awaited{r.Body, c}
		}
		next.ServeHTTP(w, r)
	})
}

// awaited is a request body. While it is being received, its connection counts as idle.
type awaited struct {
	io.ReadCloser
	from *connection
}

// Read reads from the client. If the connection was closed to make room, Read ends the request,
// because its answer would go nowhere.
func (b *awaited) Read(p []byte) (int, error) {
	b.from.end()
	defer b.from.begin()
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, net.ErrClosed) {
		panic(http.ErrAbortHandler)
	}
	return n, err
}
