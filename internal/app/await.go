package app

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

// openRetry is how often a replica tries to open its database. It does not give up: the program
// that started the process decides how long a start may take.
func openRetry() retry.Policy {
	return retry.Policy{Attempts: math.MaxInt, Delay: time.Second, Backoff: retry.Exponential,
		MaxDelay: 30 * time.Second, Jitter: 0.2}
}

// OpenWhenAvailable is Open for a replica that may start before its database. While the database
// does not answer, it tries again and logs that. Other errors are returned at once. It returns the
// cause of ctx if that ends first.
func (r *Replica) OpenWhenAvailable(ctx context.Context) error {
	return openWhenAvailable(ctx, r.Open, r.log)
}

func openWhenAvailable(ctx context.Context, open func(context.Context) error,
	log zerolog.Logger) error {
	begun := time.Now()
	for failures := 1; ; failures++ {
		err := open(ctx)
		if ctx.Err() != nil && err != nil {
			return context.Cause(ctx)
		}
		if err == nil && failures > 1 {
			log.Info().Int("attempt", failures).Dur("took", time.Since(begun)).
				Msg("database answers")
		}
		if !errors.Is(err, storage.ErrUnavailable) {
			return err
		}
		delay, _ := openRetry().After(failures, 0)
		log.Warn().Err(err).Int("attempt", failures).Dur("again_in", delay).
			Msg("database does not answer, the replica waits for it")
		if err := sleep.For(ctx, delay); err != nil {
			return err
		}
	}
}
