package app

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// restartNotes writes down which of memcached's servers restarted, for all
// replicas to show: who looks at a page later may look at one that has not seen it.
type restartNotes struct {
	servers interface{ Servers() []memcached.Health }
	store   jobs.Restarts
	replica string
	log     zerolog.Logger

	started map[string]time.Time // as last written down, or first seen
}

// noteRestartsEvery is how often the servers are compared with what is known.
const noteRestartsEvery = 5 * time.Second

// run notes restarts until ctx ends, and then returns nil.
func (n *restartNotes) run(ctx context.Context) error {
	ticker := time.NewTicker(noteRestartsEvery)
	defer ticker.Stop()
	for {
		n.look(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look writes down each restart since the last look. One that could not be is
// written at the next.
func (n *restartNotes) look(ctx context.Context) {
	if n.started == nil {
		n.started = make(map[string]time.Time)
	}
	for _, h := range n.servers.Servers() {
		before, known := n.started[h.Server]
		switch {
		case h.StartedAt.IsZero() || known && before.Equal(h.StartedAt):
			continue
		case known:
			if err := n.store.NoteRestart(ctx,
				jobs.Restart{Server: h.Server, StartedAt: h.StartedAt,
					NoticedBy: n.replica}); err != nil {
				n.log.Debug().Err(err).Str("server", h.Server).
					Msg("restart of memcached is not written down yet")
				continue
			}
		}
		n.started[h.Server] = h.StartedAt
	}
}
