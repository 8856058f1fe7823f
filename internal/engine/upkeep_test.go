package engine

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// sweeping is a store whose sweep finds one lost run.
type sweeping struct {
	storage.Store
	lost storage.LostRun
}

func (s *sweeping) Sweep(context.Context) (storage.Swept, error) {
	return storage.Swept{Sessions: []string{"dead"}, Lost: []storage.LostRun{s.lost}}, nil
}

// The sweep frees the resources of the claim, whatever this replica's cron table says about the
// job.
func TestSweepRemovesLocksOfJobsNotInTheTable(t *testing.T) {
	locker, err := locking.New(memory.New(),
		locking.Options{Namespace: "test", Lease: 30 * time.Second, Restore: true,
			Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	orders, err := locking.Table("orders", "public")
	if err != nil {
		t.Fatal(err)
	}
	lost := storage.LostRun{Record: storage.Record{ID: uuid.New(), Job: "theirs"},
		Held: []locking.Request{{Resource: orders, Mode: locking.Exclusive}}}
	if _, err := locker.TryAcquire(t.Context(),
		locking.Owner{Replica: "dead", Job: lost.Job, Run: lost.ID.String()},
		lost.Held); err != nil {
		t.Fatal(err)
	}
	u := &sweeper{store: &sweeping{lost: lost}, locker: locker, events: &events{},
		log: zerolog.Nop()}
	u.sweep(t.Context())
	if held, err := locker.Inspect(t.Context(), []locking.Resource{orders}); err != nil ||
		len(held) != 0 {
		t.Errorf("held after the sweep: %+v, %v", held, err)
	}
}

func TestMisfireChecksStartWithTheOldestCursor(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	u := &misfireChecker{table: tableOf(), page: 50}
	for name, behind := range map[string]time.Duration{
		"an hour": time.Hour, "a day": 24 * time.Hour, "two minutes": 2 * time.Minute, "three minutes": 3 * time.Minute, "nothing": time.Minute,
	} {
		e := entryEvery(t, time.Minute, jobs.MisfireSkip)
		e.Name = name
		e.activeVersion.register(1)
		e.activeVersion.decide(now.Add(-behind))
		u.table.put(e)
	}
	checks := u.undecided(now)
	var order []string
	for _, c := range checks {
		order = append(order, c.Job)
		if !c.ScheduledAt.Equal(c.decided.Add(time.Minute)) ||
			!c.Until.Equal(now.Add(-30*time.Second)) {
			t.Errorf("check %+v", c)
		}
	}
	if !slices.Equal(order, []string{"a day", "an hour", "three minutes", "two minutes"}) {
		t.Errorf("checks in the order %q", order)
	}
	for page, want := range map[int]int{1: 1, 39: 1, 40: 2, 41: 2, 42: 3, 43: 4, 1000: 4} {
		if u.page = page; u.fill(checks) != want {
			t.Errorf("a page of weight %d has %d checks, want %d", page, u.fill(checks), want)
		}
	}
}
