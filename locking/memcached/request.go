package memcached

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/holdfast-dev/holdfast/locking"
)

// errAbandoned says that ctx ended while a request was under way.
var errAbandoned = errors.New("memcached: request was abandoned")

// run runs one request, and stops waiting for it when ctx ends or twice the
// timeout has passed: once for connecting, once for the answer.
func (b *Backend) run(ctx context.Context, request func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*b.timeout)
	defer cancel()
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", locking.ErrUnavailable, context.Cause(ctx))
	}
	select {
	case b.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", locking.ErrUnavailable, context.Cause(ctx))
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-b.slots }()
		done <- request()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errAbandoned, context.Cause(ctx))
	}
}

// repeat runs a request that may be repeated: once more if its connection broke.
func (b *Backend) repeat(ctx context.Context, request func() error) error {
	err := b.run(ctx, request)
	if !broke(err) {
		return err
	}
	b.dropPool()
	return b.run(ctx, request)
}

// dropPool closes the idle connections: where one was found broken, the others
// of the same age are too. Requests under way keep theirs.
func (b *Backend) dropPool() {
	_ = b.client.Close() // its error is that a broken connection was broken
}

// broke reports whether a request failed because its connection did, after it
// was made and not by a timeout.
func broke(err error) bool {
	if err == nil || notSent(err) || answered(err) || errors.Is(err, errAbandoned) {
		return false
	}
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// notSent reports whether a request failed before any of it was sent.
func notSent(err error) bool {
	if errors.Is(err, locking.ErrUnavailable) || errors.Is(err, memcache.ErrNoServers) {
		return true
	}
	var timeout *memcache.ConnectTimeoutError
	var network *net.OpError
	return errors.As(err, &timeout) || errors.As(err, &network) && network.Op == "dial"
}

// answered reports whether err is what a server said.
func answered(err error) bool {
	for _, answer := range []error{
		memcache.ErrCacheMiss, memcache.ErrCASConflict, memcache.ErrNotStored, memcache.ErrMalformedKey,
	} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return unexpected(err)
}

// unexpected reports whether a server said what gomemcache has no error for,
// such as SERVER_ERROR: it then did nothing.
func unexpected(err error) bool {
	return strings.Contains(err.Error(), "memcache: unexpected response line")
}

// asked turns the error of a request that changes nothing into the package's.
func asked(err error) error {
	if err == nil || errors.Is(err, locking.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", locking.ErrUnavailable, err)
}

// changed turns the error of a request that changes something into the
// package's.
func changed(err error) error {
	switch {
	case err == nil:
		return nil
	case notSent(err):
		return asked(err)
	case unexpected(err) && strings.Contains(err.Error(), "SERVER_ERROR out of memory"):
		return fmt.Errorf("%w: %w", locking.ErrFull, err)
	case unexpected(err):
		return fmt.Errorf("memcached refused: %w", err)
	case errors.Is(err, memcache.ErrNotStored):
		return locking.ErrNotStored
	case errors.Is(err, memcache.ErrCacheMiss):
		return locking.ErrMissing
	case errors.Is(err, memcache.ErrCASConflict):
		return locking.ErrNotOwner
	}
	return fmt.Errorf("%w: %w", locking.ErrUnclear, err)
}
