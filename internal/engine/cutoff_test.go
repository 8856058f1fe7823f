package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// severed is a store that one replica cannot reach for a while.
type severed struct {
	storage.Store
	cut atomic.Bool
}

func (s *severed) reach(what string) error {
	if s.cut.Load() {
		return fmt.Errorf("%s: %w", what, storage.ErrUnavailable)
	}
	return nil
}

func (s *severed) Heartbeat(ctx context.Context, session uuid.UUID,
	v storage.ReplicaStatus) (storage.HeartbeatReply, error) {
	if err := s.reach("heartbeat"); err != nil {
		return storage.HeartbeatReply{}, err
	}
	return s.Store.Heartbeat(ctx, session, v)
}

func (s *severed) Open(ctx context.Context, session storage.Session) error {
	if err := s.reach("session opening"); err != nil {
		return err
	}
	return s.Store.Open(ctx, session)
}

func (s *severed) Start(ctx context.Context, session uuid.UUID,
	requests []storage.StartRequest) ([]storage.StartResult, error) {
	if err := s.reach("start"); err != nil {
		return nil, err
	}
	return s.Store.Start(ctx, session, requests)
}

func (s *severed) Note(ctx context.Context, session uuid.UUID,
	notes []storage.Note) ([]bool, error) {
	if err := s.reach("note"); err != nil {
		return nil, err
	}
	return s.Store.Note(ctx, session, notes)
}

// A replica that reaches the gates but not the store wins firings that it cannot start. It stops
// that after at most one and a half heartbeats. Which replica is the first one of a firing is a
// matter of chance. With eight jobs it is certain that each of them is the first one of some.
func TestPartitionedReplicaAddsNoGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var table []jobs.Job
		for i := range 8 {
			j := job(t, fmt.Sprintf("job-%d", i), time.Second)
			j.Overlap, j.Misfire = jobs.OverlapAllow, jobs.MisfireSkip
			table = append(table, j)
		}
		o := c.options("a", takes(0), table...)
		store := &severed{Store: c.store}
		o.Store, o.Workers, o.ShutdownGrace = store, 100, time.Second
		stop, stopOther := c.start(o), c.start(c.second("b", table...))
		time.Sleep(30*time.Second + 500*time.Millisecond)
		cut := time.Now()
		store.cut.Store(true)
		time.Sleep(30 * time.Second)
		store.cut.Store(false)
		time.Sleep(30 * time.Second)
		lost, again, end := 0, 0, time.Now().Add(-5*time.Second)
		for _, j := range table {
			started := map[time.Time]string{}
			for _, r := range c.runs(j.Name) {
				if r.StartedAt != nil && r.StartedAt.Sub(r.ScheduledAt) < time.Second {
					started[r.ScheduledAt] = r.Replica
				}
			}
			for at := cut.Truncate(time.Second).Add(time.Second); at.Before(end); at =
				at.Add(time.Second) {
				switch replica, began := started[at.UTC()]; {
				case !began && at.Sub(cut) > 8*time.Second:
					t.Errorf("no run of %s at the scheduled time %s after the cut, want one by "+
						"another replica", j.Name, at.Sub(cut))
				case !began:
					lost++
				case replica == "a" && at.Sub(cut) > 30*time.Second:
					again++
				}
			}
		}
		if lost == 0 || again == 0 {
			t.Errorf(
				"%d gates won in vain, %d runs once it was connected again: expected some of each",
				lost, again)
		}
		stop()
		stopOther()
	})
}
