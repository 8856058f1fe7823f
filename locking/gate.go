package locking

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Gate returns true to the first caller with the name within ttl, which is a second to 30 days. If
// it returns false without an error, another caller was the first. An error says that the result is
// unknown. The caller must then continue as if it were the first. So the work behind a gate must
// tolerate two callers.
func (l *Locker) Gate(ctx context.Context, name string, ttl time.Duration) (won bool, err error) {
	g, err := l.newGate(name, ttl)
	if err != nil {
		return false, err
	}
	return g.pass(ctx, g.add(ctx))
}

// GateResult is what Gate returns for one name.
type GateResult struct {
	Won bool
	Err error
}

// Gates is Gate for several names, in as few requests as possible. The results have the order of
// the names.
func (l *Locker) Gates(ctx context.Context, names []string, ttl time.Duration) []GateResult {
	results := make([]GateResult, len(names))
	gates := make([]*gate, len(names)) // nil where there is an error
	items := make([]Item, 0, len(names))
	for i, name := range names {
		if gates[i], results[i].Err = l.newGate(name, ttl); results[i].Err == nil {
			items = append(items, gates[i].item())
		}
	}
	var added []Added
	if len(items) > 0 {
		added = l.backend.AddAll(ctx, items, wholeSeconds(ttl))
	}
	var unsure sync.WaitGroup
	for i, g := range gates {
		if g == nil {
			continue
		}
		err := added[0].Err
		added = added[1:]
		pass := func() { results[i].Won, results[i].Err = g.pass(ctx, err) }
		if err == nil || errors.Is(err, ErrNotStored) {
			pass() // sends no request
		} else {
			unsure.Go(pass)
		}
	}
	unsure.Wait()
	return results
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
// the errors of the others. It does not ask servers whose breaker is open.
func (l *Locker) look(ctx context.Context, keys []string) (map[string][]byte, error) {
	return l.eachServer(keys, func(mine []string) (map[string][]byte, error) {
		if err := l.checkServer(mine[0]); err != nil {
			return nil, err
		}
		values, err := l.backend.Get(ctx, mine...)
		// A caller may give up before the server has replied.
		if err != nil && ctx.Err() == nil {
			l.recordFailure(mine[0], err)
		}
		return values, err
	})
}

// gate is one call of Gate.
type gate struct {
	locker *Locker
	name   string
	key    string
	ttl    time.Duration
	value  string   // of the last add
	mine   []string // values of adds whose replies were lost
}

func (l *Locker) newGate(name string, ttl time.Duration) (*gate, error) {
	if name == "" {
		return nil, fmt.Errorf("%w: a gate needs a name", ErrBadName)
	}
	if err := checkTTL(gateKind, name, ttl); err != nil {
		return nil, err
	}
	name = gateKind + ":" + name
	key := keyOf(l.options.Namespace, name)
	if err := l.checkServer(key); err != nil {
		return nil, fmt.Errorf("gate %s: %w", name, err)
	}
	return &gate{locker: l, name: name, key: key, ttl: wholeSeconds(ttl)}, nil
}

// item returns the gate's key with a new value. The value is only a nonce, because each look of
// another replica reads it.
func (g *gate) item() Item {
	g.value = g.locker.nonces.next()
	return Item{Key: g.key, Value: []byte(g.value), AddOnly: true}
}

// add adds the gate's key with a new value.
func (g *gate) add(ctx context.Context) error {
	it := g.item()
	return g.locker.backend.Add(ctx, it.Key, it.Value, g.ttl)
}

// pass returns the result of Gate after the first add, which ended with this error or nil.
func (g *gate) pass(ctx context.Context, added error) (won bool, err error) {
	defer func() {
		if err != nil && ctx.Err() == nil {
			g.locker.recordFailure(g.key, err)
		}
	}()
	for try := 1; ; try++ {
		var sure bool
		if won, sure, err = g.judge(ctx, added); sure {
			return won, err
		}
		if try == addTries {
			return false, fmt.Errorf("gate %s: %w", g.name, err)
		}
		added = g.add(ctx)
	}
}

// judge returns the result after an add that ended with err. sure is false when neither add nor
// look shows whose the key is.
func (g *gate) judge(ctx context.Context, err error) (won, sure bool, _ error) {
	switch {
	case err == nil:
		return true, true, nil
	case errors.Is(err, ErrNotStored) && len(g.mine) == 0:
		return false, true, nil
	case errors.Is(err, ErrUnclear):
		g.mine = append(g.mine, g.value)
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
