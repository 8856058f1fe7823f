package engine_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/attempt"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/retry"
)

type watermark struct{ Row int }

// Every run adds one to the state that the last successful run saved. Every third run fails after
// it has saved.
func TestStateIsPassedFromRunToRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var mu sync.Mutex
		var found []string
		calls := 0
		handler := jobs.Handle("work", func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			var last watermark
			ok, err := run.Saved(ctx, &last)
			if err != nil {
				return err
			}
			mu.Lock()
			found = append(found, fmt.Sprint(ok, last.Row))
			calls++
			fail := calls%3 == 0
			mu.Unlock()
			if err := errors.Join(run.Save(watermark{Row: -1}),
				run.Save(watermark{Row: last.Row + 1}),
				run.SetResult(map[string]int{"row": last.Row})); err != nil {
				return err
			}
			if fail {
				return errors.New("half done")
			}
			return nil
		})
		stop := c.start(c.options("a", []jobs.Registration{handler}, job(t, "job", time.Minute)))
		time.Sleep(6*time.Minute + 30*time.Second)
		stop()
		if got, want := strings.Join(found, ", "),
			"false 0, true 1, true 2, true 2, true 3, true 4"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		run, err := c.store.Run(t.Context(), c.runs("job")[2].ID)
		if err != nil || run.State != jobs.Failed || string(run.Result) != `{"row":2}` {
			t.Errorf("the third run: %+v, %v", run, err)
		}
	})
}

// TestSavedPartsAreKept checks that the state of a committed part is kept when a later part fails.
// The next attempt continues from there.
func TestSavedPartsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFileCluster(t)
		var parts []int
		handler := jobs.Handle("work", func(ctx context.Context, run *jobs.Run, _ struct{}) error {
			var done watermark
			if _, err := run.Saved(ctx, &done); err != nil {
				return err
			}
			for part := done.Row + 1; part <= 4; part++ {
				err := sqlite.InTx(ctx, run, func(tx *sql.Tx) error {
					parts = append(parts, part)
					if err := sqlite.SaveInTx(ctx, tx, run, watermark{Row: part}); err != nil {
						return err
					}
					if part == 3 && run.Attempt == 1 {
						return errors.New("the third part fails")
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		j := once(t, "job", 10*time.Second)
		j.Retry = retry.Policy{Attempts: 2, Delay: time.Second}
		stop := c.start(c.options("a", []jobs.Registration{handler}, j))
		time.Sleep(time.Minute)
		stop()
		if got := fmt.Sprint(parts); got != "[1 2 3 3 4]" {
			t.Errorf("parts %s, want the third to be done again and no other", got)
		}
		if saved, err := c.store.Saved(t.Context(), "job"); err != nil ||
			string(saved) != `{"Row":4}` {
			t.Errorf("saved %s, %v", saved, err)
		}
	})
}

func TestStateAndResultAreBounded(t *testing.T) {
	run := jobs.NewRun("job", time.Now(), zerolog.Nop())
	for _, test := range []struct {
		name string
		keep func(any) error
		most int
		kept func() string
	}{
		{"state", run.Save, storage.MaxSaved, func() string { return string(run.Internal(attempt.NewKey()).Saved()) }},
		{"result", run.SetResult, storage.MaxResult, func() string { return string(run.Result()) }},
	} {
		if err := test.keep(strings.Repeat("x", test.most-2)); err != nil {
			t.Errorf("%s of %d bytes: %v", test.name, test.most, err)
		}
		if err := test.keep(strings.Repeat("x", test.most-1)); !errors.Is(err, jobs.ErrTooLarge) {
			t.Errorf("%s of %d bytes: %v, want ErrTooLarge", test.name, test.most+1, err)
		}
		if kept := len(test.kept()); kept != test.most {
			t.Errorf("%s: %d bytes are kept, want those of before", test.name, kept)
		}
		if err := test.keep(func() {}); err == nil {
			t.Errorf("%s: a function was kept", test.name)
		}
	}
	var into watermark
	if found, err := run.Saved(t.Context(), &into); found || err != nil {
		t.Errorf("a run without a store found %v, %v", found, err)
	}
}
