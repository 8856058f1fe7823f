package pages

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestTooManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewQueries()
		release := make(chan struct{})
		for range maxQueries {
			go func() {
				_ = r.Run(t.Context(), func(context.Context) error { <-release; return nil })
			}()
		}
		synctest.Wait()
		never := func(context.Context) error { t.Error("got a query beyond the limit"); return nil }
		if err := r.Run(t.Context(), never); !errors.Is(err, ErrBusy) {
			t.Errorf("error is %v, want ErrBusy", err)
		}
		left, leave := context.WithCancel(t.Context())
		leave()
		if err := r.Run(left, never); !errors.Is(err, context.Canceled) {
			t.Errorf("error of a client that left is %v", err)
		}
		close(release)
		synctest.Wait()
		if err := r.Run(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
	})
}
