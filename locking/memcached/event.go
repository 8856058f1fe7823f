package memcached

import (
	"time"

	"github.com/rs/zerolog"
)

// EventKind is what happened to a server.
type EventKind string

const (
	EventUnreachable  EventKind = "unreachable"
	EventBack         EventKind = "back"
	EventRestarted    EventKind = "restarted"
	EventFlushed      EventKind = "flushed"
	EventFlushRefused EventKind = "flush_refused"
	EventEvicted      EventKind = "evicted" // items were dropped to make room for others
	// items were dropped while memcached moved memory between slab classes
	EventReassigned  EventKind = "reassigned"
	EventFull        EventKind = "full"        // items were refused because the server was full
	EventConnections EventKind = "connections" // connections were refused: there were too many
	// a setting is rated Unsafe, at the first reading or since a change
	EventUnsafe EventKind = "unsafe"
	// a setting is rated Advice, at the first reading or since a change
	EventAdvice    EventKind = "advice"
	EventCorrected EventKind = "corrected" // a setting that was rated Unsafe or Advice is good now
)

// Event is an event of a server. If a setting is not rated Good at the first reading, this is an
// event. Later, each change of a rating is an event.
type Event struct {
	Kind    EventKind `json:"kind"`
	At      time.Time `json:"at"`              // when it was read, by this machine's clock
	Count   uint64    `json:"count,omitempty"` // how many times since the last such event
	Setting *Setting  `json:"setting,omitempty"`
	Error   string    `json:"error,omitempty"`
}

// eventLines has the log level and message of each kind of event.
var eventLines = map[EventKind]struct {
	level zerolog.Level
	text  string
}{
	EventUnreachable: {zerolog.WarnLevel,
		"memcached can't be reached, going on without it until it can"},
	EventBack: {zerolog.InfoLevel, "memcached answers again"},
	EventRestarted: {zerolog.WarnLevel,
		"memcached restarted, its locks are gone until their holders renew them"},
	EventFlushed: {zerolog.WarnLevel,
		"memcached was flushed, its locks are gone until their holders renew them"},
	EventFlushRefused: {zerolog.InfoLevel, "memcached refused a flush, its locks are unchanged"},
	EventEvicted:      {zerolog.WarnLevel, "memcached evicted items, locks may be among them"},
	EventReassigned: {zerolog.WarnLevel,
		"memcached dropped items while it moved memory, locks may be among them"},
	EventFull:        {zerolog.WarnLevel, "memcached is full and refuses items"},
	EventConnections: {zerolog.WarnLevel, "memcached has too many connections and refuses some"},
	EventUnsafe:      {zerolog.WarnLevel, "memcached setting is unsafe for locks"},
	EventAdvice:      {zerolog.InfoLevel, "memcached setting could be better"},
	EventCorrected:   {zerolog.InfoLevel, "memcached setting corrected"},
}

func (e Event) log(log zerolog.Logger, server string) {
	how := eventLines[e.Kind]
	line := log.WithLevel(how.level).Str("server", server).Str("event", string(e.Kind))
	if e.Count > 0 {
		line = line.Uint64("count", e.Count)
	}
	if s := e.Setting; s != nil {
		line = line.Str("setting", s.Name).Str("value", s.Value)
		if s.Rating != Good {
			line = line.Str("expected", s.Want).Str("mend", s.Mend).Str("why", s.Why)
		}
	}
	if e.Error != "" {
		line = line.Str(zerolog.ErrorFieldName, e.Error)
	}
	line.Msg(how.text)
}
