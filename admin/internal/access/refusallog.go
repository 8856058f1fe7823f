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

	mu     sync.Mutex
	budget budget
}

// warn returns an event, or nil for a line to leave out. The methods of a nil event do nothing.
func (l *refusalLog) warn() *zerolog.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	allowed, leftOut := l.budget.take(time.Now(), refusalsPerMinute)
	if !allowed {
		return nil
	}
	event := l.log.Warn()
	if leftOut > 0 {
		event = event.Int("left_out", leftOut)
	}
	return event
}
