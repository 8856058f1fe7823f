package memcached

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/holdfast-dev/holdfast/locking"
)

// run runs one request. It ends when ctx ends, or after the timeouts of connecting
// and of the reply.
func (b *Backend) run(ctx context.Context, request func(*memcache.Client) error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", locking.ErrUnavailable, context.Cause(ctx))
	}
	s, err := b.pool.take(ctx)
	if err != nil {
		return err
	}
	defer b.pool.put(s)
	if err = s.run(ctx, request); err != nil && !answered(err) && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// repeat runs a request that may be repeated. If the connection broke it runs it
// once more.
func (b *Backend) repeat(ctx context.Context, request func(*memcache.Client) error) error {
	err := b.run(ctx, request)
	if !broke(err) {
		return err
	}
	b.pool.drop()
	return b.run(ctx, request)
}

// broke reports whether a request failed because an established connection broke,
// and not by a timeout. Then other connections of the same age are broken too.
func broke(err error) bool {
	return err != nil && !notSent(err) && !answered(err) && !errors.Is(err, os.ErrDeadlineExceeded)
}

// notSent reports whether a request failed before any of it was sent.
func notSent(err error) bool {
	if errors.Is(err, locking.ErrUnavailable) || errors.Is(err, memcache.ErrNoServers) {
		return true
	}
	var dial *DialError
	return errors.As(err, &dial)
}

// answered reports whether err is a reply of the server.
func answered(err error) bool {
	for _, answer := range []error{
		memcache.ErrCacheMiss, memcache.ErrCASConflict, memcache.ErrNotStored,
		memcache.ErrMalformedKey,
	} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return unexpected(err)
}

// unexpected reports whether err is a reply without an error of its own in
// gomemcache, such as SERVER_ERROR.
func unexpected(err error) bool {
	return strings.Contains(err.Error(), "memcache: unexpected response line")
}

// saysRefused reports whether the server replied that it did nothing. After any
// other error reply the request may have taken effect.
func saysRefused(err error) bool {
	const from = "memcache: unexpected response line from "
	_, text, _ := strings.Cut(err.Error(), from)
	_, line, _ := strings.Cut(text, ": ")
	return strings.HasPrefix(line, `"ERROR\r\n`) || strings.HasPrefix(line, `"CLIENT_ERROR `) ||
		strings.HasPrefix(line, `"SERVER_ERROR `)
}

// saysFull reports whether a server had no room. It replies "out of memory storing
// object" or, for a value in several chunks, "Out of memory during read".
func saysFull(err error) bool {
	return strings.Contains(strings.ToLower(err.Error()), "server_error out of memory")
}

// unauthorized returns an *AuthError if a server refused a request for want of a
// password.
func unauthorized(err error) error {
	if strings.Contains(err.Error(), unauthenticated) {
		return &AuthError{Reply: unauthenticated}
	}
	return nil
}

// asked converts the error of a read into the package's.
func asked(err error) error {
	if err == nil || errors.Is(err, locking.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", locking.ErrUnavailable, cmp.Or(unauthorized(err), err))
}

// changed converts the error of a write into the package's.
func changed(err error) error {
	switch {
	case err == nil:
		return nil
	case notSent(err) || unauthorized(err) != nil:
		return asked(err)
	case unexpected(err) && saysFull(err):
		return fmt.Errorf("%w: %w", locking.ErrFull, err)
	case unexpected(err) && strings.Contains(err.Error(), "SERVER_ERROR object too large"):
		return fmt.Errorf("%w for this server (-I): %w", locking.ErrTooLarge, err)
	case saysRefused(err):
		return fmt.Errorf("%w: memcached refused: %w", locking.ErrUnavailable, err)
	case errors.Is(err, memcache.ErrNotStored):
		return locking.ErrNotStored
	case errors.Is(err, memcache.ErrCacheMiss):
		return locking.ErrMissing
	case errors.Is(err, memcache.ErrCASConflict):
		return locking.ErrNotOwner
	}
	return fmt.Errorf("%w: %w", locking.ErrUnclear, err)
}
