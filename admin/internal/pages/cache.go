package pages

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
)

// maxCachedPages bounds the cached pages.
const maxCachedPages = 32

// pageCache holds the last state of each page, for the time when the store does not answer.
type pageCache struct {
	mu     sync.Mutex
	pages  []cachedPage // newest last
	silent atomic.Bool  // the last query of the store failed
}

type cachedPage struct {
	key      string
	snapshot cluster.Snapshot
	content  any
	at       time.Time // by the local monotonic clock
}

// put caches a page. The caller must not change the content afterwards.
func (l *pageCache) put(key string, p cluster.Snapshot, content any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages = slices.DeleteFunc(l.pages, func(s cachedPage) bool { return s.key == key })
	if len(l.pages) == maxCachedPages {
		l.pages = slices.Delete(l.pages, 0, 1)
	}
	l.pages = append(l.pages, cachedPage{key, p, content, time.Now()})
}

// lookup returns the cached content of the key and its age, or nil if there is none.
func (l *pageCache) lookup(key string) (p cluster.Snapshot, content any, age time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.pages {
		if s.key == key {
			return s.snapshot, s.content, time.Since(s.at)
		}
	}
	return cluster.Snapshot{}, nil, 0
}

// StoreAnswered notes that the store answered. It logs the first answer after a failure.
func (s *Site) StoreAnswered() {
	if s.pageCache.silent.Swap(false) {
		s.Log.Info().Msg("admin store query succeeded again")
	}
}

// StoreFailed notes that a query failed. It logs the first failure, and ignores clients that
// disconnected and requests that did not query the store.
func (s *Site) StoreFailed(ctx context.Context, err error) {
	if ctx.Err() == nil && !errors.Is(err, ErrBusy) && !s.pageCache.silent.Swap(true) {
		s.Log.Warn().Err(err).Msg("admin store query failed")
	}
}
