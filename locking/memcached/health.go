package memcached

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// State says in a word how a server is.
type State string

// The states.
const (
	StateUnknown     State = "unknown"     // not asked yet
	StateSafe        State = "safe"        // it answers, and its settings are safe for locks
	StateUnsafe      State = "unsafe"      // it answers, and at least one of its settings is not
	StateUnreachable State = "unreachable" // it does not answer, or not as it should
)

// Health is what a Watch knows of one server. Times are this machine's, but
// for StartedAt.
type Health struct {
	Server string    `json:"server"` // as configured
	State  State     `json:"state"`
	Since  time.Time `json:"since,omitzero"`    // when it began, or ceased, to answer
	Asked  time.Time `json:"asked_at,omitzero"` // when it was asked last
	Error  string    `json:"error,omitempty"`   // why it is unreachable

	// What follows is as of the last answer.
	Version   string    `json:"version,omitempty"`
	StartedAt time.Time `json:"started_at,omitzero"` // by the server's clock
	Usage     Usage     `json:"usage"`
	Counts    Counts    `json:"counts"` // by the server, since it started
	Settings  []Setting `json:"settings"`

	Seen   Seen    `json:"seen"`
	Events []Event `json:"events"` // the last ten, the youngest first

	err error // behind Error
}

// Usage is how much of a server is in use.
type Usage struct {
	Connections int64 `json:"connections"`
	Items       int64 `json:"items"`
	Bytes       int64 `json:"bytes"`
	LimitBytes  int64 `json:"limit_bytes"`
}

// Counts are what a server has counted since it started or was told to begin
// anew.
type Counts struct {
	Flushes   uint64 `json:"flushes"` // also those that -F refused
	Evictions uint64 `json:"evictions"`
	// entries dropped while memory was moved between sizes
	SlabEvictions      uint64 `json:"slab_evictions"`
	OutOfMemory        uint64 `json:"out_of_memory"` // entries that it had no room for
	RefusedConnections uint64 `json:"refused_connections"`
}

// Seen is what has happened while the Watch looked. It only grows, so that it
// can be exported as counters.
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

// Complaints returns the settings with the verdict.
func (h Health) Complaints(v Verdict) []Setting {
	return slices.DeleteFunc(slices.Clone(h.Settings), func(s Setting) bool {
		return s.Verdict != v
	})
}

// UnsafeError says that servers are not fit to keep locks: their settings are
// unsafe, or they answer in a way that leaves them unknown.
type UnsafeError struct {
	Servers []Health
}

// Error names each server, setting, value and what mends it.
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
