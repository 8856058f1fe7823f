package access

import (
	"sync"
	"time"
)

// maxUsedStates bounds the memory that answers of a provider can use.
const maxUsedStates = 10_000

// usedStates remembers which sign-ins by OpenID Connect were finished at this replica, for as long
// as their cookies are valid. It is safe for concurrent use.
type usedStates struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// use reports whether the state is used for the first time. If there are too many states, it
// forgets the one that expires first.
func (u *usedStates) use(state string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	if now.Before(u.until[state]) {
		return false
	}
	if len(u.until) >= maxUsedStates {
		u.evict(now)
	}
	if u.until == nil {
		u.until = make(map[string]time.Time)
	}
	u.until[state] = now.Add(attemptLifetime + clockMargin)
	return true
}

func (u *usedStates) evict(now time.Time) {
	var first string
	for state, until := range u.until {
		if !now.Before(until) {
			delete(u.until, state)
		} else if first == "" || until.Before(u.until[first]) {
			first = state
		}
	}
	if len(u.until) >= maxUsedStates {
		delete(u.until, first)
	}
}
