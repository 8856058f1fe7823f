package app

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// restartRecorder records restarts of memcached servers in the store, so that the pages of all
// replicas show them.
type restartRecorder struct {
	servers interface{ Servers() []memcached.Health }
	store   storage.Restarts
	replica string
	log     zerolog.Logger

	started map[string]time.Time // by server: as last recorded or first seen
}

// checkRestartsEvery is the time between two checks for restarts.
const checkRestartsEvery = 5 * time.Second

// run records restarts until ctx ends, and then returns nil.
func (r *restartRecorder) run(ctx context.Context) error {
	ticker := time.NewTicker(checkRestartsEvery)
	defer ticker.Stop()
	for {
		r.check(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// check records each restart since the last check. If the store fails, the next check tries again.
func (r *restartRecorder) check(ctx context.Context) {
	if r.started == nil {
		r.started = make(map[string]time.Time)
	}
	for _, h := range r.servers.Servers() {
		before, known := r.started[h.Server]
		switch {
		case h.StartedAt.IsZero() || known && before.Equal(h.StartedAt):
			continue
		case known:
			restart := storage.Restart{Server: h.Server, StartedAt: h.StartedAt,
				NoticedBy: r.replica}
			if err := r.store.NoteRestart(ctx, restart); err != nil {
				r.log.Debug().Err(err).Str("server", h.Server).
					Msg("restart of memcached was not recorded")
				continue
			}
		}
		r.started[h.Server] = h.StartedAt
	}
}
