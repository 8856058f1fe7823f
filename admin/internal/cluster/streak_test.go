package cluster

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// TestFewOutcomesDecideAboutAStreak checks that a streak which the last few outcomes decide is that
// of all outcomes.
func TestFewOutcomesDecideAboutAStreak(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	states := []jobs.State{jobs.Succeeded, jobs.Failed, jobs.Lost, jobs.Skipped, jobs.Cancelled}
	decided, open := 0, 0
	for range 2000 {
		at, all := now, []storage.Outcome(nil)
		for range outcomesOfJob {
			at = at.Add(-time.Duration(random.Int64N(int64(HoldTime))))
			all = append(all, storage.Outcome{ScheduledAt: at,
				State: states[random.IntN(len(states))]})
		}
		few := all[:decidingOutcomes]
		if _, ok := decideStreak(few, now); !ok {
			open++
			continue
		}
		decided++
		if got, want := newStreak(few, now), newStreak(all, now); !reflect.DeepEqual(got, want) {
			t.Fatalf("few outcomes give %+v, all give %+v: %+v", got, want, all)
		}
	}
	if decided == 0 || open == 0 {
		t.Errorf("%d streaks were decided, %d were not", decided, open)
	}
}
