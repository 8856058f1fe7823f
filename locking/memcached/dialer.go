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
)

// dialer makes connections that are ready for commands: over TCP or a Unix
// socket, then TLS and the user's password where they are configured.
type dialer struct {
	tls            *tls.Config // nil: none
	user, password string      // "": none
}

// DialError says that there is no connection to a server, so that nothing of a
// request was sent.
type DialError struct {
	Server string
	Err    error // the system's, TLS's, an *AuthError or a *ReplyError
}

// Error names the server and says what went wrong.
func (e *DialError) Error() string { return "memcached " + e.Server + ": " + e.Err.Error() }

// Unwrap returns the error itself.
func (e *DialError) Unwrap() error { return e.Err }

// AuthError says that a server asks for a user and a password and did not take
// what it got. It never holds either.
type AuthError struct {
	Given bool   // whether a user and a password are configured
	Reply string // of the server
}

// Error says what to look at.
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
		_ = conn.Close() // its error adds nothing
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

// config is the TLS configuration for a server, which is to prove the name
// that it is configured by, unless another is set.
func (d *dialer) config(address string) *tls.Config {
	c := d.tls.Clone()
	if host, _, err := net.SplitHostPort(address); err == nil && c.ServerName == "" {
		c.ServerName = host
	}
	return c
}

// authenticate sends the user and the password as memcached expects them: as
// the value of a set with any key, before all else. A server that asks for
// none stores it; so it is stored as ended, for nobody to read.
func (d *dialer) authenticate(conn net.Conn) error {
	value := d.user + " " + d.password
	if _, err := fmt.Fprintf(conn, "set holdfast:auth 0 -1 %d\r\n%s\r\n", len(value),
		value); err != nil {
		return fmt.Errorf("authentication: %w", err)
	}
	const longest = 512
	// one line: nothing follows that nobody asked for
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

// bound makes what waits for conn fail when ctx ends, until the function that
// it returns is called. That returns an error if ctx has ended meanwhile.
func bound(ctx context.Context, conn net.Conn) (release func() error) {
	// it fails where the connection is closed already
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(past) })
	return func() error {
		if !stop() {
			return context.Cause(ctx)
		}
		return nil
	}
}
