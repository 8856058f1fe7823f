package locking

import (
	"context"
	"fmt"
	"time"
)

// noBackend is the Backend of a Locker without one.
type noBackend struct{}

var errNoBackend = fmt.Errorf("%w: there is no backend", ErrUnavailable)

// Server implements Backend.
func (noBackend) Server(string) string { return "" }

// Add implements Backend.
func (noBackend) Add(context.Context, string, []byte, time.Duration) error { return errNoBackend }

// Get implements Backend.
func (noBackend) Get(context.Context, ...string) (map[string][]byte, error) {
	return nil, errNoBackend
}

// Renew implements Backend.
func (noBackend) Renew(context.Context, string, []byte, time.Duration) error { return errNoBackend }

// Delete implements Backend.
func (noBackend) Delete(context.Context, string, []byte) error { return errNoBackend }

// AddAll implements Backend.
func (noBackend) AddAll(_ context.Context, items []Item, _ time.Duration) []Added {
	results := make([]Added, len(items))
	for i := range results {
		results[i].Err = errNoBackend
	}
	return results
}

// DeleteAll implements Backend.
func (noBackend) DeleteAll(_ context.Context, items []Item) []error {
	errs := make([]error, len(items))
	for i := range errs {
		errs[i] = errNoBackend
	}
	return errs
}
