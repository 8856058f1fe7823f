package memcached

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const defaultEvery = 5 * time.Second

// WatchOptions say how servers are watched.
type WatchOptions struct {
	Every time.Duration // between two looks; 0 means 5 s
	Log   zerolog.Logger
}

// Watch asks a Backend's servers, every few seconds, for what locks depend on:
// whether they answer, restarted, were flushed or dropped entries, and how they
// are set up. Each change is logged once. Its methods may be called
// concurrently.
type Watch struct {
	dialer  *dialer
	timeout time.Duration // of connecting and the answer together
	every   time.Duration
	log     zerolog.Logger

	looking sync.Mutex // one look at a time
	mu      sync.Mutex // guards what servers have seen
	servers []*watched
}

// Watch returns a Watch of the backend's servers, which has not looked yet.
func (b *Backend) Watch(o WatchOptions) *Watch {
	w := &Watch{dialer: &b.pool.dialer, timeout: 2 * b.pool.timeout, every: o.Every, log: o.Log}
	if w.every <= 0 {
		w.every = defaultEvery
	}
	n := needs{connections: int64(cap(b.pool.places)) + 1, password: b.pool.dialer.user != ""}
	for _, address := range b.pool.servers {
		w.servers = append(w.servers, newWatched(server(address.String()), n))
	}
	return w
}

// Run looks again and again until ctx ends, and then returns nil.
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

// Look asks all servers once, at the same time, each for at most twice the
// backend's timeout (connecting and the answer), and logs what is new.
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
		return // whatever failed, it need not be the server
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

// Servers returns what is known of each server, in the configured order.
func (w *Watch) Servers() []Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]Health, len(w.servers))
	for i, s := range w.servers {
		list[i] = s.health
	}
	return list
}

// Check returns an *UnsafeError if at the last look a server was unsafe, or
// answered in a way that leaves its settings unknown. One that did not answer
// is no reason.
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
