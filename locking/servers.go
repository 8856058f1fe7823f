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

// addChecked is addEach without the resources on servers whose breaker is open. It records the
// failures of the others.
func (l *Locker) addChecked(ctx context.Context, as content, resources []Resource) []addition {
	results := make([]addition, len(resources))
	var asked []int
	var some []Resource
	for i, resource := range resources {
		if err := l.checkServer(keyOf(l.options.Namespace, resource.Key())); err != nil {
			results[i].err = fmt.Errorf("lock of %s: %w", resource, err)
			continue
		}
		asked, some = append(asked, i), append(some, resource)
	}
	if len(some) == 0 {
		return results
	}
	for n, a := range l.addEach(ctx, as, some) {
		results[asked[n]] = a
		if a.err != nil && !errors.Is(a.err, ErrHeld) && ctx.Err() == nil {
			l.recordFailure(keyOf(l.options.Namespace, a.resource.Key()), a.err)
		}
	}
	return results
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
