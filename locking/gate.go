package locking

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Gate returns true to the first caller with the name within ttl, which is a second to 30 days. If
// it returns false without an error, another caller was the first. An error says that the result is
// unknown. The caller must then continue as if it were the first. So the work behind a gate must
// tolerate two callers.
func (l *Locker) Gate(ctx context.Context, name string, ttl time.Duration) (won bool, err error) {
	if name == "" {
		return false, fmt.Errorf("%w: a gate needs a name", ErrBadName)
	}
	if err := checkTTL(gateKind, name, ttl); err != nil {
		return false, err
	}
	name = gateKind + ":" + name
	key := keyOf(l.options.Namespace, name)
	if err := l.checkServer(key); err != nil {
		return false, fmt.Errorf("gate %s: %w", name, err)
	}
	defer func() {
		if err != nil && ctx.Err() == nil {
			l.recordFailure(key, err)
		}
	}()
	g := gate{locker: l, name: name, key: key, ttl: wholeSeconds(ttl)}
	for range addTries {
		var sure bool
		if won, sure, err = g.try(ctx); sure {
			return won, err
		}
	}
	return false, fmt.Errorf("gate %s: %w", name, err)
}

// Passed returns the names whose gate a caller has passed. It leaves out the names of servers that
// do not reply, and returns their errors.
func (l *Locker) Passed(ctx context.Context, names []string) (map[string]bool, error) {
	return l.existing(ctx, gateKind, names)
}

// existing returns the names of the kind whose keys exist. It leaves out the names of servers that
// do not reply, and returns their errors.
func (l *Locker) existing(ctx context.Context, kind string,
	names []string) (map[string]bool, error) {
	if len(names) == 0 {
		return nil, nil
	}
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = keyOf(l.options.Namespace, kind+":"+name)
	}
	found, err := l.look(ctx, keys)
	if err != nil {
		err = fmt.Errorf("look at %d %ss: %w", len(names), kind, err)
	}
	exist := make(map[string]bool, len(found))
	for i, name := range names {
		if _, exists := found[keys[i]]; exists {
			exist[name] = true
		}
	}
	return exist, err
}

// look returns the values of those keys that exist, from the servers that reply, and
// the errors of the others.
func (l *Locker) look(ctx context.Context, keys []string) (map[string][]byte, error) {
	var found map[string][]byte
	var problems []error
	for _, mine := range l.byServer(keys) {
		if err := l.checkServer(mine[0]); err != nil {
			problems = append(problems, err)
			continue
		}
		values, err := l.backend.Get(ctx, mine...)
		if err != nil {
			problems = append(problems, err)
			// A caller with little patience may give up before the server has replied.
			if ctx.Err() == nil {
				l.recordFailure(mine[0], err)
			}
			continue
		}
		if found == nil {
			found = values
		} else {
			maps.Copy(found, values)
		}
	}
	return found, errors.Join(problems...)
}

// gate is one call of Gate.
type gate struct {
	locker *Locker
	name   string
	key    string
	ttl    time.Duration
	mine   []string // values of adds whose replies were lost
}

// try adds the gate's key. sure is false when neither add nor look shows whose the
// key is.
func (g *gate) try(ctx context.Context) (won, sure bool, err error) {
	// The value is only a nonce, because each look of another replica reads it.
	value := g.locker.nonces.next()
	err = g.locker.backend.Add(ctx, g.key, []byte(value), g.ttl)
	switch {
	case err == nil:
		return true, true, nil
	case errors.Is(err, ErrNotStored) && len(g.mine) == 0:
		return false, true, nil
	case errors.Is(err, ErrUnclear):
		g.mine = append(g.mine, value)
	case !errors.Is(err, ErrNotStored):
		return false, true, err
	}
	return g.look(ctx, err)
}

// look reads whose key it is after a lost reply.
func (g *gate) look(ctx context.Context, addErr error) (won, sure bool, err error) {
	found, err := g.locker.backend.Get(ctx, g.key)
	if err != nil {
		return false, true, fmt.Errorf("%w; %w", addErr, err)
	}
	value, exists := found[g.key]
	if !exists {
		return false, false, addErr
	}
	return slices.Contains(g.mine, string(value)), true, nil
}
