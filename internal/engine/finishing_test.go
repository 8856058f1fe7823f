package engine

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Many runs that end at the same time with large states need several statements.
func TestLargeFinishesAreSplitByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches, ends int
		send := func(_ context.Context, requests []storage.FinishRequest) ([]bool, error) {
			time.Sleep(time.Millisecond) // meanwhile the other finishes form one batch
			batches, ends = batches+1, ends+len(requests)
			return make([]bool, len(requests)), storage.CheckFinishes(requests)
		}
		finishes := newFinishBatcher(send, func() <-chan struct{} { return nil }, testPace)
		large := bytes.Repeat([]byte("1"), storage.MaxSaved)
		var all sync.WaitGroup
		for range 300 {
			all.Go(func() {
				if _, err := finishes.ask(t.Context(),
					storage.FinishRequest{State: jobs.Succeeded, Saved: large}, false); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if ends != 300 || batches > 300/(storage.MaxFinishBytes/storage.MaxSaved)+2 {
			t.Errorf("%d ends in %d batches", ends, batches)
		}
		batches, ends = 0, 0
		for range storage.MaxBatch + 1 {
			all.Go(func() {
				if _, err := finishes.ask(t.Context(), storage.FinishRequest{State: jobs.Succeeded},
					false); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if ends != storage.MaxBatch+1 || batches > 3 {
			t.Errorf("%d small ends in %d batches", ends, batches)
		}
	})
}
