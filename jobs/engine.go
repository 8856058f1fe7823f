package jobs

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
	"github.com/holdfast-dev/holdfast/locking"
)

// engine is what the firings of one replica share.
type engine struct {
	replica  string
	store    Store
	handed   Store // the same, as runs are given it
	registry *Registry
	eventBus *eventBus
	locker   *locking.Locker // nil where there is no stage 1
	// when stage 1 can't be asked: skip rather than leave it to the store
	skipUnavailable bool
	ttl             time.Duration // of the session
	pace            pace
	clock           *clusterClock
	clockLimit      *clockLimit
	active          *active
	workers         *workers
	starts          *batcher[sessionCall[StartRequest], StartResult]
	notes           *batcher[sessionCall[Note], bool]
	finishes        *batcher[FinishRequest, bool]
	doubt           func() // has the keeper ask which definitions are active
	controlState    *controlState
	tracing         Tracing // nil: nothing is traced
	log             zerolog.Logger
	logOutput       io.Writer
}

// sessionCall is a question that is asked on behalf of a session.
type sessionCall[Q any] struct {
	session  uuid.UUID
	question Q
}

// bySession sends the calls of a batch by session: there are two only in the
// moment when one was lost and the next begun.
func bySession[Q, A any](send func(context.Context, uuid.UUID, []Q) ([]A, error)) func(
	context.Context, []sessionCall[Q]) ([]A, error) {
	return func(ctx context.Context, calls []sessionCall[Q]) ([]A, error) {
		places := map[uuid.UUID][]int{}
		for i, c := range calls {
			places[c.session] = append(places[c.session], i)
		}
		answers := make([]A, len(calls))
		var problems []error
		for session, mine := range places {
			questions := make([]Q, len(mine))
			for i, place := range mine {
				questions[i] = calls[place].question
			}
			got, err := send(ctx, session, questions)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			for i, place := range mine {
				answers[place] = got[i]
			}
		}
		if len(places) > 1 && len(problems) > 0 {
			// What one session is told is no answer for the other: each
			// caller asks again, or sees that its session is lost.
			return nil, fmt.Errorf("calls of %d sessions: %w: %v", len(places), ErrUnavailable,
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
