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

// Fate is the treatment of a piece of a client's request by a Proxy.
type Fate int

const (
	Pass Fate = iota // forward it
	Drop             // neither forward nor answer it; the connection stays open
	Cut              // close the connection without forwarding it
	// forward it, wait for the server's reply, and close the connection instead of forwarding the
	// reply
	CutReply
	LoseReply // forward it, but no reply from then on; the connection stays open
)

const proxyChunk = 64 << 10

// Proxy is a TCP proxy on loopback that simulates faults of networks. Its methods may be called
// concurrently. They take effect at once, also on open connections.
type Proxy struct {
	target   string
	listener net.Listener
	done     sync.WaitGroup

	refuse     atomic.Bool
	delay      atomic.Int64
	onRequest  atomic.Pointer[func([]byte) Fate]
	onReplyCut atomic.Pointer[func()]

	mu     sync.Mutex
	closed bool
	links  map[*link]struct{}
}

// StartProxy starts a proxy to target, a host:port. Close ends it.
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

// Addr returns the host:port of the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Refuse makes the proxy close new connections at once, or accept them again. Open connections stay
// open: see CutAll.
func (p *Proxy) Refuse(on bool) { p.refuse.Store(on) }

// MuteAll makes the proxy drop all further replies on the open connections, while it still forwards
// their requests.
func (p *Proxy) MuteAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.mute.Store(true)
	}
}

// Delay delays each piece of a reply by that time. 0 removes the delay.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// OnRequest makes decide choose the fate of each piece of a request. A piece has up to 64 KiB,
// which for a small request is the whole request. Different connections call decide concurrently.
// If decide blocks, its request waits. The proxy then forwards the request even if the client has
// gone. nil removes decide.
func (p *Proxy) OnRequest(decide func(request []byte) Fate) {
	if decide == nil {
		p.onRequest.Store(nil)
		return
	}
	p.onRequest.Store(&decide)
}

// OnReplyCut makes the proxy call called when the server has answered a request with the fate
// CutReply, before the connection is closed. Different connections call it concurrently.
func (p *Proxy) OnReplyCut(notify func()) { p.onReplyCut.Store(&notify) }

// CutAll closes all open connections in both directions.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Close closes the proxy and all its connections, and waits for its goroutines. A blocked decide of
// OnRequest must return first.
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

// link is the connection of one client and the corresponding connection to the server.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	ctx            context.Context
	cancel         context.CancelFunc
	mute, cutReply atomic.Bool
}

// requests forwards data from the client until the client closes its direction.
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

// endRequests closes the direction to the server. It does not reset the connection, because that
// would discard forwarded data that the server has not read yet.
func (l *link) endRequests() {
	server, ok := l.server.(*net.TCPConn)
	if !ok || server.CloseWrite() != nil {
		l.cut()
	}
}

// request applies the fate of one piece of a request. It reports whether the connection continues.
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

// replies forwards data from the server until the server closes its direction. It continues to read
// after the client has gone, so that the server never blocks on a write.
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
		if notify := l.proxy.onReplyCut.Load(); notify != nil {
			(*notify)()
		}
		return false
	}
	if !l.mute.Load() {
		_, _ = l.client.Write(piece) // if the client has gone, the reply is not needed
	}
	return true
}

// cut resets both connections at once, so that both sides see an error.
func (l *link) cut() {
	l.cancel()
	reset(l.client)
	reset(l.server)
}

// reset closes a connection with RST instead of FIN.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only for a closed connection
	}
	_ = conn.Close()
}
