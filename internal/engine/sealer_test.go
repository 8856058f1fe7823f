package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// endlessLog always has more lines to seal.
type endlessLog struct {
	sealed int
	age    time.Duration // of the oldest line
	err    error         // of all calls
}

func (l *endlessLog) SealAudit(_ context.Context, limit int) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	l.sealed += limit
	return limit, nil
}

func (l *endlessLog) UnsealedAge(context.Context) (time.Duration, error) { return l.age, l.err }

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

// The age of the oldest unsealed line grows while seals fail, so that an alert can find it.
func TestAgeOfUnsealedLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &endlessLog{age: 3 * time.Second}
		s := &sealer{store: log, enabled: true, log: zerolog.Nop()}
		measured := func(what string, want time.Duration) {
			t.Helper()
			s.seal(t.Context())
			if got := s.unsealedAge(); got != want {
				t.Errorf("%s: got %v, want %v", what, got, want)
			}
		}
		measured("a line that waits", 3*time.Second)
		log.err = errors.New("the store is down")
		time.Sleep(time.Minute)
		measured("a store that does not answer", 63*time.Second)
		log.age, log.err = 0, nil
		measured("all lines sealed", 0)
	})
}
