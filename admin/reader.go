package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

const (
	// questionTimeout bounds everything that one request asks of the store.
	questionTimeout = 3 * time.Second
	// stage1Timeout is shorter: the page can do without stage 1.
	stage1Timeout = time.Second
	// maxQuestions bounds the requests that ask the store at the same time,
	// so that many open pages can't take its connections from the jobs.
	maxQuestions = 4
)

// errBusy says that too many others ask at the same time.
var errBusy = errors.New("too many requests ask the store at the same time")

// reader asks the store and stage 1 on behalf of requests.
type reader struct {
	store          jobs.History
	stage1         Stage1
	upcoming       func(from time.Time, n int) []ScheduledFiring
	scheduledTimes func(job string, from time.Time, n int) []time.Time
	known          *kept[[]locking.Resource] // what jobs name
	tallies        *kept[[]jobs.Tally]       // of the last day
	lockers        *kept[[]jobs.Locker]
	ahead          *kept[forecast]
	lengths        lengths
	patience       func(job string, limit time.Duration) (time.Duration, bool)
	restarts       jobs.Restarts // nil where there are none to be kept
	memory         jobs.Memory
	ops            *jobs.Operations
	explain        func(ctx context.Context, job, at string) (jobs.Explanation, error)
	places         chan struct{}
	timeout        time.Duration // of all that one request asks: questionTimeout
}

func newReader(o Options) *reader {
	explain := o.Explain
	if explain == nil {
		explain = jobs.NewExplainer(o.Store, nil, jobs.DefaultKeep).Explain
	}
	known := func(ctx context.Context, _ time.Time) ([]locking.Resource, error) {
		return o.Store.Resources(ctx)
	}
	tallies := func(ctx context.Context, now time.Time) ([]jobs.Tally, error) {
		return o.Store.Tallies(ctx, now.Add(-lastDay))
	}
	lockers := func(ctx context.Context, _ time.Time) ([]jobs.Locker, error) {
		return o.Store.Lockers(ctx)
	}
	r := &reader{
		known: newKept(known), tallies: newKept(tallies), lockers: newKept(lockers),
		restarts: o.Restarts,
		store:    o.Store, stage1: o.Stage1, upcoming: o.Upcoming, scheduledTimes: o.ScheduledTimes,
		explain: explain, memory: o.Memory, ops: o.Operations,
		places:   make(chan struct{}, maxQuestions),
		patience: o.LongestWait, timeout: questionTimeout,
	}
	r.ahead = newKept(func(ctx context.Context, now time.Time) (forecast, error) {
		return r.lookAhead(ctx, now, nil)
	})
	return r
}

// ask calls question when its turn has come, with the time it has.
func (r *reader) ask(parent context.Context, question func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(parent, r.timeout)
	defer cancel()
	select {
	case r.places <- struct{}{}:
		defer func() { <-r.places }()
	case <-ctx.Done():
		return cmp.Or(parent.Err(), errBusy)
	}
	err := question(ctx)
	if err != nil && ctx.Err() != nil && parent.Err() == nil {
		return fmt.Errorf("no answer within %s: %w", r.timeout, err)
	}
	return err
}

// firings returns the next firing of each job, at most n.
func (r *reader) firings(from time.Time, n int) []ScheduledFiring {
	if r.upcoming == nil || n <= 0 {
		return nil
	}
	scheduledTimes := r.upcoming(from, n)
	return scheduledTimes[:min(n, len(scheduledTimes))]
}
