package admin

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxCachedPages bounds what is remembered: the pages that people have open.
const maxCachedPages = 32

// pageCache is what this replica last knew of the store, page by page.
type pageCache struct {
	mu     sync.Mutex
	pages  []cachedPage // the latest last
	silent atomic.Bool  // the store did not answer the last question
}

type cachedPage struct {
	key      string
	snapshot snapshot
	content  any
	at       time.Time // by the local monotonic clock
}

// put remembers a page for the time when the store does not answer. The
// content is not changed any more.
func (l *pageCache) put(key string, p snapshot, content any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages = slices.DeleteFunc(l.pages, func(s cachedPage) bool { return s.key == key })
	if len(l.pages) == maxCachedPages {
		l.pages = slices.Delete(l.pages, 0, 1)
	}
	l.pages = append(l.pages, cachedPage{key, p, content, time.Now()})
}

// lookup returns what was kept last under the key, nil if nothing was, and how
// old it is.
func (l *pageCache) lookup(key string) (p snapshot, content any, age time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.pages {
		if s.key == key {
			return s.snapshot, s.content, time.Since(s.at)
		}
	}
	return snapshot{}, nil, 0
}

// heard notes that the store answered; the first time after a silence is logged.
func (s *Server) storeAnswered() {
	if s.pageCache.silent.Swap(false) {
		s.log.Info().Msg("admin page can ask the store again")
	}
}

// unheard notes that it did not; repeats are quiet, as are clients that left.
func (s *Server) storeFailed(ctx context.Context, err error) {
	if ctx.Err() == nil && !s.pageCache.silent.Swap(true) {
		s.log.Warn().Err(err).Msg("admin page could not ask the store")
	}
}
