// Package breaker lets callers skip a server that recently did not reply, so
// that they do not all wait for the same timeout.
package breaker

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	retryAfter = 2 * time.Second  // a breaker is open for that long after a failure
	logEvery   = 10 * time.Second // at most one log line a breaker in that time
)

// Breaker is open for a short time after a failure. The zero Breaker is
// closed. It may be used concurrently.
type Breaker struct {
	mu     sync.Mutex
	failed time.Time // the last failure to reach the server
	logged time.Time
}

// Open reports whether a request is likely to fail, so that callers should skip it.
func (b *Breaker) Open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.failed.IsZero() && time.Since(b.failed) < retryAfter
}

// Servers holds a Breaker for each of several servers. The zero Servers holds
// none. It may be used concurrently.
type Servers struct {
	mu  sync.Mutex
	all map[string]*Breaker
}

// Of returns the server's Breaker.
func (s *Servers) Of(server string) *Breaker {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]*Breaker{}
	}
	if s.all[server] == nil {
		s.all[server] = &Breaker{}
	}
	return s.all[server]
}

// Fail records a failure and logs err with message, at most once in ten
// seconds. unreachable says that the server did not reply. Only that opens the
// breaker: a server that refuses a request has replied.
func (b *Breaker) Fail(log zerolog.Logger, err error, unreachable bool, message string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if unreachable {
		b.failed = now
	}
	if b.logged.IsZero() || now.Sub(b.logged) > logEvery {
		b.logged = now
		log.Warn().Err(err).Msg(message)
	}
}
