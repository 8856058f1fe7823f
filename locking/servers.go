package locking

import (
	"context"
	"errors"
	"fmt"
)

// checkServer returns an error that wraps ErrUnavailable while the breaker of
// the key's server is open. Without Options.Restore nothing else excludes, so
// every caller asks the server.
func (l *Locker) checkServer(key string) error {
	if !l.options.Restore {
		return nil
	}
	server := l.backend.Server(key)
	if !l.breakers.Of(server).Open() {
		return nil
	}
	return fmt.Errorf("%w: %s did not reply within the last seconds", ErrUnavailable, server)
}

// recordFailure records why a request about the key failed. A lost reply may
// concern one connection only, but a full server does reply.
func (l *Locker) recordFailure(key string, err error) {
	if !l.options.Restore {
		return
	}
	message := "advisory locks not available, the store decides alone"
	if l.options.Grants != nil {
		message = "advisory locks not available, the grants decide alone"
	}
	unreachable := errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnclear)
	server := l.backend.Server(key)
	log := l.options.Log.With().Str("server", server).Logger()
	l.breakers.Of(server).Fail(log, err, unreachable, message)
}

// addOne is add for one try. It skips a server whose breaker is open.
func (l *Locker) addOne(ctx context.Context, as content,
	resource Resource) (advisoryLock, error) {
	key := keyOf(l.options.Namespace, resource.Key())
	if err := l.checkServer(key); err != nil {
		return advisoryLock{}, fmt.Errorf("lock of %s: %w", resource, err)
	}
	added, err := l.add(ctx, as, resource)
	if err != nil && !errors.Is(err, ErrHeld) && ctx.Err() == nil {
		l.recordFailure(key, err)
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
