package access

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/permission"
)

// sharedInterval bounds the queries for SlowedSignIns.
const sharedInterval = 5 * time.Second

// SlowedSignIns says that the sign-ins of a user are slowed, except those of known browsers.
type SlowedSignIns struct {
	User     string
	Failures int
	Since    time.Duration // since the first failure
}

// sharedAsk is when the store was asked for the counts of all users.
type sharedAsk struct {
	mu   sync.Mutex
	last time.Time
}

// mayAsk reports whether the store was not asked within sharedInterval. If so, it notes that the
// caller asks.
func (a *sharedAsk) mayAsk() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.last) < sharedInterval {
		return false
	}
	a.last = time.Now()
	return true
}

// SlowedSignIns returns the users whose sign-ins are slowed and whom the sender of a request may
// know, ordered by name: all users for who may drain replicas, otherwise the
// sender.
func (g *Guard) SlowedSignIns(ctx context.Context, sender Identity) []SlowedSignIns {
	names := slices.Sorted(maps.Keys(g.rules().accounts.users))
	slowed := g.throttle.slowed(ctx, names)
	everything := permission.Target{Kind: permission.Everything}
	if permission.Require(permission.With(ctx, sender.subject(g.rules().authorizer)),
		permission.Drain, everything) == nil {
		return slowed
	}
	return slices.DeleteFunc(slowed, func(s SlowedSignIns) bool {
		return sender.By != ByPassword || sender.Name != s.User
	})
}

// slowed returns those of the users whose sign-ins are slowed. It asks the store at most once each
// sharedInterval.
func (t *throttle) slowed(ctx context.Context, names []string) (slowed []SlowedSignIns) {
	if len(names) == 0 {
		return nil
	}
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = userKey(name)
	}
	if t.lastAsk.mayAsk() {
		t.own.raise(keys, t.sharedCounts(ctx, keys))
	}
	for i, failures := range t.own.counts(keys) {
		if failures.Count >= maxUserFailures {
			slowed = append(slowed, SlowedSignIns{names[i], failures.Count,
				attemptsWindow - failures.Left})
		}
	}
	return slowed
}
