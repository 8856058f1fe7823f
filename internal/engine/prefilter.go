package engine

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/locking"
)

const (
	prefilterMin     = 8  // with fewer due firings, each asks its own gate at once
	prefilterBatch   = 32 // firings checked in one request
	prefilterTimeout = 200 * time.Millisecond
	// prefilterAfter is how long a ranked firing must have been queued to be checked.
	prefilterAfter = 2 * secondAfter
)

// prefilter removes queued firings that other replicas have begun. If many firings are due
// together, a replica wins only some of them. The others need not take a worker and a request each.
// The check only reads: a firing that stays still has to pass its gate.
type prefilter struct {
	locker  *locking.Locker // nil without memcached
	ready   *ready
	lookout *lookout
	log     zerolog.Logger
}

// drop removes such firings from the front of the queue. first was taken from the queue; drop puts
// it and the other firings back.
func (d prefilter) drop(ctx context.Context, first pending) {
	looked := append(make([]pending, 0, min(prefilterBatch, d.ready.len()+1)), first)
	for len(looked) < prefilterBatch {
		p, ok := d.ready.pop()
		if !ok {
			break
		}
		looked = append(looked, p)
	}
	begun := d.begunElsewhere(ctx, looked)
	for _, p := range looked {
		p.slots.giveBack()
		if p.adopted == uuid.Nil && begun[p.gateName()] {
			d.lookout.noteBegun(p.burst, p.ScheduledAt, p.entry)
			continue
		}
		p.looked = true
		d.ready.push(p)
	}
}

// begunElsewhere returns those gates of the firings that a replica has passed; none if memcached
// does not answer soon.
func (d prefilter) begunElsewhere(ctx context.Context, firings []pending) map[string]bool {
	gates := make([]string, 0, len(firings))
	for _, p := range firings {
		if p.adopted == uuid.Nil {
			gates = append(gates, p.gateName())
		}
	}
	bounded, cancel := context.WithTimeout(ctx, prefilterTimeout)
	defer cancel()
	begun, err := d.locker.Passed(bounded, gates)
	if err != nil && ctx.Err() == nil {
		d.log.Debug().Err(err).Int("firings", len(gates)).Msg("check gates failed")
	}
	return begun
}

// isWorthwhile reports whether to check p and the firings behind it first. While a firing of a
// ranked replica is new in the queue, no other replica has begun it.
func (d prefilter) isWorthwhile(p pending, now time.Time) bool {
	if p.looked || d.locker == nil || d.ready.len() < prefilterMin {
		return false
	}
	return p.adopted != uuid.Nil || p.rank == unranked || now.Sub(p.since) >= prefilterAfter
}
