package retry

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/internal/plural"
	"github.com/holdfast-dev/holdfast/internal/sleep"
)

// Failure is one failed try, for the hook of OnFailure.
type Failure struct {
	Attempt int           // from 1
	Err     error         // what op returned
	Waited  time.Duration // since the first try began
	Next    time.Duration // the delay before the next try; 0 with Last
	Last    bool          // the policy is exhausted
}

// ExhaustedError says that the tries ended without success: by the policy's limits,
// by the context or by a hook.
type ExhaustedError struct {
	Cause    error         // the last try's error
	End      error         // the context's cause or the hook's error; nil: the policy's limits
	Attempts int           // tries made
	Waited   time.Duration // from the beginning of the first try to giving up
}

// Error returns a text such as "gave up after 3 tries in 1.5s: cause".
func (e *ExhaustedError) Error() string {
	why := ""
	if e.End != nil {
		why = fmt.Sprintf(" (%v)", e.End)
	}
	return fmt.Sprintf("gave up after %s in %s%s: %v",
		plural.Of(e.Attempts, "try", "tries"), e.Waited.Round(time.Millisecond), why,
		e.Cause)
}

// Unwrap returns Cause and, if there is one, End.
func (e *ExhaustedError) Unwrap() []error {
	if e.End == nil {
		return []error{e.Cause}
	}
	return []error{e.Cause, e.End}
}

// Do calls op until it returns nil, as often as the policy allows, with delays between. Do returns
// nil or one of these errors:
//   - the mistakes in the policy: see Policy.Validate
//   - an error of op for which the option If says not to retry
//   - the cause of ctx, if ctx ended before the first try
//   - an *ExhaustedError
func Do(ctx context.Context, policy Policy, op func(context.Context) error,
	options ...Option) error {
	if err := policy.Validate(); err != nil {
		return fmt.Errorf("retry policy: %w", err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s := gather(options)
	series := policy.Start(time.Now(), options...)
	for {
		err := op(ctx)
		if err == nil {
			return nil
		}
		if s.worth != nil && !s.worth(err) {
			return err
		}
		delay, more := series.Next(time.Now())
		end := s.report(series, err, delay, !more)
		if end == nil && more {
			end = sleep.For(ctx, delay)
		}
		if end != nil || !more {
			return series.Exhausted(time.Now(), err, end)
		}
	}
}

func (s *settings) report(series *Series, err error, next time.Duration, last bool) error {
	if s.onFailure == nil {
		return nil
	}
	return s.onFailure(Failure{
		Attempt: series.Attempts(), Err: err, Waited: series.Waited(time.Now()), Next: next,
		Last: last,
	})
}
