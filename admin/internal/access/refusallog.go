package access

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// refusalsPerMinute bounds the log lines that refused clients can cause.
const refusalsPerMinute = 60

// refusalLog writes at most refusalsPerMinute lines a minute. The first line of the next minute has
// the number of lines that were left out. It is safe for concurrent use.
type refusalLog struct {
	log zerolog.Logger

	mu      sync.Mutex
	begun   time.Time // the current minute
	written int
	leftOut int
}

// warn returns an event, or nil for a line to leave out. The methods of a nil event do nothing.
func (l *refusalLog) warn() *zerolog.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.begun) >= time.Minute {
		l.begun, l.written = now, 0
	}
	if l.written >= refusalsPerMinute {
		l.leftOut++
		return nil
	}
	l.written++
	event := l.log.Warn()
	if l.leftOut > 0 {
		event = event.Int("left_out", l.leftOut)
		l.leftOut = 0
	}
	return event
}
