package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// sealBatch is the number of links that one transaction adds, and sealBatches the number of
// transactions a call. Other upkeep waits for the call, also after the key is set on a cluster with
// a long log.
const (
	sealBatch   = 500
	sealBatches = 4
)

// sealer adds links for new entries of the audit log.
type sealer struct {
	store   auditSealer
	enabled bool
	log     zerolog.Logger
	// since is when the oldest entry without a link began to wait, by the clock of this machine, in
	// nanoseconds since 1970. 0: there is none, or it is not known.
	since atomic.Int64
}

// unsealedAge returns how long the oldest entry without a link has waited. While the store does not
// answer, the last known entry goes on waiting.
func (s *sealer) unsealedAge() time.Duration {
	since := s.since.Load()
	if since == 0 {
		return 0
	}
	return max(0, time.Since(time.Unix(0, since)))
}

// seal adds links for at most sealBatches batches of entries. The next call continues, also after a
// failure.
func (s *sealer) seal(ctx context.Context) {
	if !s.enabled {
		return
	}
	defer s.measure(ctx)
	for range sealBatches {
		bounded, cancel := context.WithTimeout(ctx, batchTimeout)
		sealed, err := s.store.SealAudit(bounded, sealBatch)
		cancel()
		if err != nil && ctx.Err() == nil {
			s.log.Warn().Err(err).Msg("seal audit log failed, retrying")
		}
		if err != nil || sealed < sealBatch {
			return
		}
	}
}

// measure reads how long the oldest entry without a link has waited. It waits also if seals succeed
// but do not reach it.
func (s *sealer) measure(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	age, err := s.store.UnsealedAge(bounded)
	switch {
	case err == nil && age == 0:
		s.since.Store(0)
	case err == nil:
		s.since.Store(time.Now().Add(-age).UnixNano())
	case ctx.Err() == nil:
		s.log.Warn().Err(err).Msg("read age of unsealed audit log failed")
	}
}
