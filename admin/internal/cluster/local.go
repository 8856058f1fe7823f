package cluster

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// readyTimeout bounds the question whether the replica is ready.
const readyTimeout = 3 * time.Second

// Local is what only the replica that answers knows.
type Local struct {
	Replica, Version string
	Session          func() uuid.UUID                // nil, or zero: there is none
	Ready            func(ctx context.Context) error // nil: always ready
	Servers          Memcached                       // nil: there is no memcached
	Databases        func() []JobDatabase            // of jobs; nil: there are none
	StoreName        string                          // for people
	Rules            Rules
	Hold             *Hold // of the statuses; nil: each status stands alone
}

// ServedBy returns the facts of the replica.
func (l Local) ServedBy(ctx context.Context) ServedBy {
	by := ServedBy{Replica: l.Replica, Version: l.Version, Ready: true}
	if l.Session != nil {
		if id := l.Session(); id != [16]byte{} {
			by.Session = id.String()
		}
	}
	if err := l.CheckReady(ctx); err != nil {
		by.Ready, by.NotReady = false, words.OneLine(err.Error(), 300)
	}
	return by
}

// Memcached returns this replica's view, or nil without memcached.
func (l Local) Memcached() *MemcachedView {
	if l.Servers == nil {
		return nil
	}
	return &MemcachedView{SeenBy: l.Replica, Servers: l.Servers.Servers()}
}

// Status judges a snapshot. StoreError is why the store did not answer, or "".
func (l Local) Status(ctx context.Context, p Snapshot, storeError string,
	slowed []SlowedSignIns) Status {
	e := Evidence{Snapshot: p, StoreName: l.StoreName, StoreError: storeError,
		ServedBy: l.ServedBy(ctx), Memcached: l.Memcached(), Rules: l.Rules,
		SlowedSignIns: slowed}
	if l.Databases != nil {
		e.Databases = l.Databases()
	}
	if l.Hold == nil {
		return NewStatus(e)
	}
	return l.Hold.status(e)
}

// LastStatus returns the last status, for a request that could not read the state. Hold must not be
// nil.
func (l Local) LastStatus(ctx context.Context, slowed []SlowedSignIns) Status {
	return l.Hold.last(l.ServedBy(ctx), slowed)
}

// CheckReady returns why the replica cannot start runs, or nil.
func (l Local) CheckReady(ctx context.Context) error {
	if l.Ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return l.Ready(ctx)
}

// ServedBy is the replica that answers, with its local facts.
type ServedBy struct {
	Replica  string `json:"replica"`
	Session  string `json:"session,omitempty"`
	Version  string `json:"version"`
	Ready    bool   `json:"ready"`
	NotReady string `json:"not_ready,omitempty"` // why it can't start runs
}

// Memcached reports the health of the memcached servers. *memcached.Watch implements it.
type Memcached interface {
	// Servers returns the known health of each server, in the configured order. It must be safe for
	// concurrent use and must not block.
	Servers() []memcached.Health
}
