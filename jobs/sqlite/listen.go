package sqlite

import (
	"context"
	"sync"
)

// listeners are the listeners of this process. They may be used concurrently.
type listeners struct {
	mu  sync.Mutex
	all map[*func()]bool
}

func newListeners() listeners { return listeners{all: map[*func()]bool{}} }

// notify calls all listeners.
func (l *listeners) notify() {
	l.mu.Lock()
	var all []func()
	for heard := range l.all {
		all = append(all, *heard)
	}
	l.mu.Unlock()
	for _, heard := range all {
		heard()
	}
}

// Listen implements storage.Control. It sees only actions of this process. ControlState shows those
// of other processes, such as the command line.
func (s *Store) Listen(ctx context.Context, notify func()) error {
	s.listeners.mu.Lock()
	s.listeners.all[&notify] = true
	s.listeners.mu.Unlock()
	defer func() {
		s.listeners.mu.Lock()
		defer s.listeners.mu.Unlock()
		delete(s.listeners.all, &notify)
	}()
	notify()
	select {
	case <-ctx.Done():
		return wrap("notifications", context.Cause(ctx))
	case <-s.closed:
		return wrap("notifications", errClosed)
	}
}
