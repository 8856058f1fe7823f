package locking

import (
	"context"
	"errors"
	"sync"
	"time"
)

// maxStrays limits the memory used during an outage. Further strays expire, or are
// removed when this replica meets them.
const maxStrays = 4096

// strays are advisory locks that may exist, or may still arrive, and that no live
// lock owns.
type strays struct {
	sweeping sync.Mutex // one sweep at a time

	mu       sync.Mutex
	advisory map[string]stray // by nonce
}

type stray struct {
	advisoryLock
	until time.Time // end of the search for it
}

func (s *strays) note(e advisoryLock, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.advisory == nil {
		s.advisory = map[string]stray{}
	}
	if len(s.advisory) < maxStrays {
		s.advisory[e.nonce] = stray{advisoryLock: e, until: until}
	}
}

func (s *strays) forget(nonce string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.advisory, nonce)
}

func (s *strays) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.advisory) > 0
}

func (s *strays) list() []stray {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]stray, 0, len(s.advisory))
	for _, e := range s.advisory {
		all = append(all, e)
	}
	return all
}

// sweepStrays removes the strays that exist, and retains those that may still
// arrive. If a server does not reply, sweepStrays skips its other strays until the
// next sweep.
func (l *Locker) sweepStrays(ctx context.Context) {
	if !l.strays.sweeping.TryLock() {
		return
	}
	defer l.strays.sweeping.Unlock()
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	silent := map[string]bool{} // servers that failed in this sweep
	for _, s := range l.strays.list() {
		server := l.backend.Server(s.key)
		if !silent[server] {
			err := l.backend.Delete(ctx, s.key, s.value)
			if err == nil {
				l.options.Log.Debug().Stringer("resource", s.resource).
					Msg("stray advisory lock removed")
				l.strays.forget(s.nonce)
				continue
			}
			silent[server] = failed(err)
		}
		if time.Now().After(s.until) {
			l.strays.forget(s.nonce)
		}
	}
}

// removeOrphan removes an orphaned advisory lock, if it still has the value that was
// read. It reports whether the key may be free now.
func (l *Locker) removeOrphan(ctx context.Context, key string, value []byte) bool {
	err := l.backend.Delete(ctx, key, value)
	if err == nil {
		l.options.Log.Debug().Str("key", key).Msg("orphaned advisory lock removed")
	}
	return err == nil || errors.Is(err, ErrMissing)
}
