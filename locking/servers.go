package locking

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
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

// addChecked is addRecorded without the advisory locks on servers whose breaker is open.
func (l *Locker) addChecked(ctx context.Context, as content, wanted []advisoryLock) []addition {
	results := make([]addition, len(wanted))
	var asked []int
	var some []advisoryLock
	for i, w := range wanted {
		if err := l.checkServer(w.key); err != nil {
			results[i] = addition{w, fmt.Errorf("lock of %s: %w", w.resource, err)}
			continue
		}
		asked, some = append(asked, i), append(some, w)
	}
	for n, a := range l.addRecorded(ctx, as, some) {
		results[asked[n]] = a
	}
	return results
}

// addRecorded is addEach, and records failures of the servers.
func (l *Locker) addRecorded(ctx context.Context, as content, wanted []advisoryLock) []addition {
	results := l.addEach(ctx, as, wanted)
	l.recordFailures(ctx, results)
	return results
}

// recordFailures records the failures of the servers that the additions met.
func (l *Locker) recordFailures(ctx context.Context, additions []addition) {
	for _, a := range additions {
		if a.err != nil && !errors.Is(a.err, ErrHeld) && ctx.Err() == nil {
			l.recordFailure(a.key, a.err)
		}
	}
}

// eachServer calls get with the keys of each server, at the same time. It returns all values and
// all errors.
func (l *Locker) eachServer(keys []string,
	get func(mine []string) (map[string][]byte, error)) (map[string][]byte, error) {
	servers := l.byServer(keys)
	if len(servers) == 1 {
		return get(keys)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	found := make(map[string][]byte, len(keys))
	var problems []error
	for _, mine := range servers {
		all.Go(func() {
			values, err := get(mine)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(found, values)
			problems = append(problems, err)
		})
	}
	all.Wait()
	return found, errors.Join(problems...)
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
