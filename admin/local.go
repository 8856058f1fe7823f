package admin

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/locking/memcached"
)

// readyTimeout bounds the question whether the replica is ready.
const readyTimeout = 3 * time.Second

// clusterLocal is what only the replica that answers knows.
type clusterLocal struct {
	replica, version string
	session          func() uuid.UUID                // nil, or zero: there is none
	ready            func(ctx context.Context) error // nil: always ready
	servers          Memcached                       // nil: there is no memcached
}

// servedBy returns the facts of the replica.
func (l clusterLocal) servedBy(ctx context.Context) ServedBy {
	by := ServedBy{Replica: l.replica, Version: l.version, Ready: true}
	if l.session != nil {
		if id := l.session(); id != [16]byte{} {
			by.Session = id.String()
		}
	}
	if err := l.checkReady(ctx); err != nil {
		by.Ready, by.NotReady = false, words.OneLine(err.Error(), 300)
	}
	return by
}

// memcached returns this replica's view, or nil without memcached.
func (l clusterLocal) memcached() *MemcachedView {
	if l.servers == nil {
		return nil
	}
	return &MemcachedView{SeenBy: l.replica, Servers: l.servers.Servers()}
}

// checkReady returns why the replica cannot start runs, or nil.
func (l clusterLocal) checkReady(ctx context.Context) error {
	if l.ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return l.ready(ctx)
}

// ServedBy is the replica that answers, with its local facts.
type ServedBy struct {
	Replica  string `json:"replica"`
	Session  string `json:"session,omitempty"`
	Version  string `json:"version"`
	Ready    bool   `json:"ready"`
	NotReady string `json:"not_ready,omitempty"` // why it can't start runs
}

// MemcachedView is the memcached servers as one replica sees them. Another replica may reach a
// server that this one does not.
type MemcachedView struct {
	SeenBy  string             `json:"seen_by"`
	Servers []memcached.Health `json:"servers"` // in the configured order
}

// unreachable reports whether any server does not answer.
func (v *MemcachedView) unreachable() bool {
	return v != nil && slices.ContainsFunc(v.Servers, func(h memcached.Health) bool {
		return h.State == memcached.StateUnreachable
	})
}

// Memcached reports the health of the memcached servers. *memcached.Watch implements it.
type Memcached interface {
	// Servers returns the known health of each server, in the configured order. It must be safe for
	// concurrent use and must not block.
	Servers() []memcached.Health
}
