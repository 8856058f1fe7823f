// Package memcached is a locking.Backend on memcached. It is the only package that
// uses gomemcache.
//
// An advisory lock is renewed by gets and cas, and removed by gets and a cas with a
// negative lifetime. So only the item that was compared changes. The commands touch,
// gat and delete change any owner's item and are never used.
//
// gomemcache does not support contexts. Each running request therefore has a client
// with its own connections, and the end of its context moves their deadline into the
// past. No request goes on after its caller has returned. Options.MaxIdle limits the
// concurrent requests, and the idle connections to each server. A write that was cut
// short is locking.ErrUnclear.
//
// After a server's restart each idle connection fails once, at its next request. The
// first failure closes all idle connections. Requests that may be repeated are sent
// again on a new connection. An add may not be repeated: it is locking.ErrUnclear,
// and the Locker reads the key.
//
// A full server (-M) also refuses renewals, because cas needs room for the new copy.
// It still removes. Give memcached more memory than its locks need (about 400 bytes
// each), and no other users: an eviction frees a lock.
//
// The configured list and its order decide which server has a key. Replicas with
// different lists look for one lock on different servers. Fingerprint shows such
// differences.
//
// A connection is ready after TLS (-Z) and the user's password (-Y), if Options name
// them. The dialer does both within the request that needs the connection. Its
// errors are *DialErrors: nothing of the request was sent.
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
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

const (
	defaultTimeout = 500 * time.Millisecond
	defaultMaxIdle = 32
)

// Options name the servers and configure the connections.
type Options struct {
	// host:port, or the path of a Unix socket; the same list in the same order on all replicas
	Servers []string
	// The timeout of connecting, of a reply, and of waiting for a connection. 0
	// means 500 ms.
	Timeout time.Duration
	MaxIdle int // idle connections to each server, and concurrent requests; 0 means 32

	// For servers started with -Z; nil means no TLS. Without a ServerName each
	// server must prove its configured host.
	TLS            *tls.Config
	User, Password string // for servers started with -Y; both or neither, without spaces
}

// Backend is a locking.Backend on memcached. Its methods may be called
// concurrently.
type Backend struct {
	pool *pool
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
	if o.Timeout < 0 || o.MaxIdle < 0 {
		return nil, fmt.Errorf("memcached: timeout %s and max idle %d can't be negative", o.Timeout,
			o.MaxIdle)
	}
	if err := checkUser(o.User, o.Password); err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.MaxIdle == 0 {
		o.MaxIdle = defaultMaxIdle
	}
	return &Backend{pool: &pool{
		servers: newServers(o.Servers),
		dialer:  dialer{tls: o.TLS, user: o.User, password: o.Password},
		timeout: o.Timeout, slots: make(chan struct{}, o.MaxIdle),
	}}, nil
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
	return asked(b.repeat(ctx, (*memcache.Client).Ping))
}

// Close closes all idle connections, and the others when their requests end.
func (b *Backend) Close() error {
	b.pool.drop()
	return nil
}
