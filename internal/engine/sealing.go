package engine

import (
	"context"

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
}

// seal adds links for at most sealBatches batches of entries. The next call continues, also after a
// failure.
func (s *sealer) seal(ctx context.Context) {
	if !s.enabled {
		return
	}
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
