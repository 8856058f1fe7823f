package memcached

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/holdfast-dev/holdfast/locking"
)

// pool has a slot for each concurrent request. It uses the last used slot first, so
// that no more connections are open than needed.
type pool struct {
	servers servers
	dialer  dialer
	timeout time.Duration
	slots   chan struct{} // holds an item for each running request

	mu         sync.Mutex
	idle       []*slot
	generation int // of connections; those of an older generation are not used again
}

// take returns a slot for a request with the context ctx. It waits for one at most
// for the timeout of a request.
func (p *pool) take(ctx context.Context) (*slot, error) {
	select {
	case p.slots <- struct{}{}:
		return p.pop(), nil
	default:
	}
	timer := time.NewTimer(p.timeout)
	defer timer.Stop()
	select {
	case p.slots <- struct{}{}:
		return p.pop(), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", locking.ErrUnavailable, context.Cause(ctx))
	case <-timer.C:
		return nil, fmt.Errorf("%w: all %d slots were taken for %s", locking.ErrUnavailable,
			cap(p.slots), p.timeout)
	}
}

func (p *pool) pop() *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.idle) - 1; last >= 0 {
		s := p.idle[last]
		p.idle = p.idle[:last]
		return s
	}
	return newSlot(p)
}

func (p *pool) put(s *slot) {
	p.mu.Lock()
	s.renewTo(p.generation)
	p.idle = append(p.idle, s)
	p.mu.Unlock()
	<-p.slots
}

// drop closes all idle connections, and the others when their requests end.
func (p *pool) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generation++
	for _, s := range p.idle {
		s.renewTo(p.generation)
	}
}

// slot serves one request at a time. It is a client with its own connection to each
// server, so that the request's context can end its reads and writes.
type slot struct {
	client     *memcache.Client
	dialer     *dialer
	generation int // guarded by pool

	mu      sync.Mutex
	request int // number of the current request
	ctx     context.Context
	ended   bool // ctx ended while the request ran
	conns   map[*conn]struct{}
}

func newSlot(p *pool) *slot {
	s := &slot{client: memcache.NewFromSelector(p.servers), dialer: &p.dialer,
		generation: p.generation, conns: map[*conn]struct{}{}}
	s.client.Timeout, s.client.MaxIdleConns, s.client.DialContext = p.timeout, 1, s.dial
	return s
}

// renewTo closes the connections if they are of another generation.
func (s *slot) renewTo(generation int) {
	if s.generation == generation {
		return
	}
	s.generation = generation
	_ = s.client.Close() // closing a broken connection may fail
}

// run runs a request, and fails it when ctx ends.
func (s *slot) run(ctx context.Context, request func(*memcache.Client) error) error {
	s.mu.Lock()
	s.request++
	number := s.request
	s.ctx, s.ended = ctx, false
	s.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { s.end(number) })
	defer stop()
	return request(s.client)
}

// end makes all reads and writes of the request fail at once.
func (s *slot) end(request int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.request != request {
		return // the request has ended, and another one uses the slot
	}
	s.ended = true
	for c := range s.conns {
		_ = c.Conn.SetDeadline(past) // it fails if the connection is closed already
	}
}

var past = time.Unix(1, 0)

// dial connects for the current request. gomemcache sets timeout.
func (s *slot) dial(timeout context.Context, network, address string) (net.Conn, error) {
	s.mu.Lock()
	ctx := s.ctx
	s.mu.Unlock()
	if deadline, limited := timeout.Deadline(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	raw, err := s.dialer.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, slot: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
	return c, nil
}

// conn is a connection whose deadline ends with its request's context. It refuses
// values that are larger than ours.
type conn struct {
	net.Conn
	slot  *slot
	guard guard // used by the current request
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if refused := c.guard.read(p[:n]); refused != nil {
		return 0, refused
	}
	return n, err
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.slot.mu.Lock()
	defer c.slot.mu.Unlock()
	if c.slot.ended {
		t = past
	}
	return c.Conn.SetDeadline(t)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.slot.mu.Lock()
	delete(c.slot.conns, c)
	c.slot.mu.Unlock()
	return c.Conn.Close()
}
