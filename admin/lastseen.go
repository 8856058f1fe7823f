package admin

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// keptPages bounds what is remembered: the pages that people have open.
const keptPages = 32

// lastSeen is what this replica last knew of the store, page by page.
type lastSeen struct {
	mu     sync.Mutex
	pages  []seenPage  // the latest last
	silent atomic.Bool // the store did not answer the last question
}

type seenPage struct {
	key     string
	pulse   pulse
	content any
	at      time.Time // by the local monotonic clock
}

// keep remembers a page for the time when the store does not answer. The
// content is not changed any more.
func (l *lastSeen) keep(key string, p pulse, content any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages = slices.DeleteFunc(l.pages, func(s seenPage) bool { return s.key == key })
	if len(l.pages) == keptPages {
		l.pages = slices.Delete(l.pages, 0, 1)
	}
	l.pages = append(l.pages, seenPage{key, p, content, time.Now()})
}

// stale returns what was kept last under the key, nil if nothing was, and how
// old it is.
func (l *lastSeen) stale(key string) (p pulse, content any, age time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.pages {
		if s.key == key {
			return s.pulse, s.content, time.Since(s.at)
		}
	}
	return pulse{}, nil, 0
}

// heard notes that the store answered; the first time after a silence is logged.
func (s *Server) heard() {
	if s.last.silent.Swap(false) {
		s.log.Info().Msg("admin page can ask the store again")
	}
}

// unheard notes that it did not; repeats are quiet, as are clients that left.
func (s *Server) unheard(ctx context.Context, err error) {
	if ctx.Err() == nil && !s.last.silent.Swap(true) {
		s.log.Warn().Err(err).Msg("admin page could not ask the store")
	}
}
