package servertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Fate is what a Proxy does with a piece of a client's request.
type Fate int

// The fates.
const (
	Pass Fate = iota // forward it
	Drop             // neither forward it nor answer; the connection stays open
	Cut              // close the connection without forwarding it
	// forward it, wait until the server answers, close the connection instead of passing that on
	CutReply
	LoseReply // forward it and pass on no answer from then on; the connection stays open
)

const proxyChunk = 64 << 10

// Proxy is a TCP proxy on loopback that breaks connections in the ways that
// networks do. Its methods may be called concurrently and act at once, also on
// connections that are open.
type Proxy struct {
	target   string
	listener net.Listener
	done     sync.WaitGroup

	refuse      atomic.Bool
	dropReplies atomic.Bool
	delay       atomic.Int64
	onRequest   atomic.Pointer[func([]byte) Fate]
	onReplyCut  atomic.Pointer[func()]

	mu     sync.Mutex
	closed bool
	links  map[*link]struct{}
}

// StartProxy starts a proxy to target, a host:port; Close ends it.
func StartProxy(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{target: target, listener: listener, links: map[*link]struct{}{}}
	p.done.Go(p.accept)
	return p, nil
}

// NewProxy is StartProxy for one test, which closes it at its end.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := StartProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Addr returns the proxy's own host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Refuse makes the proxy close new connections at once, or accept them again.
// Open ones stay: see CutAll.
func (p *Proxy) Refuse(on bool) { p.refuse.Store(on) }

// DropReplies makes the proxy swallow all that the server says while requests
// still pass, or stop doing so.
func (p *Proxy) DropReplies(on bool) { p.dropReplies.Store(on) }

// Delay makes each piece of an answer wait so long; 0 ends that.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// OnRequest lets decide choose the fate of each piece of a request, as it came
// from the network: up to 64 KiB, which for small requests is one request.
// decide is called concurrently for different connections, and may block: its
// request then waits, and is forwarded even if the client has gone meanwhile.
// nil ends it.
func (p *Proxy) OnRequest(decide func(request []byte) Fate) {
	if decide == nil {
		p.onRequest.Store(nil)
		return
	}
	p.onRequest.Store(&decide)
}

// OnReplyCut has told called when the server has answered a request whose fate is CutReply,
// before the connection is closed. It is called concurrently for different connections.
func (p *Proxy) OnReplyCut(told func()) { p.onReplyCut.Store(&told) }

// CutAll closes all connections that are open, in both directions.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Close closes the proxy and all its connections, and waits for its goroutines.
// A decide of OnRequest that blocks must be let go first.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.CutAll()
	p.done.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("proxy: %w", err)
	}
	return nil
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.refuse.Load() {
			reset(client)
			continue
		}
		p.done.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.target, startLimit)
	if err != nil {
		reset(client)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &link{proxy: p, client: client, server: server, ctx: ctx, cancel: cancel}
	if !p.add(l) {
		l.cut()
		return
	}
	var both sync.WaitGroup
	both.Go(l.requests)
	both.Go(l.replies)
	both.Wait()
	l.cut()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

// link is one client's connection and the one to the server that belongs to it.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	ctx            context.Context
	cancel         context.CancelFunc
	mute, cutReply atomic.Bool
}

// requests forwards what the client says until it says no more.
func (l *link) requests() {
	buffer := make([]byte, proxyChunk)
	for {
		n, err := l.client.Read(buffer)
		if n > 0 && !l.request(buffer[:n]) {
			l.cut()
			return
		}
		if err != nil {
			l.endRequests()
			return
		}
	}
}

// endRequests tells the server that no more requests follow. It does not cut
// the connection, which would take back what was forwarded but not yet read.
func (l *link) endRequests() {
	server, ok := l.server.(*net.TCPConn)
	if !ok || server.CloseWrite() != nil {
		l.cut()
	}
}

// request gives one piece of a request its fate, and reports whether the
// connection is to go on.
func (l *link) request(piece []byte) bool {
	fate := Pass
	if decide := l.proxy.onRequest.Load(); decide != nil {
		fate = (*decide)(piece)
	}
	switch fate {
	case Drop:
		return true
	case Cut:
		return false
	case CutReply:
		l.cutReply.Store(true)
	case LoseReply:
		l.mute.Store(true)
	}
	_, err := l.server.Write(piece)
	return err == nil
}

// replies forwards what the server says until it says no more. It reads on
// when the client has gone, so that the server is never stopped by that.
func (l *link) replies() {
	buffer := make([]byte, proxyChunk)
	for {
		n, err := l.server.Read(buffer)
		if n > 0 && !l.reply(buffer[:n]) {
			l.cut()
			return
		}
		if err != nil {
			l.cut()
			return
		}
	}
}

func (l *link) reply(piece []byte) bool {
	if delay := time.Duration(l.proxy.delay.Load()); delay > 0 {
		select {
		case <-time.After(delay):
		case <-l.ctx.Done():
			return false
		}
	}
	if l.cutReply.Load() {
		if told := l.proxy.onReplyCut.Load(); told != nil {
			(*told)()
		}
		return false
	}
	if !l.mute.Load() && !l.proxy.dropReplies.Load() {
		_, _ = l.client.Write(piece) // a client that has gone loses nothing by it
	}
	return true
}

// cut closes both connections at once, so that each side sees a broken one.
func (l *link) cut() {
	l.cancel()
	reset(l.client)
	reset(l.server)
}

// reset closes a connection without the usual farewell.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it fails only where the connection is closed already
	}
	_ = conn.Close()
}
