package accesstest

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// BrokenLoginAttempts is a store of login attempts that always fails.
type BrokenLoginAttempts struct{}

// CountFailures fails.
func (BrokenLoginAttempts) CountFailures(context.Context, ...string) ([]storage.Failures, error) {
	return nil, errors.New("store is down")
}

// AddFailure fails.
func (BrokenLoginAttempts) AddFailure(context.Context, time.Duration, ...string) error {
	return errors.New("store is down")
}
