package storage

import (
	"context"
	"encoding/json"
	"time"
)

// Memory holds what is known of a job from run to run.
type Memory interface {
	// Saved returns the state that the job's runs saved last, or nil. It does not check whether the
	// job exists.
	Saved(ctx context.Context, job string) (json.RawMessage, error)
	// PreviousSuccess returns the latest scheduled time before that time of a run of the job that
	// succeeded, or zero. Runs with trigger params do not count, because they did other work. It
	// remembers runs that were deleted from the history.
	PreviousSuccess(ctx context.Context, job string, before time.Time) (time.Time, error)
}
