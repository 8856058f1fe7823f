package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// sweeping is a store that finds one run lost.
type sweeping struct {
	Store
	lost LostRun
}

func (s *sweeping) Sweep(context.Context) (Swept, error) {
	return Swept{Sessions: []string{"dead"}, Lost: []LostRun{s.lost}}, nil
}

// What the run held is what its claim was granted, whatever this replica's
// cron table says of the job, or if it does not know it.
func TestSweepRemovesTheLocksOfJobsThatItsReplicaDoesNotHave(t *testing.T) {
	locker, err := locking.New(memory.New(), locking.Options{Namespace: "test", Lease: 30 * time.Second, Restore: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	orders, err := locking.Table("orders", "public")
	if err != nil {
		t.Fatal(err)
	}
	lost := LostRun{Record: Record{ID: uuid.New(), Job: "theirs"}, Held: []locking.Request{{Resource: orders, Mode: locking.Exclusive}}}
	if _, err := locker.TryAcquire(t.Context(), locking.Owner{Replica: "dead", Job: lost.Job, Run: lost.ID.String()}, lost.Held); err != nil {
		t.Fatal(err)
	}
	u := &upkeep{engine: &engine{store: &sweeping{lost: lost}, locker: locker, log: zerolog.Nop()}, table: cronTable{}}
	u.sweep(t.Context())
	if held, err := locker.Inspect(t.Context(), []locking.Resource{orders}); err != nil || len(held) != 0 {
		t.Errorf("held after the sweep: %+v, %v", held, err)
	}
}
