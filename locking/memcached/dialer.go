package memcached

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// dialer opens connections that are ready for commands: over TCP or a Unix socket,
// with TLS and the user's password if they are configured.
type dialer struct {
	tls            *tls.Config // nil: none
	user, password string      // "": none
}

// DialError says that connecting to a server failed. Nothing of a request was sent.
type DialError struct {
	Server string
	Err    error // from the system or TLS, an *AuthError or a *ReplyError
}

func (e *DialError) Error() string { return "memcached " + e.Server + ": " + e.Err.Error() }

func (e *DialError) Unwrap() error { return e.Err }

// AuthError says that a server requires a user and a password. None are configured, or the server
// has refused them. AuthError does not contain them.
type AuthError struct {
	Given bool   // a user and a password are configured
	Reply string // of the server
}

func (e *AuthError) Error() string {
	if !e.Given {
		return fmt.Sprintf("it asks for a user and a password (-Y), and none are configured: %s",
			e.Reply)
	}
	return fmt.Sprintf("it does not take the configured user and password (-Y): %s", e.Reply)
}

const unauthenticated = "CLIENT_ERROR unauthenticated"

// dial connects, at most until ctx ends. Its errors are *DialErrors.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var plain net.Dialer
	conn, err := plain.DialContext(ctx, network, address)
	if err != nil {
		return nil, &DialError{Server: address, Err: err}
	}
	ready, err := d.prepare(ctx, conn, address)
	if err != nil {
		_ = conn.Close() // the first error is the cause
		return nil, &DialError{Server: address, Err: err}
	}
	return ready, nil
}

func (d *dialer) prepare(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	if d.tls != nil {
		secured := tls.Client(conn, d.config(address))
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("TLS: %w", err)
		}
		conn = secured
	}
	if d.user == "" {
		return conn, nil
	}
	release := bound(ctx, conn)
	err := d.authenticate(conn)
	if ended := release(); ended != nil {
		err = fmt.Errorf("authentication: %w", ended)
	}
	return conn, err
}

// config returns the TLS configuration for a server. Unless a ServerName is set, the
// server must prove its configured name.
func (d *dialer) config(address string) *tls.Config {
	c := d.tls.Clone()
	if host, _, err := net.SplitHostPort(address); err == nil && c.ServerName == "" {
		c.ServerName = host
	}
	return c
}

// authenticate sends the user and the password as memcached expects them: as the
// value of the first set, with any key. A server without authentication stores that
// value. It is therefore stored with an expiry in the past, so that no client can
// read it.
func (d *dialer) authenticate(conn net.Conn) error {
	value := d.user + " " + d.password
	if _, err := fmt.Fprintf(conn, "set holdfast:auth 0 -1 %d\r\n%s\r\n", len(value),
		value); err != nil {
		return fmt.Errorf("authentication: %w", err)
	}
	const longest = 512
	// The reply has one line, and nothing may follow it.
	reply, err := bufio.NewReaderSize(conn, longest).ReadSlice('\n')
	line := printable(reply)
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return &ReplyError{Command: "authentication",
			Found: fmt.Sprintf("a line of more than %d bytes", longest)}
	case errors.Is(err, io.EOF):
		return &ReplyError{Command: "authentication", Found: closed}
	case err != nil:
		return fmt.Errorf("authentication: %w", err)
	case bytes.Equal(reply, []byte("STORED\r\n")):
		return nil
	case strings.HasPrefix(line, "CLIENT_ERROR "):
		return &AuthError{Given: true, Reply: line}
	}
	return &ReplyError{Command: "authentication", Found: line}
}

// past is a deadline that ends reads and writes at once.
var past = time.Unix(1, 0)

// bound makes reads and writes of conn fail when ctx ends, until the caller calls
// the returned function. That function returns an error if ctx has ended meanwhile.
func bound(ctx context.Context, conn net.Conn) (release func() error) {
	// It fails if the connection is closed already.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(past) })
	return func() error {
		if !stop() {
			return context.Cause(ctx)
		}
		return nil
	}
}
