package locking

import (
	"context"
	"errors"
	"fmt"
)

// silent returns an error that wraps ErrUnavailable while it is not worth asking
// the key's server: it did not answer a moment ago. The keys of other servers are
// asked about all the same. Where no second stage decides, everybody asks.
func (l *Locker) silent(key string) error {
	if !l.options.Restore {
		return nil
	}
	server := l.backend.Server(key)
	if !l.outages.Of(server).Lasts() {
		return nil
	}
	return fmt.Errorf("%w: %s did not answer a moment ago", ErrUnavailable, server)
}

// unheard notes why a key's server could not be asked. A lost reply may be one
// connection's, but whoever is full answers.
func (l *Locker) unheard(key string, err error) {
	if !l.options.Restore {
		return
	}
	meaning := "locks can't be asked, the store decides alone"
	if l.options.Grants != nil {
		meaning = "lock entries can't be kept, the grants decide alone"
	}
	silent := errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnclear)
	server := l.backend.Server(key)
	l.outages.Of(server).Note(l.options.Log.With().Str("server", server).Logger(), err, silent,
		meaning)
}

// addOne is add for a try, which asks no server that did not answer a moment ago.
func (l *Locker) addOne(ctx context.Context, as content, resource Resource) (entry, error) {
	key := keyOf(l.options.Namespace, resource.Key())
	if err := l.silent(key); err != nil {
		return entry{}, fmt.Errorf("lock of %s: %w", resource, err)
	}
	added, err := l.add(ctx, as, resource)
	if err != nil && !errors.Is(err, ErrHeld) && ctx.Err() == nil {
		l.unheard(key, err)
	}
	return added, err
}

// byServer returns the keys of each server.
func (l *Locker) byServer(keys []string) map[string][]string {
	of := map[string][]string{}
	for _, key := range keys {
		server := l.backend.Server(key)
		of[server] = append(of[server], key)
	}
	return of
}
