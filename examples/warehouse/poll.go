package main

import (
	"context"
	"time"
)

const pollEvery = 50 * time.Millisecond

// poll asks until the answer is yes, and returns tooLong when it was not by
// the deadline. A question is never broken off by it: that would cost the
// connection it is asked on.
func poll(ctx context.Context, deadline time.Time, tooLong error, ask func() (bool, error)) error {
	for {
		yes, err := ask()
		switch {
		case err != nil || yes:
			return err
		case time.Now().After(deadline):
			return tooLong
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
