package memcached

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// State is the condition of a server.
type State string

const (
	StateUnknown     State = "unknown"     // not read yet
	StateSafe        State = "safe"        // replies, and its settings are safe for locks
	StateUnsafe      State = "unsafe"      // replies, and at least one setting is unsafe
	StateUnreachable State = "unreachable" // does not reply, or replies unexpectedly
)

// Health is what a Watch knows of one server. All times except StartedAt are this machine's.
type Health struct {
	Server string    `json:"server"` // as configured
	State  State     `json:"state"`
	Since  time.Time `json:"since,omitzero"`   // when it began to reply, or stopped
	ReadAt time.Time `json:"read_at,omitzero"` // when it was last read
	Error  string    `json:"error,omitempty"`  // the reason if it is unreachable

	// As of the last reply:
	Version   string    `json:"version,omitempty"`
	StartedAt time.Time `json:"started_at,omitzero"` // by the server's clock
	Usage     Usage     `json:"usage"`
	Counts    Counts    `json:"counts"` // by the server, since its start
	Settings  []Setting `json:"settings"`

	Seen   Seen    `json:"seen"`
	Events []Event `json:"events"` // the last ten, the youngest first

	err error // the error that Error shows
}

// Usage is the use of a server's memory and connections.
type Usage struct {
	Connections int64 `json:"connections"`
	Items       int64 `json:"items"`
	Bytes       int64 `json:"bytes"`
	LimitBytes  int64 `json:"limit_bytes"`
}

// Counts are the server's counters since its start or reset.
type Counts struct {
	Flushes   uint64 `json:"flushes"` // including those that -F refused
	Evictions uint64 `json:"evictions"`
	// Items dropped while memory was moved between slab classes.
	SlabEvictions      uint64 `json:"slab_evictions"`
	OutOfMemory        uint64 `json:"out_of_memory"` // items refused because the server was full
	RefusedConnections uint64 `json:"refused_connections"`
}

// Seen counts what happened while the Watch ran. It only grows.
type Seen struct {
	Outages            uint64 `json:"outages"`
	Restarts           uint64 `json:"restarts"`
	Flushes            uint64 `json:"flushes"`
	RefusedFlushes     uint64 `json:"refused_flushes"`
	Evictions          uint64 `json:"evictions"`
	SlabEvictions      uint64 `json:"slab_evictions"`
	OutOfMemory        uint64 `json:"out_of_memory"`
	RefusedConnections uint64 `json:"refused_connections"`
}

// Complaints returns the settings with the rating.
func (h Health) Complaints(v Rating) []Setting {
	return slices.DeleteFunc(slices.Clone(h.Settings), func(s Setting) bool {
		return s.Rating != v
	})
}

// UnsafeError says that servers are unfit for locks: their settings are unsafe, or unknown because
// of an unexpected reply.
type UnsafeError struct {
	Servers []Health
}

// Error returns each server, setting and value, and how to correct it.
func (e *UnsafeError) Error() string {
	var parts []string
	for _, h := range e.Servers {
		if h.err != nil {
			parts = append(parts, h.Error)
			continue
		}
		var settings []string
		for _, s := range h.Complaints(Unsafe) {
			settings = append(settings, s.String())
		}
		parts = append(parts, fmt.Sprintf("memcached %s: %s", h.Server,
			strings.Join(settings, "; ")))
	}
	return "not safe for locks: " + strings.Join(parts, ". ")
}
