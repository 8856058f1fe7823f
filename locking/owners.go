package locking

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	ownersEvery = 2 * time.Second // between two questions about owners of entries
	// dead sessions that are kept in mind; others are asked about again
	maxDead = 4096
)

// Sessions tells which sessions are alive.
type Sessions interface {
	// Living returns those of the sessions that have neither ended nor expired, by
	// the store's clock, in no order. They are at most MaxGrants. One that is not
	// in the answer never revives.
	Living(ctx context.Context, sessions []uuid.UUID) ([]uuid.UUID, error)
}

// owners knows which sessions are dead, of those whose entries this replica has
// met. An entry of a dead session protects nothing: the session's claims are
// gone, or a sweep takes them back. Without owners it would stand in the way
// until its lease ends, where no row tells of it: its replica was killed between
// an add and the grant, or between the end of the claim and the removal.
//
// Meeting an entry asks nobody. run asks about all sessions that were met, every
// two seconds at most, so that waiting costs the store next to nothing.
type owners struct {
	sessions Sessions      // nil: the end of the lease decides alone
	news     chan struct{} // holds a value when a session was met

	mu   sync.Mutex
	met  map[uuid.UUID]struct{} // since run has last asked
	dead map[uuid.UUID]struct{}
}

func newOwners(sessions Sessions) *owners {
	return &owners{sessions: sessions, news: make(chan struct{}, 1), met: map[uuid.UUID]struct{}{},
		dead: map[uuid.UUID]struct{}{}}
}

// isDead reports whether the session is known to be dead. Otherwise it is asked
// about soon.
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

// run asks about the sessions that were met until ctx ends. Where the store
// does not answer they count as alive.
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
		if !pause(ctx, ownersEvery) {
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
	living, err := o.sessions.Living(ctx, asked)
	if err != nil {
		return err
	}
	lives := make(map[uuid.UUID]bool, len(living))
	for _, session := range living {
		lives[session] = true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.dead)+len(asked) > maxDead {
		clear(o.dead)
	}
	for _, session := range asked {
		if !lives[session] {
			o.dead[session] = struct{}{}
		}
	}
	return nil
}

// take returns the sessions that were met, and forgets them.
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
