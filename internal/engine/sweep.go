package engine

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// sweeper ends the expired sessions of other replicas.
type sweeper struct {
	store interface {
		Sweep(ctx context.Context) (storage.Swept, error)
		ExpireDisconnected(ctx context.Context, session uuid.UUID) (storage.Disconnected, error)
	}
	locker  *locking.Locker // nil without memcached
	tracing Tracing         // nil: no tracing
	events  *events
	log     zerolog.Logger
}

// expire expires the sessions of processes that are gone. It only saves time, because each session
// without heartbeats expires anyway.
func (s *sweeper) expire(ctx context.Context, session uuid.UUID) storage.Disconnected {
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	gone, err := s.store.ExpireDisconnected(bounded, session)
	if err != nil && ctx.Err() == nil {
		s.log.Debug().Err(err).Msg("search for disconnected replicas failed")
	}
	for _, replica := range gone.Replicas {
		s.log.Warn().Str("dead_replica", replica).Msg("replica disconnected, its session ends")
	}
	return gone
}

// sweep ends expired sessions, and removes the advisory locks of their runs: the store has freed
// the resources, so no run should wait for a lease. It returns the time until the next session
// expires, or 0 if that is unknown.
func (s *sweeper) sweep(ctx context.Context) time.Duration {
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	swept, err := s.store.Sweep(bounded)
	if err != nil && ctx.Err() == nil {
		s.log.Warn().Err(err).Msg("sweep failed")
	}
	for _, replica := range swept.Sessions {
		s.log.Warn().Str("dead_replica", replica).Int("ended_transactions", swept.Ended).
			Msg("session expired")
	}
	// The sweep may have used its time for rows that others hold.
	clearing, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	for _, lost := range swept.Lost {
		s.log.Warn().Str("job", lost.Job).Stringer("run", lost.ID).
			Time("scheduled_at", lost.ScheduledAt).Str("dead_replica", lost.Replica).
			Int64("token", int64(lost.Token)).Msg("run lost with its replica")
		markLost(s.tracing, lost)
		s.events.lost(lost)
		s.clear(clearing, lost)
	}
	for _, lock := range swept.Released {
		s.log.Warn().Str("dead_replica", lock.Owner.Replica).Str("program", lock.Owner.Job).
			Int64("token", int64(lock.Token)).
			Msg("lock of a dead program released")
	}
	if s.locker != nil {
		if err := s.locker.ClearReleased(clearing, swept.Released); err != nil {
			s.log.Debug().Err(err).Msg("remove advisory locks of dead programs failed, they expire")
		}
	}
	return swept.NextExpiry
}

// clear removes the advisory locks of a lost run.
func (s *sweeper) clear(ctx context.Context, lost storage.LostRun) {
	if s.locker == nil {
		return
	}
	if err := s.locker.Clear(ctx, lost.Held, lost.ID.String()); err != nil {
		s.log.Debug().Err(err).Str("job", lost.Job).
			Msg("remove advisory locks of a lost run failed, they expire")
	}
}
