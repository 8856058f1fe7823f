package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// errBusy reports that too many requests query the store.
var errBusy = errors.New("query store: too many concurrent requests")

const (
	// queryTimeout bounds all queries of one request.
	queryTimeout = 3 * time.Second
	// maxQueries bounds the requests that query the store concurrently, so that open pages can't
	// take its connections from jobs.
	maxQueries = 4
)

// Queries bounds the queries of requests. It is safe for concurrent use.
type Queries struct {
	places  chan struct{}
	Timeout time.Duration // of all queries of one request
}

// NewQueries returns the bounds of a server: at most maxQueries requests at once, each for at most
// queryTimeout.
func NewQueries() *Queries {
	return &Queries{places: make(chan struct{}, maxQueries), Timeout: queryTimeout}
}

// Run waits for its turn and calls load with the timeout of a request.
func (q *Queries) Run(parent context.Context, load func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(parent, q.Timeout)
	defer cancel()
	select {
	case q.places <- struct{}{}:
		defer func() { <-q.places }()
	case <-ctx.Done():
		return cmp.Or(parent.Err(), errBusy)
	}
	err := load(ctx)
	if err != nil && ctx.Err() != nil && parent.Err() == nil {
		return fmt.Errorf("no answer within %s: %w", q.Timeout, err)
	}
	return err
}
