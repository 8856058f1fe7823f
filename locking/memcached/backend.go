// Package memcached is a locking.Backend on memcached.
//
// # Commands
//
// The package uses add, gets and cas. An advisory lock is added by add, renewed by cas, and removed
// by a cas with a negative lifetime. A cas changes an item only if it is still the one whose value
// was compared. The commands touch, gat and delete change any owner's item and are never used. The
// command ms of the meta protocol is never used either: when a full server (-M) refuses an ms, it
// also removes the item under the key, even if that has another owner.
//
// # Connections
//
// Each server has one connection, on which many requests are in flight: requests that are made at
// the same time are sent together, and the replies have the order of the requests. A new lock needs
// one request to each server that has some of its names, and so does its release. (The client
// gomemcache is not used here: it sends one request on a connection at a time, and takes no
// contexts.)
//
// The end of a context ends the wait of its caller. The result of a write that may have been sent
// is then locking.ErrUnclear. The connection still reads the reply and drops it, so that later
// replies belong to their requests. If a reply takes longer than Options.Timeout, the connection
// ends with all its requests, because later replies wait behind it. The next request opens another
// connection.
//
// When a server restarts, its connection ends, and the requests that were sent on it fail. Reads,
// renewals and removals are then sent once more on a new connection. An add is not, because it may
// have taken effect: its result is locking.ErrUnclear, and the Locker reads the key.
//
// The version of an item (memcached's CAS id) is used only on the connection on which it was read.
// After a restart the server counts versions from 1 again, so an old version could be that of
// another owner's item. On another connection the item is therefore read first, and its value
// compared. A proxy that hides restarts from its clients weakens this.
//
// # Servers
//
// A full server (-M) also refuses renewals, because cas needs room for the new copy.
// It can still remove items. Give memcached more memory than its locks need (about
// 400 bytes each), and no other users: an eviction frees a lock.
//
// The configured list and its order decide which server has a key, as in gomemcache. Replicas with
// different lists look for one lock on different servers. Fingerprint shows such
// differences.
//
// A connection is ready after TLS (-Z) and the user's password (-Y), if Options name
// them. Errors of connecting are *DialErrors: nothing of the request was sent.
//
// A Watch reads the servers' statistics and settings. It reports restarts, flushes,
// dropped items, and settings that are unsafe for locks. What it reads is limited in
// time and size, and cleaned for display.
package memcached

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const defaultTimeout = 500 * time.Millisecond

// Options name the servers and configure the connections.
type Options struct {
	// host:port, or the path of a Unix socket; the same list in the same order on all replicas
	Servers []string
	Timeout time.Duration // of connecting, and of a reply; 0 means 500 ms

	// For servers started with -Z; nil means no TLS. Without a ServerName each
	// server must prove its configured host.
	TLS            *tls.Config
	User, Password string // for servers started with -Y; both or neither, without spaces
}

// Backend is a locking.Backend on memcached. Its methods may be called
// concurrently. Close ends its goroutines.
type Backend struct {
	servers servers
	dialer  dialer
	timeout time.Duration
	links   map[string]*link // by the address of the server
	ids     atomic.Uint64    // the last id of a connection

	lifetime   context.Context // ends with Close
	end        context.CancelFunc
	goroutines sync.WaitGroup // two for each connection at most
	mu         sync.Mutex     // guards closed and the start of goroutines
	closed     bool
}

// New returns a Backend. It connects at the first request, so memcached may start
// later; see Ping.
func New(o Options) (*Backend, error) {
	if len(o.Servers) == 0 {
		return nil, errors.New("memcached: no servers, expected at least one")
	}
	for _, address := range o.Servers {
		if err := checkServer(address); err != nil {
			return nil, err
		}
	}
	if o.Timeout < 0 {
		return nil, fmt.Errorf("memcached: timeout %s can't be negative", o.Timeout)
	}
	if err := checkUser(o.User, o.Password); err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	b := &Backend{
		servers: newServers(o.Servers), timeout: o.Timeout, links: map[string]*link{},
		dialer: dialer{tls: o.TLS, user: o.User, password: o.Password},
	}
	b.lifetime, b.end = context.WithCancel(context.Background())
	for _, address := range o.Servers {
		b.links[address] = &link{server: server(address), owner: b}
	}
	return b, nil
}

func checkServer(address string) error {
	if strings.HasPrefix(address, "/") {
		return nil
	}
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return fmt.Errorf("memcached: found server %q, expected host:port or the path of a socket",
			address)
	}
	return nil
}

// checkUser returns an error for a user or password that memcached's file of users
// cannot contain. Its errors quote neither.
func checkUser(user, password string) error {
	const longest = 250 // a line has 255 bytes
	switch {
	case (user == "") != (password == ""):
		return errors.New(
			"memcached: found only one of user and password, expected both or neither")
	case len(user)+len(password) > longest:
		return fmt.Errorf("memcached: found a user and password of more than %d bytes together",
			longest)
	case strings.Contains(user, ":") || strings.ContainsFunc(user+password, isSpace):
		return errors.New("memcached: found a user with a colon, or a user or password with a " +
			"space or control character")
	}
	return nil
}

func isSpace(r rune) bool { return r <= ' ' || r == 0x7f }

// Ping returns nil if all servers reply, and otherwise an error that wraps
// locking.ErrUnavailable.
func (b *Backend) Ping(ctx context.Context) error {
	var all errgroup.Group
	for _, l := range b.links {
		all.Go(func() error { return l.ping(ctx) })
	}
	return all.Wait()
}

// link returns the connection to the server that has the key.
func (b *Backend) link(key string) *link {
	return b.links[b.servers.of(key).String()]
}

// eachServer calls run for each server at the same time, with the indexes of its keys. For a key
// that check refuses it calls refuse instead.
func (b *Backend) eachServer(n int, key func(int) string, check func(int) error,
	refuse func(int, error), run func(l *link, mine []int)) {
	of := map[*link][]int{}
	for i := range n {
		if err := check(i); err != nil {
			refuse(i, err)
			continue
		}
		l := b.link(key(i))
		of[l] = append(of[l], i)
	}
	var all sync.WaitGroup
	for l, mine := range of {
		if len(of) == 1 {
			run(l, mine)
			return
		}
		all.Go(func() { run(l, mine) })
	}
	all.Wait()
}

// begin starts a goroutine, unless the Backend is closed.
func (b *Backend) begin(run func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.goroutines.Go(run)
	}
	return !b.closed
}

// Close closes all connections, and waits for the goroutines. Requests that are under way fail, and
// so do all later ones. Close always returns nil.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.end()
	for _, l := range b.links {
		l.close()
	}
	b.goroutines.Wait()
	return nil
}
