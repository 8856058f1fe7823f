package storage

import (
	"time"

	"github.com/google/uuid"
)

// ReplicaSessionsKept is how long the times of a replica's session are known after its end.
const ReplicaSessionsKept = 24 * time.Hour

// MaxDrains is the number of drains of a session that a store records.
const MaxDrains = 32

// ReplicaSession is the times of a session of a replica.
type ReplicaSession struct {
	Session   uuid.UUID  `json:"session"`
	Name      string     `json:"replica"`
	Version   string     `json:"version"`
	StartedAt time.Time  `json:"started_at"`
	ExpiresAt time.Time  `json:"expires_at"` // of an ended session: when it ended or expired
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	// Stopped says that the replica ended the session itself and left no claims. Other ended
	// sessions expired.
	Stopped bool    `json:"stopped"`
	Drains  []Drain `json:"drains"` // the oldest first, at most MaxDrains
}

// Drain is a time in which a replica was draining.
type Drain struct {
	From  time.Time  `json:"from"`
	Until *time.Time `json:"until,omitempty"` // nil: it lasted to the end of the session
}

// NewDrains returns the drains with the times of beginnings and ends in turn. Stores use it.
func NewDrains(times []time.Time) []Drain {
	drains := make([]Drain, 0, (len(times)+1)/2) // never null
	for i, at := range times {
		at = at.UTC()
		if i%2 == 0 {
			drains = append(drains, Drain{From: at})
		} else {
			drains[len(drains)-1].Until = &at
		}
	}
	return drains
}
