package engine

import (
	"context"
	"testing"

	"github.com/rs/zerolog"
)

// endlessLog always has more lines to seal.
type endlessLog struct{ sealed int }

func (l *endlessLog) SealAudit(_ context.Context, limit int) (int, error) {
	l.sealed += limit
	return limit, nil
}

// A call seals a bounded number of lines, because other upkeep waits for it.
func TestSealIsBounded(t *testing.T) {
	log := &endlessLog{}
	s := &sealer{store: log, enabled: true, log: zerolog.Nop()}
	for call := range 2 {
		s.seal(t.Context())
		if want := (call + 1) * sealBatch * sealBatches; log.sealed != want {
			t.Errorf("call %d: sealed %d in all, want %d", call+1, log.sealed, want)
		}
	}
}
