package memcached

import (
	"errors"
	"fmt"
	"os"

	"github.com/holdfast-dev/holdfast/locking"
)

// isBroken reports whether a request failed because the connection broke, and not by a timeout or
// the end of its context. Then another connection may do better at once.
func isBroken(err error) bool {
	var failed *requestError
	return errors.As(err, &failed) && failed.broke && !errors.Is(err, os.ErrDeadlineExceeded)
}

// changed returns the package's error for a write: for its reply or, without a reply, for err.
func changed(r *reply, err error) error {
	if r == nil {
		var failed *requestError
		if errors.As(err, &failed) && failed.sent {
			return fmt.Errorf("%w: %w", locking.ErrUnclear, err)
		}
		if errors.Is(err, locking.ErrUnavailable) {
			return err
		}
		return unavailable(err)
	}
	switch r.kind {
	case replyStored:
		return nil
	case replyNotStored:
		return locking.ErrNotStored
	case replyExists:
		return locking.ErrNotOwner
	case replyNotFound:
		return locking.ErrMissing
	case replyRefused:
		return r.err
	}
	return fmt.Errorf("%w: the reply is of another command", locking.ErrUnclear)
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", locking.ErrUnavailable, err) }
