// Package memcached keeps locks in memcached: stage 1 of replicas that share
// tables. It wraps gomemcache, and is the only package that knows it.
//
// An entry is renewed by gets and cas, and removed by gets and a cas with a
// negative lifetime, so that only the entry that was compared is touched. The
// commands touch, gat and delete act on anybody's entry, and are never used.
//
// gomemcache knows no context. So each request that runs has a client with
// connections of its own, whose deadline is moved into the past when the
// context ends; nothing runs on behind the caller's back, and as many requests
// run at a time as connections are kept. A write that was cut short so is
// locking.ErrUnclear.
//
// A connection that broke while it was idle (each does, when a server restarts)
// is noticed only by the next request on it. All idle ones are then dropped, and
// what may be repeated is sent again on a fresh one; an add may not, and is
// locking.ErrUnclear, for the Locker to look at.
//
// A server that is full (-M) refuses to renew too, because cas needs room for
// the new copy; it still removes. Give memcached more memory than its locks
// need (about 400 bytes each), and no other tenants: an eviction frees a lock.
//
// Which server has a key depends on the configured list and its order:
// replicas with different lists lock on different servers. Fingerprint tells
// lists apart.
//
// A connection is ready for commands once it has TLS (-Z) and the server has
// taken the user's password (-Y), as far as Options name them; dialer does both,
// within the request that needs the connection. What fails there is a
// *DialError, and nothing of the request was sent.
//
// A Watch asks the servers themselves, by stats, for what gomemcache does not
// know: whether they restarted, were flushed or dropped entries, and which of
// their settings are unsafe for locks. What it reads is bounded in time and
// size, and shown as text.
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

// Options say which servers there are and how they are talked to.
type Options struct {
	// host:port, or the path of a Unix socket; the same list in the same order on all replicas
	Servers []string
	// of connecting, of an answer, and of waiting for a connection; 0 means 500 ms
	Timeout time.Duration
	MaxIdle int // connections kept to each server, and requests at a time; 0 means 32

	// for servers started with -Z; nil: none. Without a ServerName each server is to prove the host
	// it is configured by
	TLS            *tls.Config
	User, Password string // for servers started with -Y; both or neither, without spaces
}

// Backend is a locking.Backend on memcached. Its methods may be called
// concurrently.
type Backend struct {
	pool *pool
}

// New returns a Backend. It connects when it is first used, so that memcached
// need not be there yet; see Ping.
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
		timeout: o.Timeout, places: make(chan struct{}, o.MaxIdle),
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

// checkUser refuses what no line of memcached's file of users can hold. Its
// errors never quote either.
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

// Ping returns nil if all servers answer, and otherwise an error that wraps
// locking.ErrUnavailable.
func (b *Backend) Ping(ctx context.Context) error {
	return asked(b.repeat(ctx, (*memcache.Client).Ping))
}

// Close closes all idle connections, and has those in use closed after it.
func (b *Backend) Close() error {
	b.pool.drop()
	return nil
}
