// Package memcached is a locking.Backend on memcached.
//
// # Commands
//
// Locks use gets, add and cas. The package adds an advisory lock with add, renews it with cas, and
// removes it with a cas with a negative lifetime. A cas changes an item only if the item is still
// the one whose value was compared. Ping sends version, and a Watch sends stats and stats settings.
// With a user, each new connection begins with a set of holdfast:auth, the ASCII authentication of
// memcached. These commands are never used:
//
//   - touch, gat and delete, because they also change items of other owners
//   - ms of the meta protocol, because a full server (-M) that refuses it also removes the item
//     under the key
//
// # Connections
//
// Each server has one connection with many requests in flight, and another one while a Watch runs.
// Requests that are made at the same time are sent together. The replies have the order of the
// requests. A new lock needs one request to each server that has some of its names, and so does its
// release.
//
// If the context of a call ends, the call returns. A write that may have been sent then returns
// locking.ErrUnclear. The connection still reads the reply and drops it. If a reply takes longer
// than Options.Timeout, the connection ends with all its requests. The next request opens another
// connection.
//
// When a server restarts, its connection ends, and the requests on it fail. The package sends
// reads, renewals and removals once more. An add may have taken effect, so its result is
// locking.ErrUnclear. The Locker then reads the key.
//
// The version of an item (memcached's CAS id) is used only on the connection on which it was read,
// because a restarted server counts from 1 again. On another connection, the package reads the item
// first and compares its value. A proxy that hides restarts weakens this.
//
// # Servers
//
// A full server (-M) also refuses renewals, because cas needs room for the new copy. It still
// accepts removals, because their new copy is empty. Give memcached more memory than its locks need
// (about 400 bytes each), and no other users: an eviction frees a lock.
//
// The configured list and its order decide which server has a key. Replicas with different lists
// look for one lock on different servers. Fingerprint shows such differences.
//
// A Watch reads the servers' statistics and settings. It reports restarts, flushes, dropped items,
// and settings that are unsafe for locks.
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

	// For servers started with -Z; nil means no TLS. Without a ServerName, each server must prove
	// its configured host.
	TLS            *tls.Config
	User, Password string // for servers started with -Y; both or neither, without spaces
}

// Backend is a locking.Backend on memcached. Its methods may be called concurrently.
type Backend struct {
	servers servers
	dialer  dialer
	timeout time.Duration
	links   []*link       // of the servers, in their order
	ids     atomic.Uint64 // the last id of a connection
	texts   sync.Pool     // *[]byte, for the texts of calls

	lifetime   context.Context // ends with Close
	end        context.CancelFunc
	goroutines sync.WaitGroup // two for each connection at most
	mu         sync.Mutex     // guards closed and the start of goroutines
	closed     bool
}

// New returns a Backend, which connects at the first request.
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
		servers: newServers(o.Servers), timeout: o.Timeout,
		dialer: dialer{tls: o.TLS, user: o.User, password: o.Password},
	}
	b.lifetime, b.end = context.WithCancel(context.Background())
	for _, address := range o.Servers {
		b.links = append(b.links, &link{server: server(address), owner: b})
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

// Ping returns an error that wraps locking.ErrUnavailable unless all servers reply.
func (b *Backend) Ping(ctx context.Context) error {
	var all errgroup.Group
	for _, l := range b.links {
		all.Go(func() error { return l.ping(ctx) })
	}
	return all.Wait()
}

// link returns the connection to the server that has the key.
func (b *Backend) link(key string) *link { return b.links[b.servers.place(key)] }

// eachServer calls run for each server at the same time, with the indexes of its keys. For a key
// that check refuses it calls refuse instead.
func (b *Backend) eachServer(n int, key func(int) string, check func(int) error,
	refuse func(int, error), run func(l *link, mine []int)) {
	of := make([][]int, len(b.links))
	used := 0
	for i := range n {
		if err := check(i); err != nil {
			refuse(i, err)
			continue
		}
		place := b.servers.place(key(i))
		if of[place] == nil {
			used++
			of[place] = make([]int, 0, n-i)
		}
		of[place] = append(of[place], i)
	}
	var all sync.WaitGroup
	for place, mine := range of {
		switch {
		case len(mine) == 0:
		case used == 1:
			run(b.links[place], mine)
		default:
			all.Go(func() { run(b.links[place], mine) })
		}
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

// Close closes all connections, and waits for the goroutines. Requests fail from then on. Close
// always returns nil.
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
