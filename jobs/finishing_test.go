package jobs

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestLargeEndsAreSplitByBytes: many runs that end at once with large states
// are not one statement.
func TestLargeEndsAreSplitByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches, ends int
		send := func(_ context.Context, requests []FinishRequest) ([]bool, error) {
			time.Sleep(time.Millisecond) // others gather
			batches, ends = batches+1, ends+len(requests)
			return make([]bool, len(requests)), CheckFinishes(requests)
		}
		finishes := newWeighedBatcher(send, MaxFinishBytes, FinishRequest.weight)
		large := bytes.Repeat([]byte("1"), MaxSaved)
		var all sync.WaitGroup
		for range 300 {
			all.Go(func() {
				if _, err := finishes.ask(t.Context(),
					FinishRequest{State: Succeeded, Saved: large}, false); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if ends != 300 || batches > 300/(MaxFinishBytes/MaxSaved)+2 {
			t.Errorf("%d ends in %d batches", ends, batches)
		}
		batches, ends = 0, 0
		for range MaxBatch + 1 {
			all.Go(func() {
				if _, err := finishes.ask(t.Context(), FinishRequest{State: Succeeded},
					false); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if ends != MaxBatch+1 || batches > 3 {
			t.Errorf("%d small ends in %d batches", ends, batches)
		}
	})
}
