package locking

import (
	"context"
	"fmt"
	"time"
)

// nowhere is the Backend of a Locker that has none.
type nowhere struct{}

var errNowhere = fmt.Errorf("%w: there is no backend", ErrUnavailable)

// Server implements Backend.
func (nowhere) Server(string) string { return "" }

// Add implements Backend.
func (nowhere) Add(context.Context, string, []byte, time.Duration) error { return errNowhere }

// Get implements Backend.
func (nowhere) Get(context.Context, ...string) (map[string][]byte, error) { return nil, errNowhere }

// Renew implements Backend.
func (nowhere) Renew(context.Context, string, []byte, time.Duration) error { return errNowhere }

// Delete implements Backend.
func (nowhere) Delete(context.Context, string, []byte) error { return errNowhere }

// DeleteAll implements Backend.
func (nowhere) DeleteAll(_ context.Context, keys []string, _ [][]byte) []error {
	errs := make([]error, len(keys))
	for i := range errs {
		errs[i] = errNowhere
	}
	return errs
}
