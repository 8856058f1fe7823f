package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// keeping is a store that counts saves of output.
type keeping struct {
	storage.Store
	kept *atomic.Int64
}

func (s keeping) SaveOutput(ctx context.Context, outputs []storage.Output) error {
	s.kept.Add(1)
	return s.Store.SaveOutput(ctx, outputs)
}

// A run writes a line each second, and its page is open for a while.
func TestOutputIsStoredWhileItsRunIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, kept := newCluster(t), &atomic.Int64{}
		writes := []jobs.Registration{jobs.Handle("work",
			func(_ context.Context, run *jobs.Run, _ struct{}) error {
				for i := range 100 {
					time.Sleep(time.Second)
					fmt.Fprintf(run.Output(), "line %d\n", i+1)
				}
				return fmt.Errorf("enough")
			})}
		o := c.options("a", writes, job(t, "job", 200*time.Second))
		o.Store = keeping{c.store, kept}
		stop := c.start(o)
		time.Sleep(220500 * time.Millisecond) // the run began at 200 s
		run := c.runs("job")[0]
		read := func() string {
			record, err := c.store.Run(t.Context(), run.ID)
			if err != nil {
				t.Fatal(err)
			}
			return record.Output
		}
		if out := read(); out != "" || kept.Load() != 0 {
			t.Errorf("no page is open: got output %q, saved %d times, want none", out, kept.Load())
		}
		look := func() {
			if err := c.store.Watch(t.Context(), run.ID); err != nil {
				t.Fatal(err)
			}
		}
		look()
		time.Sleep(2 * time.Second)
		if out := read(); !strings.HasPrefix(out, "line 1\n") ||
			!strings.Contains(out, "line 20\n") {
			t.Errorf("output after 2 s: got %q, want lines 1 to 20", out)
		}
		time.Sleep(3 * time.Second)
		look()
		time.Sleep(4 * time.Second)
		if out := read(); !strings.Contains(out, "line 27\n") {
			t.Errorf("output after 9 s: got %q, want line 27", out)
		}
		time.Sleep(storage.WatchLasts)
		before := kept.Load()
		time.Sleep(20 * time.Second)
		if kept.Load() != before || before > 15 {
			t.Errorf("saved %d times, want at most 15; and %d times with no page open, want 0",
				before, kept.Load()-before)
		}
		time.Sleep(60 * time.Second)
		synctest.Wait()
		if out := read(); !strings.Contains(out, "line 100\n") {
			t.Errorf("in the end there is %q", out)
		}
		stop()
	})
}
