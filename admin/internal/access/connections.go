package access

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// MaxConnections bounds open connections, and with them memory and file descriptors. An idle
// connection takes about 20 KB.
const MaxConnections = 512

const (
	// maxPerAddress bounds the connections of one client address, so that one client cannot take
	// all of them.
	maxPerAddress = MaxConnections / 2
	// keptPerAddress is how many connections of one client address are closed last, so that a burst
	// from other addresses does not displace a probe. With 4, that takes at least 128 addresses.
	keptPerAddress = 4
	// maxForProbes bounds the connections beyond the limit, which only answer probes.
	maxForProbes = 16
	// writeBuffer bounds, in bytes, the part of an answer that the kernel keeps for a client that
	// does not read. The kernel's own limit is megabytes. With that, filling the buffers of many
	// such clients keeps the processor busy for seconds. Linux takes twice the size.
	writeBuffer = 64 << 10
	// pieceSize is how much of an answer a client must receive to count as making progress.
	pieceSize = 8 << 10
)

// ConnectionLimits bounds the open connections of a listener.
type ConnectionLimits struct {
	Total      int // without ForProbes
	PerAddress int // 0: no limit; an IPv6 client counts by its network
	ForProbes  int // more connections, which answer only probes
	// Kept is how many connections an address keeps as long as another address has more than Kept.
	Kept int
	// Exempt reports whether PerAddress and Kept do not apply to the address, because many clients
	// share it. Its connections are closed last too. May be nil.
	Exempt func(netip.Addr) bool
}

// DefaultLimits returns the limits of the server of a guard. The trusted proxy has no limit of its
// own.
func DefaultLimits(g *Guard) ConnectionLimits {
	return ConnectionLimits{Total: MaxConnections, PerAddress: maxPerAddress,
		ForProbes: maxForProbes, Kept: keptPerAddress,
		Exempt: func(peer netip.Addr) bool { return g.rules().proxy.trusts(peer) }}
}

// connections is a listener that bounds the number of open connections. When a limit is reached, it
// closes the connection that has been idle longest, first among those of addresses with many
// connections. A connection counts as idle while it waits for its client: for a request, for the
// rest of a body, or for the client to read the answer. So clients that send or read nothing cannot
// keep others out. If every connection has an active request, the new one gets a place that only
// answers probes.
type connections struct {
	net.Listener
	limits ConnectionLimits

	mu        sync.Mutex
	byAddress map[netip.Addr]int // connections in common
	common    pool
	probes    pool
}

// pool is a set of connections with a limit of its own.
type pool struct {
	most int
	open int
	idle *list.List // of *connection that wait for their clients, longest idle first
}

type connection struct {
	net.Conn
	owner   *connections
	address netip.Addr // its limit applies; the zero Addr: none

	// Guarded by owner.mu.
	pool     *pool
	requests int
	closed   bool
	place    *list.Element // in pool.idle; nil while a request is active
}

// Limit returns a listener with bounded connections. Its server needs WithConnection and Track.
func Limit(inner net.Listener, limits ConnectionLimits) net.Listener {
	return &connections{Listener: inner, limits: limits, byAddress: make(map[netip.Addr]int),
		common: pool{most: limits.Total, idle: list.New()},
		probes: pool{most: limits.ForProbes, idle: list.New()}}
}

// Accept returns the next connection.
func (l *connections) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c, ok := accepted.(*net.TCPConn); ok {
			_ = c.SetWriteBuffer(writeBuffer) // a closed connection fails later
		}
		if c := l.admit(accepted); c != nil {
			return c, nil
		}
		_ = accepted.Close() // the client sees the closed connection
	}
}

// admit registers a connection, or returns nil if there is no room.
func (l *connections) admit(accepted net.Conn) net.Conn {
	c := &connection{Conn: accepted, owner: l, address: l.limitedAddress(accepted)}
	l.mu.Lock()
	evicted, ok := l.makeRoom(&l.common, c.address)
	if ok {
		l.register(c, &l.common)
	} else if evicted, ok = l.makeRoom(&l.probes, netip.Addr{}); ok {
		l.register(c, &l.probes)
	}
	if ok {
		c.place = c.pool.idle.PushBack(c)
	}
	l.mu.Unlock()
	evicted.evict()
	if !ok {
		return nil
	}
	return c
}

// limitedAddress returns the address whose limit applies to the connection, or the zero Addr.
func (l *connections) limitedAddress(c net.Conn) netip.Addr {
	peer, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	address := peer.Addr().Unmap().WithZone("")
	if l.limits.Exempt != nil && l.limits.Exempt(address) {
		return netip.Addr{}
	}
	return clientNetwork(address)
}

// makeRoom reports whether the pool has room for one more connection of the address. If that needs
// another connection to go, makeRoom unregisters it, and the caller must evict it without mu. The
// caller holds mu.
func (l *connections) makeRoom(p *pool, address netip.Addr) (*connection, bool) {
	sameAddress := l.limits.PerAddress > 0 && address.IsValid() &&
		l.byAddress[address] >= l.limits.PerAddress
	if !sameAddress && p.open < p.most {
		return nil, true
	}
	c := p.longestIdle(func(c *connection) bool {
		if sameAddress {
			return c.address == address
		}
		return l.byAddress[c.address] > l.limits.Kept
	})
	if c == nil && !sameAddress {
		c = p.longestIdle(func(*connection) bool { return true })
	}
	if c == nil {
		return nil, false
	}
	l.forget(c)
	return c, true
}

// longestIdle returns the first idle connection for which may is true, or nil. The caller holds mu.
func (p *pool) longestIdle(may func(*connection) bool) *connection {
	for e := p.idle.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*connection); may(c) {
			return c
		}
	}
	return nil
}

// register adds a connection to a pool. The caller holds mu.
func (l *connections) register(c *connection, p *pool) {
	c.pool = p
	p.open++
	if p == &l.common && c.address.IsValid() {
		l.byAddress[c.address]++
	}
}

// unregister removes a connection from its pool. The caller holds mu.
func (l *connections) unregister(c *connection) {
	c.pool.open--
	if c.place != nil {
		c.pool.idle.Remove(c.place)
		c.place = nil
	}
	if c.pool != &l.common || !c.address.IsValid() {
		return
	}
	if l.byAddress[c.address]--; l.byAddress[c.address] == 0 {
		delete(l.byAddress, c.address)
	}
}

// forget unregisters a connection that will be closed. The caller holds mu.
func (l *connections) forget(c *connection) {
	if !c.closed {
		c.closed = true
		l.unregister(c)
	}
}

// evict closes a connection that makeRoom has unregistered. A handler that reads from it or writes
// to it gets an error.
func (c *connection) evict() {
	if c != nil {
		_ = c.Conn.Close()
	}
}

// answersAll reports whether the connection may have requests beside probes. One that was accepted
// for probes gets a common place if there is one by now. Its request must be active.
func (c *connection) answersAll() bool {
	l := c.owner
	l.mu.Lock()
	if c.pool == &l.common || c.closed {
		l.mu.Unlock()
		return true
	}
	evicted, ok := l.makeRoom(&l.common, c.address)
	if ok {
		l.unregister(c)
		l.register(c, &l.common)
	}
	l.mu.Unlock()
	evicted.evict()
	return ok
}

// onlyProbes reports whether the connection is beyond the limit.
func (c *connection) onlyProbes() bool {
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	return c.pool == &c.owner.probes
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
		c.pool.idle.Remove(c.place)
		c.place = nil
	}
}

func (c *connection) end() {
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	c.requests--
	if c.requests == 0 && !c.closed {
		c.place = c.pool.idle.PushBack(c)
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

// Track marks a connection as active while a request on it is handled. Beyond the limit, it answers
// probes, refuses other requests, and closes the connection.
func Track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(connectionKey{}).(*connection)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		c.begin()
		defer c.end()
		answer := &sent{w, c}
		if !isProbe(r) && !c.answersAll() {
			w.Header().Set("Connection", "close")
			w.Header().Set("Retry-After", "1")
			http.Error(answer, "This replica has too many connections.",
				http.StatusServiceUnavailable)
			return
		}
		if c.onlyProbes() {
			w.Header().Set("Connection", "close")
		}
		r.Body = &awaited{r.Body, c}
		next.ServeHTTP(answer, r)
	})
}

// isProbe reports whether a load balancer asks for the state of the replica.
func isProbe(r *http.Request) bool {
	return r.URL.Path == HealthPath || r.URL.Path == ReadyPath
}

// sent is an answer. While the client is to read it, its connection counts as idle.
type sent struct {
	http.ResponseWriter
	to *connection
}

// Write writes in pieces, so that the time since a connection became idle is the time since its
// client last read some.
func (s *sent) Write(p []byte) (written int, err error) {
	for first := true; first || len(p) > 0; first = false {
		piece := p[:min(len(p), pieceSize)]
		n, err := s.write(piece)
		written += n
		if err != nil {
			return written, err
		}
		p = p[len(piece):]
	}
	return written, nil
}

func (s *sent) write(p []byte) (int, error) {
	s.to.end()
	defer s.to.begin()
	return s.ResponseWriter.Write(p)
}

// FlushError is for http.ResponseController.
func (s *sent) FlushError() error {
	s.to.end()
	defer s.to.begin()
	return http.NewResponseController(s.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (s *sent) Unwrap() http.ResponseWriter { return s.ResponseWriter }

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
