package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/sleep"
)

// clockLimit checks whether this machine's wall clock is close enough to the store's for runs to
// start. Firings follow cluster time, which a wrong wall clock does not move. But handlers use the
// wall clock, and so do checks of certificates and tokens. It may be used concurrently.
type clockLimit struct {
	clock *clusterClock
	most  time.Duration // 0: no limit
	log   zerolog.Logger
	over  atomic.Bool // at the last check
}

// clockLook is how often a wrong clock is checked again. The monotonic clock shows each step, so no
// heartbeat is needed.
const clockLook = time.Second

// check returns an error while the clock is off by more than the limit for certain, with the error
// of the measurement subtracted. It logs the begin and the end of that state. now must be read from
// this machine's clock.
func (l *clockLimit) check(now time.Time) error {
	offset, measured := l.clock.offset(now)
	if l.most == 0 || !measured || offset.Abs()-l.clock.margin(now) <= l.most {
		if l.over.CompareAndSwap(true, false) {
			l.log.Info().Dur("offset", offset).
				Msg("clock is within its limit again, starts resumed")
		}
		return nil
	}
	relation := "behind"
	if offset < 0 {
		relation = "ahead of"
	}
	err := fmt.Errorf("its clock is %s %s the store's, limit is %s",
		offset.Abs().Round(time.Millisecond), relation, l.most)
	if l.over.CompareAndSwap(false, true) {
		l.log.Error().Err(err).Dur("offset", offset).
			Msg("clock is off by more than its limit, starts suspended")
	}
	return err
}

// right reports whether the clock is within its limit. If it is not, right first waits for
// clockLook or ctx.
func (l *clockLimit) right(ctx context.Context) bool {
	if l.check(time.Now()) == nil {
		return true
	}
	sleep.For(ctx, clockLook)
	return false
}
