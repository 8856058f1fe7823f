package jobs

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// clockLimit says whether this machine's wall clock is near enough to the
// store's for runs to be started. Firings are due by cluster time, which a wrong
// wall clock does not move; but what handlers read, write and compare is the wall
// clock's, and so is what certificates and tokens are checked by. It may be used
// concurrently.
type clockLimit struct {
	clock *clusterClock
	most  time.Duration // 0: no limit
	log   zerolog.Logger
	over  atomic.Bool // as last looked
}

// clockLook is how soon a clock that is right again is noticed: no heartbeat is
// needed for that, the monotonic clock tells of each step.
const clockLook = time.Second

// check returns an error that says so while the clock is off by more than the
// limit, for certain: what a measurement may be mistaken by is allowed for. It
// logs when that begins and when it ends. now is read from this machine's clock.
func (l *clockLimit) check(now time.Time) error {
	offset, measured := l.clock.offset(now)
	if l.most == 0 || !measured || offset.Abs()-l.clock.margin(now) <= l.most {
		if l.over.CompareAndSwap(true, false) {
			l.log.Info().Dur("offset", offset).Msg("clock is right again, runs are started")
		}
		return nil
	}
	relation := "behind"
	if offset < 0 {
		relation = "ahead of"
	}
	err := fmt.Errorf("its clock is %s %s the store's, at most %s are allowed",
		offset.Abs().Round(time.Millisecond), relation, l.most)
	if l.over.CompareAndSwap(false, true) {
		l.log.Error().Err(err).Dur("offset", offset).Msg("clock is off, nothing is started")
	}
	return err
}

// right reports whether the clock is right; where it is not it waits a moment,
// or for ctx.
func (l *clockLimit) right(ctx context.Context) bool {
	if l.check(time.Now()) == nil {
		return true
	}
	pause(ctx, clockLook)
	return false
}
