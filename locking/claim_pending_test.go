package locking_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/locking"
	"github.com/holdfast-dev/holdfast/locking/memory"
)

// lateReply delays the replies of grants until long after the decision.
type lateReply struct {
	locking.Grants
	after      time.Duration
	heartbeats atomic.Int64 // heartbeats that returned a claim
	claim      atomic.Bool
}

func (l *lateReply) Grant(ctx context.Context, session uuid.UUID,
	requests []locking.GrantRequest) ([]locking.GrantResult, error) {
	results, err := l.Grants.Grant(ctx, session, requests)
	l.claim.Store(true)
	time.Sleep(l.after)
	l.claim.Store(false)
	return results, err
}

func (l *lateReply) Heartbeat(ctx context.Context,
	session uuid.UUID) (locking.HeartbeatReply, error) {
	heartbeat, err := l.Grants.Heartbeat(ctx, session)
	if l.claim.Load() && len(heartbeat.Claims) == 1 {
		l.heartbeats.Add(1)
	}
	return heartbeat, err
}

// TestClaimOfAPendingGrantIsKept makes heartbeats return a claim between the commit of the grant
// and its reply. The locker must not release the claim.
func TestClaimOfAPendingGrantIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		grants := &lateReply{Grants: memory.NewGrants(), after: 3 * time.Second}
		locker := start(t, nil, locking.Options{
			Grants: grants, Session: locking.Session{Replica: "a", TTL: 3 * time.Second},
			Log: zerolog.Nop(),
		})
		if err := locker.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		k := lock(t, locker, "a")
		if grants.heartbeats.Load() == 0 {
			t.Fatal("no heartbeat returned the claim before its reply")
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if err := k.Context().Err(); err != nil {
			t.Errorf("the lock has ended: %v", context.Cause(k.Context()))
		}
		release(t, k)
	})
}
