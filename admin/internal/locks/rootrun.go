package locks

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// RootRun is the run at the root of a wait or a skip.
type RootRun struct {
	storage.Record
	typical storage.Typical // durations of the last runs of its job
}

// FindRootRun returns the run at the root of what blocked a run, or nil if that is not known.
func FindRootRun(ctx context.Context, r *Reader, now time.Time,
	blocked storage.Record) (*RootRun, error) {
	if blocked.BlockedBy == nil {
		return nil, nil
	}
	id, err := uuid.Parse(cmp.Or(blocked.BlockedBy.Root.Holder.Run, blocked.BlockedBy.Holder.Run))
	if err != nil {
		return nil, nil // a program
	}
	run, err := r.Run(ctx, id)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	usual, err := r.Usual(ctx, now, []string{run.Job})
	return &RootRun{run, usual[run.Job]}, err
}

// Usual compares the time of a running run with the last runs of its job. It returns "" if it is
// not known.
func (r *RootRun) Usual(now time.Time) string {
	return CompareWithUsual(now.Sub(records.Since(r.Record)), r.typical)
}
