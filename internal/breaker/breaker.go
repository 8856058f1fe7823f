// Package breaker remembers that somebody could not be asked, so that not all
// who would ask wait for the answer that does not come.
package breaker

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	askAgain = 2 * time.Second  // how long nobody asks after a failure
	logAgain = 10 * time.Second // between two lines that say so
)

// Breaker is one such memory: while it lasts, one in a while asks. The zero
// Breaker is none. It may be used concurrently.
type Breaker struct {
	mu     sync.Mutex
	failed time.Time // when somebody last could not ask
	logged time.Time
}

// Lasts reports whether it is not worth asking now.
func (o *Breaker) Lasts() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.failed.IsZero() && time.Since(o.failed) < askAgain
}

// Servers is an Breaker for each of several servers: who asks one that answers
// does not wait for another. The zero Servers has none. It may be used
// concurrently.
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

// Note takes why there was no answer, and logs it with what that means.
// silent says that nothing could be asked: only that begins an outage, since
// who refuses answers.
func (o *Breaker) Note(log zerolog.Logger, err error, silent bool, meaning string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if silent {
		o.failed = now
	}
	if o.logged.IsZero() || now.Sub(o.logged) > logAgain {
		o.logged = now
		log.Warn().Err(err).Msg(meaning)
	}
}
