package lockingtest

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// The operations of grants.
const (
	OpOpen     Op = "open"
	OpBeat     Op = "heartbeat"
	OpEnd      Op = "end"
	OpGrant    Op = "grant"
	OpWithdraw Op = "withdraw"
	OpRelease  Op = "release"
	OpSweep    Op = "sweep"
	OpLiving   Op = "live"
)

// FaultyGrants are grants that pass operations to real grants and make chosen ones fail. Every
// fault is reported as ErrUnavailable, as a store of grants does. Its methods may be called
// concurrently.
type FaultyGrants struct {
	grants locking.Grants

	mu     sync.Mutex
	choose func(op Op) Fault
	late   []func()
	counts map[Op]int
	opened uuid.UUID // the last session
}

// NewFaultyGrants returns FaultyGrants on grants without faults.
func NewFaultyGrants(grants locking.Grants) *FaultyGrants {
	return &FaultyGrants{grants: grants, counts: map[Op]int{}}
}

// Choose sets the function that chooses the fault of each operation. It is called for one operation
// at a time. nil ends the faults.
func (f *FaultyGrants) Choose(choose func(op Op) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.choose = choose
}

// Times makes the next n operations of a kind fail.
func (f *FaultyGrants) Times(op Op, fault Fault, n int) {
	f.Choose(func(found Op) Fault {
		if found != op || n == 0 {
			return None
		}
		n--
		return fault
	})
}

// Always makes all operations fail.
func (f *FaultyGrants) Always(fault Fault) { f.Choose(func(Op) Fault { return fault }) }

// Land runs the operations that Late delayed.
func (f *FaultyGrants) Land() {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	for _, land := range late {
		land()
	}
}

// Count returns how many operations of a kind were called.
func (f *FaultyGrants) Count(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[op]
}

func (f *FaultyGrants) next(op Op) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[op]++
	if f.choose == nil {
		return None
	}
	return f.choose(op)
}

func (f *FaultyGrants) do(ctx context.Context, op Op, action func(context.Context) error) error {
	switch f.next(op) {
	case None:
		return action(ctx)
	case LoseReply:
		_ = action(ctx) // the lost reply
	case Late:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.late = append(f.late, func() { _ = action(context.WithoutCancel(ctx)) })
	}
	return fmt.Errorf("%w: planned", locking.ErrUnavailable)
}

// OpenSession implements locking.Grants.
func (f *FaultyGrants) OpenSession(ctx context.Context, s locking.Session) error {
	return f.do(ctx, OpOpen, func(ctx context.Context) error {
		f.mu.Lock()
		f.opened = s.ID
		f.mu.Unlock()
		return f.grants.OpenSession(ctx, s)
	})
}

// Session returns the id of the session that was opened last, or the zero id.
func (f *FaultyGrants) Session() uuid.UUID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened
}

// Heartbeat implements locking.Grants.
func (f *FaultyGrants) Heartbeat(ctx context.Context,
	session uuid.UUID) (heartbeat locking.HeartbeatReply, err error) {
	err = f.do(ctx, OpBeat, func(ctx context.Context) (err error) {
		heartbeat, err = f.grants.Heartbeat(ctx, session)
		return err
	})
	return heartbeat, err
}

// LiveSessions implements locking.Sessions.
func (f *FaultyGrants) LiveSessions(ctx context.Context,
	sessions []uuid.UUID) (live []uuid.UUID, err error) {
	err = f.do(ctx, OpLiving, func(ctx context.Context) (err error) {
		live, err = f.grants.LiveSessions(ctx, sessions)
		return err
	})
	return live, err
}

// EndSession implements locking.Grants.
func (f *FaultyGrants) EndSession(ctx context.Context, session uuid.UUID) error {
	return f.do(ctx, OpEnd, func(ctx context.Context) error {
		return f.grants.EndSession(ctx, session)
	})
}

// Grant implements locking.Grants.
func (f *FaultyGrants) Grant(ctx context.Context, session uuid.UUID,
	requests []locking.GrantRequest) (results []locking.GrantResult, err error) {
	err = f.do(ctx, OpGrant, func(ctx context.Context) (err error) {
		results, err = f.grants.Grant(ctx, session, requests)
		return err
	})
	return results, err
}

// Withdraw implements locking.Grants.
func (f *FaultyGrants) Withdraw(ctx context.Context, session uuid.UUID, ids []uuid.UUID) error {
	return f.do(ctx, OpWithdraw, func(ctx context.Context) error {
		return f.grants.Withdraw(ctx, session, ids)
	})
}

// Release implements locking.Grants.
func (f *FaultyGrants) Release(ctx context.Context,
	tokens []locking.Token) (released []locking.ReleaseResult, err error) {
	err = f.do(ctx, OpRelease, func(ctx context.Context) (err error) {
		released, err = f.grants.Release(ctx, tokens)
		return err
	})
	return released, err
}

// Sweep implements locking.Grants.
func (f *FaultyGrants) Sweep(ctx context.Context) (swept []locking.Released, err error) {
	err = f.do(ctx, OpSweep, func(ctx context.Context) (err error) {
		swept, err = f.grants.Sweep(ctx)
		return err
	})
	return swept, err
}
