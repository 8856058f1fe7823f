package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/internal/output"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// engine holds what the firings of one replica share.
type engine struct {
	replica  string
	store    storage.Store
	handed   storage.Store // the store that runs are given
	registry *jobs.Registry
	eventBus *eventBus
	locker   *locking.Locker // nil without memcached
	// if memcached cannot be asked: skip the firing instead of leaving it to the store
	skipUnavailable bool
	ttl             time.Duration // of the session
	pollIntervals   pollIntervals
	clock           *clusterClock
	clockLimit      *clockLimit
	active          *active
	workers         *workers
	starts          *batcher[sessionCall[storage.StartRequest], storage.StartResult]
	notes           *batcher[sessionCall[storage.Note], bool]
	finishes        *batcher[storage.FinishRequest, bool]
	doubt           func() // makes the keeper read which definitions are active
	controlState    *controlState
	tracing         Tracing // nil: no tracing
	log             zerolog.Logger
	logOutput       io.Writer
}

// sessionCall is a call on behalf of a session.
type sessionCall[Q any] struct {
	session  uuid.UUID
	question Q
}

// bySession groups the calls of a batch by session. There are two sessions only for a short time
// after one was lost.
func bySession[Q, A any](send func(context.Context, uuid.UUID, []Q) ([]A, error)) func(
	context.Context, []sessionCall[Q]) ([]A, error) {
	return func(ctx context.Context, calls []sessionCall[Q]) ([]A, error) {
		indexes := map[uuid.UUID][]int{}
		for i, c := range calls {
			indexes[c.session] = append(indexes[c.session], i)
		}
		answers := make([]A, len(calls))
		var problems []error
		for session, mine := range indexes {
			questions := make([]Q, len(mine))
			for i, index := range mine {
				questions[i] = calls[index].question
			}
			got, err := send(ctx, session, questions)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			for i, index := range mine {
				answers[index] = got[i]
			}
		}
		if len(indexes) > 1 && len(problems) > 0 {
			// The error of one session does not apply to the other. Each caller asks again, or
			// finds that its session is lost.
			return nil, fmt.Errorf("calls of %d sessions: %w: %v", len(indexes),
				storage.ErrUnavailable,
				errors.Join(problems...))
		}
		return answers, errors.Join(problems...)
	}
}

// newAttempt returns what an attempt of the firing has besides what its handler
// sees: a logger whose lines go to the replica's log and to the run's output.
func (f *firing) newAttempt() *attempt.Attempt {
	a := &attempt.Attempt{Store: f.handed, Output: output.NewTail(output.Max)}
	console := zerolog.ConsoleWriter{Out: a.Output, NoColor: true, TimeFormat: time.TimeOnly,
		FieldsExclude: []string{"job", "run", "scheduled_at", "replica", "trace_id"}}
	var writers io.Writer = console
	if f.logOutput != nil {
		writers = zerolog.MultiLevelWriter(f.logOutput, console)
	}
	a.Log = f.log.Output(writers).With().Int("attempt", f.attempt).Logger()
	return a
}
