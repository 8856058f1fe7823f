// Package outage remembers that somebody could not be asked, so that not all
// who would ask wait for the answer that does not come.
package outage

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	askAgain = 2 * time.Second  // how long nobody asks after a failure
	logAgain = 10 * time.Second // between two lines that say so
)

// Outage is one such memory: while it lasts, one in a while asks. The zero
// Outage is none. It may be used concurrently.
type Outage struct {
	mu     sync.Mutex
	failed time.Time // when somebody last could not ask
	logged time.Time
}

// Lasts reports whether it is not worth asking now.
func (o *Outage) Lasts() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.failed.IsZero() && time.Since(o.failed) < askAgain
}

// Servers is an Outage for each of several servers: who asks one that answers
// does not wait for another. The zero Servers has none. It may be used
// concurrently.
type Servers struct {
	mu  sync.Mutex
	all map[string]*Outage
}

// Of returns the server's Outage.
func (s *Servers) Of(server string) *Outage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]*Outage{}
	}
	if s.all[server] == nil {
		s.all[server] = &Outage{}
	}
	return s.all[server]
}

// Note takes why there was no answer, and logs it with what that means.
// silent says that nothing could be asked: only that begins an outage, since
// who refuses answers.
func (o *Outage) Note(log zerolog.Logger, err error, silent bool, meaning string) {
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
