package memcached_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

const (
	user     = "replica"
	password = "open-sesame"
)

// withPassword returns a server that asks for the user and the password.
func withPassword(t *testing.T, flags ...string) *servertest.Memcached {
	t.Helper()
	skipWithShort(t)
	file := servertest.PublicFile(t, "users",
		fmt.Appendf(nil, "other:other\n%s:%s\n", user, password))
	return servertest.NewGuardedMemcached(t, servertest.Guard{User: user, Password: password},
		append(flags, "-Y", file)...)
}

// withTLS returns a server with TLS only, and the configuration of its clients.
func withTLS(t *testing.T, flags ...string) (*servertest.Memcached, *tls.Config) {
	t.Helper()
	skipWithShort(t)
	authority := servertest.NewAuthority(t)
	certificate, key := authority.Issue(t, "127.0.0.1")
	clientCertificate, clientKey := authority.Issue(t, "client")
	pair, err := tls.LoadX509KeyPair(clientCertificate, clientKey)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: authority.Pool, Certificates: []tls.Certificate{pair}}
	flags = append(flags, "-Z", "-o",
		"ssl_chain_cert="+certificate+",ssl_key="+key+",ssl_ca_cert="+authority.File)
	return servertest.NewGuardedMemcached(t, servertest.Guard{TLS: config}, flags...), config
}

// works locks, renews and releases. A lock must survive new connections to the server.
func works(t *testing.T, server *servertest.Memcached, o memcached.Options) {
	t.Helper()
	o.Servers, o.Timeout = []string{server.Addr()}, 5*time.Second
	b := open(t, o)
	locker := newLocker(t, b)
	for range 2 {
		lock, err := locker.TryAcquire(t.Context(), locking.Owner{Job: "job"}, tables(t, "a", "b"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := locker.TryAcquire(t.Context(), locking.Owner{Job: "other"},
			tables(t, "b")); !errors.Is(err, locking.ErrHeld) {
			t.Errorf("a second lock: %v", err)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.Ping(t.Context()); err != nil {
			t.Errorf("after a restart: %v", err)
		}
	}
	watch := watchOf(t, b)
	watch.Look(t.Context())
	if h := watch.Servers()[0]; h.State != memcached.StateUnsafe || h.Version == "" {
		t.Errorf("watched as %+v", h)
	}
}

func TestPassword(t *testing.T) {
	server := withPassword(t)
	works(t, server, memcached.Options{User: user, Password: password})
}

func TestTLS(t *testing.T) {
	server, config := withTLS(t)
	works(t, server, memcached.Options{TLS: config})
}

func TestTLSWithPassword(t *testing.T) {
	file := servertest.PublicFile(t, "users", fmt.Appendf(nil, "%s:%s\n", user, password))
	skipWithShort(t)
	authority := servertest.NewAuthority(t)
	certificate, key := authority.Issue(t, "127.0.0.1")
	config := &tls.Config{RootCAs: authority.Pool}
	server := servertest.NewGuardedMemcached(t,
		servertest.Guard{TLS: config, User: user, Password: password},
		"-Y", file, "-Z", "-o", "ssl_chain_cert="+certificate+",ssl_key="+key)
	works(t, server, memcached.Options{TLS: config, User: user, Password: password})
}

// refused checks that every operation and the watch return this error.
func refused(t *testing.T, b *memcached.Backend, want string) {
	t.Helper()
	_, err := b.Get(t.Context(), "k")
	watch := watchOf(t, b)
	watch.Look(t.Context())
	h := watch.Servers()[0]
	for name, err := range map[string]error{
		"ping": b.Ping(t.Context()), "get": err, "add": b.Add(t.Context(), "k", []byte("v"), lease),
		"renew": b.Renew(t.Context(), "k", []byte("v"), lease), "delete": b.Delete(t.Context(), "k", []byte("v")),
	} {
		if !errors.Is(err, locking.ErrUnavailable) || errors.Is(err, locking.ErrUnclear) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want unavailable and %q", name, err, want)
		}
		if strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "wrong") {
			t.Errorf("%s: %v shows a password", name, err)
		}
	}
	if h.State != memcached.StateUnreachable || !strings.Contains(h.Error, want) {
		t.Errorf("watched as %s: %s, want %q", h.State, h.Error, want)
	}
	var unsafe *memcached.UnsafeError
	if err := watch.Check(); !errors.As(err, &unsafe) || !strings.Contains(err.Error(), want) {
		t.Errorf("check: %v, want %q", err, want)
	}
}

func TestRefusedPasswords(t *testing.T) {
	server := withPassword(t)
	address := []string{server.Addr()}
	refused(t, open(t, memcached.Options{Servers: address, Timeout: 5 * time.Second}),
		"it asks for a user and a password (-Y), and none are configured")
	for _, wrong := range [][2]string{{user, "wrong"}, {"wrong", password}, {"other", password}} {
		b := open(t, memcached.Options{Servers: address, Timeout: 5 * time.Second, User: wrong[0],
			Password: wrong[1]})
		refused(t, b, "it does not take the configured user and password (-Y): CLIENT_ERROR "+
			"authentication failure")
		var auth *memcached.AuthError
		if err := b.Ping(t.Context()); !errors.As(err, &auth) || !auth.Given {
			t.Errorf("ping: %v", err)
		}
	}
}

// TestUnneededPassword checks that the server does not store the password, and that the watch finds
// it unsafe.
func TestUnneededPassword(t *testing.T) {
	skipWithShort(t)
	server := servertest.NewMemcached(t, "-M", "-F", "-o", "no_slab_reassign")
	b := open(t, memcached.Options{Servers: []string{server.Addr()}, Timeout: 5 * time.Second,
		User: user, Password: password})
	if err := b.Add(t.Context(), "k", []byte("v"), lease); err != nil {
		t.Fatal(err)
	}
	found, err := b.Get(t.Context(), "holdfast:auth")
	if err != nil || len(found) != 0 {
		t.Errorf("the password can be read: %v, %v", found, err)
	}
	watch := watchOf(t, b)
	watch.Look(t.Context())
	complaints(t, watch, memcached.Unsafe, "auth_enabled_ascii")
}

func TestTLSErrors(t *testing.T) {
	server, config := withTLS(t, "-o", "ssl_verify_mode=2")
	plain := servertest.NewMemcached(t)
	strange := servertest.NewAuthority(t)
	works(t, server, memcached.Options{TLS: config})
	tests := map[string]struct {
		server *servertest.Memcached
		tls    *tls.Config
		want   string
	}{
		"another authority": {server, &tls.Config{RootCAs: strange.Pool, Certificates: config.Certificates},
			"TLS: tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		"another name": {server, &tls.Config{RootCAs: config.RootCAs, Certificates: config.Certificates, ServerName: "cache.example"},
			"TLS: tls: failed to verify certificate: x509: certificate is not valid for any " +
				"names, but wanted to match cache.example"},
		"TLS 1.2 without the client's certificate": {server, &tls.Config{RootCAs: config.RootCAs, MaxVersion: tls.VersionTLS12}, "TLS: remote error: tls: handshake failure"},
		"TLS with a server that has none":          {plain, config, "TLS: tls: first record does not look like a TLS handshake"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			refused(t, open(t, memcached.Options{Servers: []string{test.server.Addr()},
				Timeout: 5 * time.Second, TLS: test.tls}), test.want)
		})
	}
}

// TestTLSErrorsAfterConnecting checks errors that the server reports after the handshake. They can
// arrive before the add is sent, and then it is certain that the server has not executed it.
func TestTLSErrorsAfterConnecting(t *testing.T) {
	server, config := withTLS(t, "-o", "ssl_verify_mode=2")
	for name, test := range map[string]struct {
		tls  *tls.Config
		want string
	}{
		"without the client's certificate": {&tls.Config{RootCAs: config.RootCAs}, "certificate"},
		"without TLS":                      {nil, "a server that expects TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, memcached.Options{Servers: []string{server.Addr()},
				Timeout: 5 * time.Second, TLS: test.tls})
			if err := b.Ping(t.Context()); !errors.Is(err, locking.ErrUnavailable) {
				t.Errorf("ping: %v", err)
			}
			if err := b.Add(t.Context(), "k", nil, lease); !errors.Is(err, locking.ErrUnclear) &&
				!errors.Is(err, locking.ErrUnavailable) {
				t.Errorf("add: %v", err)
			}
			watch := watchOf(t, b)
			watch.Look(t.Context())
			if h := watch.Servers()[0]; h.State != memcached.StateUnreachable ||
				!strings.Contains(h.Error, test.want) {
				t.Errorf("watched as %s: %s, want %q", h.State, h.Error, test.want)
			}
		})
	}
}

func TestInvalidUsers(t *testing.T) {
	for _, pair := range [][2]string{
		{"user", ""}, {"", "secret"}, {"a:b", "secret"}, {"a b", "secret"}, {"a", "secret\n"}, {"a", "secret\x7f"}, {"a", strings.Repeat("secret", 50)},
	} {
		_, err := memcached.New(memcached.Options{Servers: []string{"h:1"}, User: pair[0],
			Password: pair[1]})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got error %v, want one without the password", pair, err)
		}
	}
}
