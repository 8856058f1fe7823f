package engine

import (
	"bytes"
	"time"

	"github.com/google/uuid"
)

// position is that of a firing among those that wait for the same resource. The store has the
// same order.
type position struct {
	since time.Time
	run   uuid.UUID
}

// position returns the position of the firing. An adopted run keeps its position from before its
// adoption. A further attempt has its position since the end of the last one. A run of a backfill
// comes after all others.
func (f *firing) position() position {
	p := position{since: f.since, run: f.run}
	switch {
	case !f.requeued.IsZero():
		p.since = f.requeued
	case !f.queued.IsZero():
		p.since = f.queued
	}
	if f.runOfBackfill() {
		p.since = p.since.AddDate(100, 0, 0)
	}
	return p
}

// before reports whether p comes before the other position.
func (p position) before(other position) bool {
	if !p.since.Equal(other.since) {
		return p.since.Before(other.since)
	}
	return bytes.Compare(p.run[:], other.run[:]) < 0
}
