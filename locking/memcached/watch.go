package memcached

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const defaultEvery = 5 * time.Second

// WatchOptions configure a Watch.
type WatchOptions struct {
	Every time.Duration // interval between readings; 0 means 5 s
	Log   zerolog.Logger
}

// Watch reads the statistics and the settings of a Backend's servers every few seconds. It logs
// each change once. Its methods may be called concurrently.
type Watch struct {
	dialer  *dialer
	timeout time.Duration // of connecting and the reply together
	every   time.Duration
	log     zerolog.Logger

	looking sync.Mutex // held during a reading
	mu      sync.Mutex // guards servers
	servers []*watched
}

// Watch returns a Watch of the backend's servers that has not read them yet.
func (b *Backend) Watch(o WatchOptions) *Watch {
	w := &Watch{dialer: &b.dialer, timeout: 2 * b.timeout, every: o.Every, log: o.Log}
	if w.every <= 0 {
		w.every = defaultEvery
	}
	n := needs{password: b.dialer.user != ""}
	for _, address := range b.servers {
		w.servers = append(w.servers, newWatched(server(address.String()), n))
	}
	return w
}

// Run reads the servers repeatedly until ctx ends, and then returns nil.
func (w *Watch) Run(ctx context.Context) error {
	ticker := time.NewTicker(w.every)
	defer ticker.Stop()
	for {
		w.Look(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Look reads all servers once, concurrently, and logs what is new. Each server has at most twice
// the backend's timeout: for connecting, and for the reply.
func (w *Watch) Look(ctx context.Context) {
	w.looking.Lock()
	defer w.looking.Unlock()
	var all sync.WaitGroup
	for _, s := range w.servers {
		all.Go(func() { w.look(ctx, s) })
	}
	all.Wait()
}

func (w *Watch) look(parent context.Context, s *watched) {
	ctx, cancel := context.WithTimeout(parent, w.timeout)
	defer cancel()
	said, err := w.dialer.read(ctx, s.server)
	if parent.Err() != nil {
		return // the failure need not be the server's
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var news []Event
	if err != nil {
		news = s.fail(time.Now().UTC(), err)
	} else {
		news = s.take(time.Now().UTC(), said)
	}
	for _, e := range news {
		e.log(w.log, s.health.Server)
	}
}

// Servers returns the Health of each server, in the configured order.
func (w *Watch) Servers() []Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]Health, len(w.servers))
	for i, s := range w.servers {
		list[i] = s.health
	}
	return list
}

// Check returns an *UnsafeError if, at the last reading, a server was unsafe or gave an unexpected
// reply. A server that did not reply is not an error.
func (w *Watch) Check() error {
	var bad []Health
	for _, h := range w.Servers() {
		if h.State == StateUnsafe || h.err != nil && !silent(h.err) {
			bad = append(bad, h)
		}
	}
	if len(bad) > 0 {
		return &UnsafeError{Servers: bad}
	}
	return nil
}
