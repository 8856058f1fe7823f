package admin

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

// maxConnections bounds open connections, and with them memory and files. Each
// idle one takes about 20 KB.
const maxConnections = 512

// connections is a listener that keeps at most as many connections open as
// most. One more closes the one that has gone longest without a request in
// work: half-open requests can hold places, but nobody off them. A request whose
// body is still awaited is not in work. While all have requests in work,
// newcomers are closed.
type connections struct {
	net.Listener
	most int

	mu   sync.Mutex
	open int
	idle *list.List // of *connection without a request in work, the longest so first
}

type connection struct {
	net.Conn
	owner *connections

	// Guarded by owner.mu.
	requests int
	closed   bool
	place    *list.Element // in owner.idle; nil while a request is in work
}

func limitConnections(inner net.Listener, most int) *connections {
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
		_ = accepted.Close() // it was of no use to anybody
	}
}

// admit makes room for a connection; it returns nil where there is none.
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
		_ = oldest.Conn.Close() // its reader learns of it
	}
	return c
}

// forget gives a connection's place back. It is called with mu locked.
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

// Close gives the place back, once.
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

// withConnection is http.Server.ConnContext.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// trackRequests keeps a connection from being closed for another while a request of
// it is answered.
func trackRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			c.begin()
			defer c.end()
			r.Body = &awaited{r.Body, c}
		}
		next.ServeHTTP(w, r)
	})
}

// awaited is a body that takes its time: meanwhile its connection may be closed
// for another.
type awaited struct {
	io.ReadCloser
	from *connection
}

// Read waits for what the client sends. Where the connection was closed
// meanwhile the request ends: nobody is left to be answered, and many such
// answers would keep others waiting.
func (b *awaited) Read(p []byte) (int, error) {
	b.from.end()
	defer b.from.begin()
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, net.ErrClosed) {
		panic(http.ErrAbortHandler)
	}
	return n, err
}
