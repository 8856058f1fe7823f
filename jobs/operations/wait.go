package operations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The interval in which Wait reads the run grows from the shortest to the longest.
const (
	shortestPoll = 100 * time.Millisecond
	longestPoll  = time.Second
)

// Wait waits until a run has ended. It returns the record of the run with its output. If a lost run
// is recovered, Wait waits for the recovery. While the database does not answer, Wait retries.
//
// Wait returns storage.ErrNotFound if there is no such run. If ctx ends first, Wait returns its
// cause and the last record that it has read. The end of ctx does not end the run.
func (o *Operations) Wait(ctx context.Context, run uuid.UUID) (storage.Record, error) {
	return Await(ctx, run, func(ctx context.Context, id uuid.UUID) (storage.Record, error) {
		return Outcome(ctx, o.options.Lookup, id)
	})
}

// Await is [Operations.Wait] for a caller without a store. read returns what [Outcome] returns, for
// example by a request to a replica.
func Await(ctx context.Context, run uuid.UUID,
	read func(ctx context.Context, run uuid.UUID) (storage.Record, error)) (storage.Record, error) {
	var last storage.Record
	for delay := shortestPoll; ; delay = min(2*delay, longestPoll) {
		record, err := read(ctx, run)
		switch {
		case ctx.Err() != nil:
			return last, fmt.Errorf("wait for run %s: %w", run, context.Cause(ctx))
		case err == nil && record.State.Final():
			return record, nil
		case err == nil:
			last, run = record, record.ID
		case !errors.Is(err, storage.ErrUnavailable):
			return last, fmt.Errorf("wait: %w", of("run "+run.String(), err))
		}
		sleep.For(ctx, delay)
	}
}

// Outcome returns the run with its output. If the run was lost and recovered, it returns the last
// recovery instead.
func Outcome(ctx context.Context, l Lookup, id uuid.UUID) (storage.Record, error) {
	record, err := l.Run(ctx, id)
	for err == nil && record.State == jobs.Lost {
		var next *storage.Record
		if next, err = recovery(ctx, l, record); err != nil || next == nil {
			break
		}
		record, err = l.Run(ctx, next.ID)
	}
	return record, err
}

// recovery returns the run that recovers a lost one; nil if there is none. Both are recorded in one
// transaction. Runs of other actors may have the same key.
func recovery(ctx context.Context, l Lookup, lost storage.Record) (*storage.Record, error) {
	chain, err := l.FiringRuns(ctx,
		storage.Firing{Job: lost.Job, ScheduledAt: lost.ScheduledAt, Key: lost.Key})
	if err != nil {
		return nil, err
	}
	for i, r := range chain {
		if r.Recovery == lost.Recovery+1 && r.KeyActor == lost.KeyActor &&
			r.ScheduledAt.Equal(lost.ScheduledAt) {
			return &chain[i], nil
		}
	}
	return nil, nil
}
