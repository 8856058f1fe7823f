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

// pool has a slot for each request that may run at a time. The slot that was
// used last is used first, so that no more connections are kept than needed.
type pool struct {
	servers servers
	dialer  dialer
	timeout time.Duration
	places  chan struct{} // has an item for each request that runs

	mu         sync.Mutex
	idle       []*slot
	generation int // of connections; those of an older one are not used again
}

// take returns a slot for the request that ctx belongs to. It waits for one at
// most as long as a request may take.
func (p *pool) take(ctx context.Context) (*slot, error) {
	select {
	case p.places <- struct{}{}:
		return p.pop(), nil
	default:
	}
	timer := time.NewTimer(p.timeout)
	defer timer.Stop()
	select {
	case p.places <- struct{}{}:
		return p.pop(), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", locking.ErrUnavailable, context.Cause(ctx))
	case <-timer.C:
		return nil, fmt.Errorf("%w: all %d places were taken for %s", locking.ErrUnavailable,
			cap(p.places), p.timeout)
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
	<-p.places
}

// drop closes all idle connections, and has those in use closed after it.
func (p *pool) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generation++
	for _, s := range p.idle {
		s.renewTo(p.generation)
	}
}

// slot is the place of one request at a time: a client with a connection of its
// own to each server, so that the request's context can end what it waits for.
type slot struct {
	client     *memcache.Client
	dialer     *dialer
	generation int // guarded by pool

	mu      sync.Mutex
	request int // counts them
	ctx     context.Context
	ended   bool // ctx has, while the request ran
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
	_ = s.client.Close() // its error is that a broken connection was broken
}

// run runs a request, and makes it fail when ctx ends.
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

// end makes all that the request waits for fail at once.
func (s *slot) end(request int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.request != request {
		return // it is over, and the slot is another's
	}
	s.ended = true
	for c := range s.conns {
		_ = c.Conn.SetDeadline(past) // it fails where the connection is closed already
	}
}

var past = time.Unix(1, 0)

// dial connects for the request that runs. timeout is gomemcache's context.
func (s *slot) dial(timeout context.Context, network, address string) (net.Conn, error) {
	s.mu.Lock()
	ctx := s.ctx
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(timeout, cancel)()
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

// conn is a connection whose deadline ends with its request's context, and
// that brings no value which is larger than ours.
type conn struct {
	net.Conn
	slot  *slot
	guard guard // used by the request that runs
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
