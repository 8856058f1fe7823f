package locking

import (
	"context"
	"errors"
	"sync"
	"time"
)

// maxStrays bounds the memory for an outage. What is beyond it runs out by
// itself, or is removed when somebody of this replica meets it.
const maxStrays = 4096

// strays are entries that may be in the store, or may still come, and belong
// to nothing any more.
type strays struct {
	sweeping sync.Mutex // one sweep at a time

	mu       sync.Mutex
	advisory map[string]stray // by nonce
}

type stray struct {
	advisoryLock
	until time.Time // from then on it isn't looked for
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

// sweepStrays removes the strays that are there, and keeps those in mind that
// may still come.
func (l *Locker) sweepStrays(ctx context.Context) {
	if !l.strays.sweeping.TryLock() {
		return
	}
	defer l.strays.sweeping.Unlock()
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	for _, s := range l.strays.list() {
		err := l.backend.Delete(ctx, s.key, s.value)
		switch {
		case err == nil:
			l.options.Log.Debug().Stringer("resource", s.resource).Msg("stray lock entry removed")
			l.strays.forget(s.nonce)
		case time.Now().After(s.until):
			l.strays.forget(s.nonce)
		case errors.Is(err, ErrUnavailable), errors.Is(err, ErrUnclear):
			return // the next sweep goes on; asking for the others would only wait too
		}
	}
}

// removeOrphan removes an entry that was met and found to belong to nothing any
// more, if it is still exactly the one that was seen. It reports whether the key
// may be free now.
func (l *Locker) removeOrphan(ctx context.Context, key string, value []byte) bool {
	err := l.backend.Delete(ctx, key, value)
	if err == nil {
		l.options.Log.Debug().Str("key", key).Msg("lock entry without an owner removed")
	}
	return err == nil || errors.Is(err, ErrMissing)
}
