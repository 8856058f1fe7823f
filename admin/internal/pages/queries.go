package pages

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrBusy reports that a request did not query the store, because too many others did.
var ErrBusy = errors.New("query store: too many concurrent requests")

const (
	// queryTimeout bounds the queries of one call of Run, with the wait for their turn.
	queryTimeout = 3 * time.Second
	// maxQueries bounds the requests that query the store concurrently, so that open pages can't
	// take its connections from jobs.
	maxQueries = 4
)

// Queries bounds the queries of requests. It is safe for concurrent use.
type Queries struct {
	places  chan struct{}
	Timeout time.Duration // of one call of Run
}

// NewQueries returns the bounds of a server: at most maxQueries requests at once, each for at most
// queryTimeout.
func NewQueries() *Queries {
	return &Queries{places: make(chan struct{}, maxQueries), Timeout: queryTimeout}
}

// Run waits for its turn and calls load with the timeout of a request. A turn comes within half of
// that time. Otherwise Run returns ErrBusy, because the store would have too little time to answer.
func (q *Queries) Run(parent context.Context, load func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(parent, q.Timeout)
	defer cancel()
	turn := time.NewTimer(q.Timeout / 2)
	defer turn.Stop()
	select {
	case q.places <- struct{}{}:
		defer func() { <-q.places }()
	case <-turn.C:
		return ErrBusy
	case <-parent.Done():
		return parent.Err()
	}
	err := load(ctx)
	if err != nil && ctx.Err() != nil && parent.Err() == nil {
		return fmt.Errorf("no answer within %s: %w", q.Timeout, err)
	}
	return err
}
