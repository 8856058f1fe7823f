package locking

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/sleep"
)

const (
	ownersEvery = 2 * time.Second // between two requests about sessions
	// Limit of the dead sessions in memory. Others are asked about again.
	maxDead = 4096
)

// Sessions reports which sessions are alive.
type Sessions interface {
	// LiveSessions returns those of the given sessions that have neither ended nor expired, by the
	// store's clock. Sessions that it leaves out never revive. At most MaxGrants sessions may be
	// given.
	LiveSessions(ctx context.Context, sessions []uuid.UUID) ([]uuid.UUID, error)
}

// owners caches which sessions are dead, of those whose advisory locks this replica
// has met. An advisory lock of a dead session protects nothing: its claims are gone,
// or a sweep releases them. A replica that is killed between an add and the grant
// leaves such a lock without any row. Without owners it would block until its lease
// ends.
//
// Meeting an advisory lock sends no request. run asks about all met sessions
// together, every two seconds at most, so that waiting costs the store little.
type owners struct {
	sessions Sessions      // nil: advisory locks of dead sessions block until their lease ends
	news     chan struct{} // holds a value after a session was met

	mu   sync.Mutex
	met  map[uuid.UUID]struct{} // since the last request of run
	dead map[uuid.UUID]struct{}
}

func newOwners(sessions Sessions) *owners {
	return &owners{sessions: sessions, news: make(chan struct{}, 1), met: map[uuid.UUID]struct{}{},
		dead: map[uuid.UUID]struct{}{}}
}

// isDead reports whether the session is known to be dead. Otherwise run asks about
// it soon.
func (o *owners) isDead(session uuid.UUID) bool {
	if o.sessions == nil || session == uuid.Nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, dead := o.dead[session]; dead {
		return true
	}
	if len(o.met) < MaxGrants {
		o.met[session] = struct{}{}
	}
	select {
	case o.news <- struct{}{}:
	default:
	}
	return false
}

// run asks about the met sessions until ctx ends. While the store does not reply
// they count as alive.
func (o *owners) run(ctx context.Context, failed func(error)) {
	for {
		select {
		case <-o.news:
		case <-ctx.Done():
			return
		}
		if err := o.ask(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
		if sleep.For(ctx, ownersEvery) != nil {
			return
		}
	}
}

func (o *owners) ask(ctx context.Context) error {
	asked := o.take()
	if len(asked) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	live, err := o.sessions.LiveSessions(ctx, asked)
	if err != nil {
		return err
	}
	alive := make(map[uuid.UUID]bool, len(live))
	for _, session := range live {
		alive[session] = true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.dead)+len(asked) > maxDead {
		clear(o.dead)
	}
	for _, session := range asked {
		if !alive[session] {
			o.dead[session] = struct{}{}
		}
	}
	return nil
}

// take returns the met sessions and clears them.
func (o *owners) take() []uuid.UUID {
	o.mu.Lock()
	defer o.mu.Unlock()
	asked := make([]uuid.UUID, 0, len(o.met))
	for session := range o.met {
		asked = append(asked, session)
	}
	clear(o.met)
	return asked
}
