package admin

import (
	"context"
	"sync/atomic"
	"time"
)

// lastSeen is what this replica last knew of the store.
type lastSeen struct {
	overview atomic.Pointer[seenOverview]
	silent   atomic.Bool // the store did not answer the last question
}

type seenOverview struct {
	overview Overview
	at       time.Time // by the local monotonic clock
}

// keep remembers an overview for the time when the store does not answer.
func (l *lastSeen) keep(o Overview) { l.overview.Store(&seenOverview{overview: o, at: time.Now()}) }

// stale returns the overview that was kept last, marked as stale; an empty one
// if none was.
func (l *lastSeen) stale() Overview {
	seen := l.overview.Load()
	if seen == nil {
		return emptyOverview()
	}
	o := seen.overview
	o.Stale = true
	o.Age = time.Since(seen.at)
	return o
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
