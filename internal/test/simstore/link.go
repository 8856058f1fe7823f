package simstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// Link is one replica's connection to a Store, with its faults. The zero Faults are none. It may be
// used concurrently.
type Link struct {
	*Store

	mu     sync.Mutex
	random *rand.Rand
	cut    bool
	faults Faults
}

var _ storage.Store = (*Link)(nil)

// Faults are the random faults of a Link.
type Faults struct {
	Slow time.Duration // each call takes up to that long, half of it on either way
	Lost float64       // share of lost replies of calls that took effect, 0 to 1
	// Misread is how far behind the store's clock the replica reads it: an error that no replica
	// can correct.
	Misread time.Duration
	Deaf    bool // notifications of actions are lost
}

// NewLink returns a connection to the store. The seed determines its random faults.
func (s *Store) NewLink(seed uint64) *Link {
	return &Link{Store: s, random: rand.New(rand.NewPCG(seed, 0))}
}

// SetCut begins or ends a partition, in which no call reaches the store and no reply comes back.
func (l *Link) SetCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
}

// SetFaults replaces the faults.
func (l *Link) SetFaults(f Faults) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = f
}

func (l *Link) now() Faults {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faults
}

// draw returns how long one direction of a call takes, and whether it is lost.
func (l *Link) draw(reply bool) (delay time.Duration, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.faults.Slow > 0 {
		delay = time.Duration(l.random.Int64N(int64(l.faults.Slow)/2 + 1))
	}
	return delay, l.cut || reply && l.faults.Lost > 0 && l.random.Float64() < l.faults.Lost
}

// way simulates one direction of a call: the request or the reply.
func (l *Link) way(ctx context.Context, reply bool) error {
	delay, lost := l.draw(reply)
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", storage.ErrUnavailable, context.Cause(ctx))
		}
	}
	if lost {
		return fmt.Errorf("%w: its answer did not come", storage.ErrUnavailable)
	}
	return nil
}

// ask sends one call over the link.
func ask[A any](ctx context.Context, l *Link, call func() (A, error)) (A, error) {
	var none A
	if err := l.way(ctx, false); err != nil {
		return none, err
	}
	answer, err := call()
	if lost := l.way(ctx, true); lost != nil {
		return none, lost
	}
	return answer, err
}

// send is ask for a call that returns only an error.
func send(ctx context.Context, l *Link, call func() error) error {
	_, err := ask(ctx, l, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

// Open implements storage.Sessions.
func (l *Link) Open(ctx context.Context, o storage.Session) error {
	return send(ctx, l, func() error { return l.Store.Open(ctx, o) })
}

// Heartbeat implements storage.Sessions.
func (l *Link) Heartbeat(ctx context.Context, session uuid.UUID,
	v storage.ReplicaStatus) (storage.HeartbeatReply, error) {
	heartbeat, err := ask(ctx, l, func() (storage.HeartbeatReply,
		error) {
		return l.Store.Heartbeat(ctx, session, v)
	})
	heartbeat.Now = heartbeat.Now.Add(l.now().Misread)
	return heartbeat, err
}

// End implements storage.Sessions.
func (l *Link) End(ctx context.Context, session uuid.UUID) error {
	return send(ctx, l, func() error { return l.Store.End(ctx, session) })
}

// LiveSessions implements storage.Sessions.
func (l *Link) LiveSessions(ctx context.Context, sessions []uuid.UUID) ([]uuid.UUID, error) {
	return ask(ctx, l, func() ([]uuid.UUID, error) { return l.Store.LiveSessions(ctx, sessions) })
}

// Register implements storage.Sessions.
func (l *Link) Register(ctx context.Context, session uuid.UUID,
	definitions []storage.Definition) (map[string]int64, error) {
	return ask(ctx, l, func() (map[string]int64, error) {
		return l.Store.Register(ctx, session, definitions)
	})
}

// Withdraw implements storage.Sessions.
func (l *Link) Withdraw(ctx context.Context, session uuid.UUID, table string,
	names []string) error {
	_, err := ask(ctx, l, func() (struct{}, error) {
		return struct{}{}, l.Store.Withdraw(ctx, session, table, names)
	})
	return err
}

// Versions implements storage.Sessions.
func (l *Link) Versions(ctx context.Context) (map[string]storage.ActiveDefinition, error) {
	return ask(ctx, l, func() (map[string]storage.ActiveDefinition, error) {
		return l.Store.Versions(ctx)
	})
}

// Start implements storage.Firings.
func (l *Link) Start(ctx context.Context, session uuid.UUID,
	requests []storage.StartRequest) ([]storage.StartResult, error) {
	return ask(ctx, l, func() ([]storage.StartResult, error) {
		return l.Store.Start(ctx, session, requests)
	})
}

// Note implements storage.Firings.
func (l *Link) Note(ctx context.Context, session uuid.UUID, notes []storage.Note) ([]bool, error) {
	return ask(ctx, l, func() ([]bool, error) { return l.Store.Note(ctx, session, notes) })
}

// Finish implements storage.Firings.
func (l *Link) Finish(ctx context.Context, requests []storage.FinishRequest) ([]bool, error) {
	return ask(ctx, l, func() ([]bool, error) { return l.Store.Finish(ctx, requests) })
}

// Begun implements storage.Firings.
func (l *Link) Begun(ctx context.Context, firings []storage.Firing) ([]bool, error) {
	return ask(ctx, l, func() ([]bool, error) { return l.Store.Begun(ctx, firings) })
}

// Claims implements storage.Firings.
func (l *Link) Claims(ctx context.Context, runs []uuid.UUID) ([]storage.RunClaim, error) {
	return ask(ctx, l, func() ([]storage.RunClaim, error) { return l.Store.Claims(ctx, runs) })
}

// Sweep implements storage.Upkeep.
func (l *Link) Sweep(ctx context.Context) (storage.Swept, error) {
	return ask(ctx, l, func() (storage.Swept, error) { return l.Store.Sweep(ctx) })
}

// ExpireDisconnected implements storage.Upkeep.
func (l *Link) ExpireDisconnected(ctx context.Context, session uuid.UUID) (
	storage.Disconnected, error) {
	return ask(ctx, l, func() (storage.Disconnected, error) {
		return l.Store.ExpireDisconnected(ctx, session)
	})
}

// Adopt implements storage.Upkeep.
func (l *Link) Adopt(ctx context.Context, session uuid.UUID,
	a storage.Adoption) ([]storage.Record, error) {
	return ask(ctx, l, func() ([]storage.Record, error) { return l.Store.Adopt(ctx, session, a) })
}

// CheckMisfires implements storage.Upkeep.
func (l *Link) CheckMisfires(ctx context.Context, checks []storage.MisfireCheck,
	find func(string, storage.Cursor) []storage.Misfired) (map[string]time.Time, error) {
	return ask(ctx, l, func() (map[string]time.Time, error) {
		return l.Store.CheckMisfires(ctx, checks, find)
	})
}

// Trigger implements storage.Actions.
func (l *Link) Trigger(ctx context.Context, action storage.Action,
	r storage.TriggerRequest) (storage.Triggered, error) {
	return ask(ctx, l, func() (storage.Triggered, error) { return l.Store.Trigger(ctx, action, r) })
}

// Pause implements storage.Actions.
func (l *Link) Pause(ctx context.Context, action storage.Action,
	target storage.Target) (storage.Pause, error) {
	return ask(ctx, l, func() (storage.Pause, error) { return l.Store.Pause(ctx, action, target) })
}

// Resume implements storage.Actions.
func (l *Link) Resume(ctx context.Context, action storage.Action,
	target storage.Target) (storage.Pause, error) {
	return ask(ctx, l, func() (storage.Pause, error) { return l.Store.Resume(ctx, action, target) })
}

// Cancel implements storage.Actions.
func (l *Link) Cancel(ctx context.Context, action storage.Action,
	run uuid.UUID) (storage.Record, error) {
	return ask(ctx, l, func() (storage.Record, error) { return l.Store.Cancel(ctx, action, run) })
}

// Release implements storage.Actions.
func (l *Link) Release(ctx context.Context, action storage.Action,
	r storage.ReleaseRequest) (locking.Released, error) {
	return ask(ctx, l, func() (locking.Released, error) { return l.Store.Release(ctx, action, r) })
}

// Drain implements storage.Actions.
func (l *Link) Drain(ctx context.Context, action storage.Action, session uuid.UUID,
	drain bool) error {
	return send(ctx, l, func() error { return l.Store.Drain(ctx, action, session, drain) })
}

// RemoveReplica implements storage.Actions.
func (l *Link) RemoveReplica(ctx context.Context, action storage.Action, session uuid.UUID) error {
	return send(ctx, l, func() error { return l.Store.RemoveReplica(ctx, action, session) })
}

// AddBackfill implements storage.Actions.
func (l *Link) AddBackfill(ctx context.Context, action storage.Action,
	r storage.BackfillRequest) (storage.Backfill, error) {
	return ask(ctx, l, func() (storage.Backfill, error) {
		return l.Store.AddBackfill(ctx, action, r)
	})
}

// CancelBackfill implements storage.Actions.
func (l *Link) CancelBackfill(ctx context.Context, action storage.Action,
	id uuid.UUID) (storage.Backfill, error) {
	return ask(ctx, l, func() (storage.Backfill, error) {
		return l.Store.CancelBackfill(ctx, action, id)
	})
}

// OpenBackfills implements storage.Backfills.
func (l *Link) OpenBackfills(ctx context.Context) ([]storage.OpenBackfill, error) {
	return ask(ctx, l, func() ([]storage.OpenBackfill, error) {
		return l.Store.OpenBackfills(ctx)
	})
}

// AdvanceBackfill implements storage.Backfills.
func (l *Link) AdvanceBackfill(ctx context.Context,
	step storage.BackfillStep) (storage.Backfill, error) {
	return ask(ctx, l, func() (storage.Backfill, error) {
		return l.Store.AdvanceBackfill(ctx, step)
	})
}

// PutSpec implements storage.Actions.
func (l *Link) PutSpec(ctx context.Context, action storage.Action, spec storage.Spec,
	checks ...storage.SpecCheck) (storage.Spec, error) {
	return ask(ctx, l, func() (storage.Spec, error) {
		return l.Store.PutSpec(ctx, action, spec, checks...)
	})
}

// RemoveSpec implements storage.Actions.
func (l *Link) RemoveSpec(ctx context.Context, action storage.Action, job string, version int64,
	checks ...storage.SpecCheck) error {
	return send(ctx, l, func() error {
		return l.Store.RemoveSpec(ctx, action, job, version, checks...)
	})
}

// Listen implements storage.Control.
func (l *Link) Listen(ctx context.Context, heard func()) error {
	if l.now().Deaf {
		return fmt.Errorf("%w: the link drops notifications", storage.ErrUnavailable)
	}
	return l.Store.Listen(ctx, heard)
}

// ControlState implements storage.Control.
func (l *Link) ControlState(ctx context.Context, session uuid.UUID,
	since int64) (storage.ControlState, error) {
	return ask(ctx, l, func() (storage.ControlState, error) {
		return l.Store.ControlState(ctx, session, since)
	})
}

// Revoke implements storage.Upkeep.
func (l *Link) Revoke(ctx context.Context, token jobs.Token, state jobs.State,
	reason jobs.Reason) error {
	return send(ctx, l, func() error { return l.Store.Revoke(ctx, token, state, reason) })
}

// Prune implements storage.Upkeep.
func (l *Link) Prune(ctx context.Context, session uuid.UUID,
	r storage.PruneRequest) (storage.Pruned, error) {
	return ask(ctx, l, func() (storage.Pruned, error) { return l.Store.Prune(ctx, session, r) })
}

// SealAudit implements storage.AuditChain.
func (l *Link) SealAudit(ctx context.Context, limit int) (int, error) {
	return ask(ctx, l, func() (int, error) { return l.Store.SealAudit(ctx, limit) })
}

// UnsealedAge implements storage.AuditChain.
func (l *Link) UnsealedAge(ctx context.Context) (time.Duration, error) {
	return ask(ctx, l, func() (time.Duration, error) { return l.Store.UnsealedAge(ctx) })
}

// OpenFirings implements storage.Dependents.
func (l *Link) OpenFirings(ctx context.Context,
	dependents []storage.Dependent) (map[string]storage.OpenFirings, error) {
	return ask(ctx, l, func() (map[string]storage.OpenFirings, error) {
		return l.Store.OpenFirings(ctx, dependents)
	})
}

// AddDependents implements storage.Dependents.
func (l *Link) AddDependents(ctx context.Context, firings []storage.DependentFiring) error {
	return send(ctx, l, func() error { return l.Store.AddDependents(ctx, firings) })
}

// Drift implements storage.History.
func (l *Link) Drift(ctx context.Context, limit int) ([]storage.JobDrift, error) {
	return ask(ctx, l, func() ([]storage.JobDrift, error) { return l.Store.Drift(ctx, limit) })
}

// Replicas implements storage.History.
func (l *Link) Replicas(ctx context.Context) ([]storage.ReplicaView, error) {
	return ask(ctx, l, func() ([]storage.ReplicaView, error) { return l.Store.Replicas(ctx) })
}

// ReplicaSessions implements storage.History.
func (l *Link) ReplicaSessions(ctx context.Context, since time.Time,
	n int) ([]storage.ReplicaSession, error) {
	return ask(ctx, l, func() ([]storage.ReplicaSession, error) {
		return l.Store.ReplicaSessions(ctx, since, n)
	})
}

// Stands calls Store.Stands over the link. A disconnected replica cannot commit.
func (l *Link) Stands(token jobs.Token) bool {
	l.mu.Lock()
	cut := l.cut
	l.mu.Unlock()
	return !cut && l.Store.Stands(token)
}
