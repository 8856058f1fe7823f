package locking

import (
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	outageAsk = 2 * time.Second  // how long nobody asks after a failure
	outageLog = 10 * time.Second // between two lines that say so
)

// outage remembers that stage 1 could not be asked, so that locks which the
// grants decide do not each wait for its timeout: while it lasts, one in a while
// asks. It may be used concurrently.
type outage struct {
	mu     sync.Mutex
	failed time.Time // when somebody last could not ask
	logged time.Time
}

// lasts reports whether stage 1 is not worth asking now.
func (o *outage) lasts() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.failed.IsZero() && time.Since(o.failed) < outageAsk
}

// note takes why stage 1 had no answer. Only that it can't be asked begins an
// outage: a full server answers.
func (o *outage) note(log *zerolog.Logger, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnclear) {
		o.failed = now
	}
	if o.logged.IsZero() || now.Sub(o.logged) > outageLog {
		o.logged = now
		log.Warn().Err(err).Msg("lock entries can't be kept, the grants decide alone")
	}
}
