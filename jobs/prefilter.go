package jobs

import (
	"context"
	"time"

	"github.com/google/uuid"
)

const (
	sieveFrom     = 8  // with fewer due firings than this, each asks its own gate at once
	sieveAtOnce   = 32 // firings looked at in one request
	sievePatience = 200 * time.Millisecond
)

// sieve takes out of the front of the queue, which first was taken from, what
// other replicas have begun already, and puts the rest back. Of many firings
// that are due together a replica wins but its share; the others need not take
// a worker and a request each to find out that they are lost. This only looks:
// what is kept asks at its gate all the same.
func (d *dispatcher) sieve(ctx context.Context, first pending) {
	looked := []pending{first}
	for len(looked) < sieveAtOnce {
		p, ok := d.ready.pop()
		if !ok {
			break
		}
		looked = append(looked, p)
	}
	begun := d.begunElsewhere(ctx, looked)
	for _, p := range looked {
		p.hold.giveBack()
		if p.adopted == uuid.Nil && begun[p.firing.gateName(p.entry.activeVersion.version.Load())] {
			continue
		}
		p.looked = true
		d.ready.push(p)
	}
}

// begunElsewhere returns the gates among those of the firings that somebody
// has passed; none where that can't be asked soon.
func (d *dispatcher) begunElsewhere(ctx context.Context, firings []pending) map[string]bool {
	var gates []string
	for _, p := range firings {
		if p.adopted == uuid.Nil {
			gates = append(gates, p.firing.gateName(p.entry.activeVersion.version.Load()))
		}
	}
	bounded, cancel := context.WithTimeout(ctx, sievePatience)
	defer cancel()
	begun, err := d.locker.Passed(bounded, gates)
	if err != nil && ctx.Err() == nil {
		d.log.Debug().Err(err).Int("firings", len(gates)).Msg("gates not looked at")
	}
	return begun
}

// worthSieving reports whether to look at p and those behind it first.
func (d *dispatcher) worthSieving(p pending) bool {
	return !p.looked && d.locker != nil && d.ready.len() >= sieveFrom
}
