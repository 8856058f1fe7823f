package accesstest

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// BrokenAttempts is a store of login attempts that always fails.
type BrokenAttempts struct{}

// CountFailures fails.
func (BrokenAttempts) CountFailures(context.Context, ...string) ([]storage.Failures, error) {
	return nil, errors.New("store is down")
}

// AddFailure fails.
func (BrokenAttempts) AddFailure(context.Context, time.Duration, ...string) error {
	return errors.New("store is down")
}
