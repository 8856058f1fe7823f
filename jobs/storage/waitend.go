package storage

import "time"

// WaitEnd says when a waiting run stops waiting for its blocker, by the policies of its job.
type WaitEnd struct {
	At time.Time `json:"at,omitzero"` // absent: the wait has no limit
	// the next firing of the job takes the place of the run at this time
	Next bool `json:"next_firing"`
	// the jitter and the duration of the tries can move the time
	Estimated bool `json:"estimated"`
}
