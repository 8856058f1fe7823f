package engine

import (
	"strings"
	"sync"
	"time"
)

// upcomingStarts lists the next firings of the jobs for pages. It remembers the next start of each
// job, because each page would otherwise compute those of all jobs. It may be used concurrently.
type upcomingStarts struct {
	mu     sync.Mutex
	of     []*entry        // the entries that starts has
	from   time.Time       // of the last list
	starts []upcomingStart // a heap of the first start of each entry after from
}

// upcomingStart is the first start of a job after some time.
type upcomingStart struct {
	start, scheduledAt time.Time
	entry              *entry
}

func (s upcomingStart) before(other upcomingStart) bool {
	if s.start.Equal(other.start) {
		return strings.Compare(s.entry.Name, other.entry.Name) < 0
	}
	return s.start.Before(other.start)
}

// after returns the first firing of each entry that starts after from, the soonest first, at most n
// of them. It leaves out entries of which another version is active.
func (u *upcomingStarts) after(of []*entry, from time.Time, n int) []ScheduledFiring {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(of) != len(u.of) || len(of) > 0 && &of[0] != &u.of[0] || from.Before(u.from) {
		u.of, u.starts = of, u.starts[:0]
		for _, e := range of {
			u.add(e, from)
		}
	}
	u.from = from
	for len(u.starts) > 0 && !u.starts[0].start.After(from) {
		u.add(popHeap(&u.starts).entry, from)
	}
	var firings []ScheduledFiring
	var popped []upcomingStart
	for len(u.starts) > 0 && len(firings) < n {
		next := popHeap(&u.starts)
		popped = append(popped, next)
		if e := next.entry; !e.activeVersion.otherIsActive() {
			firings = append(firings, ScheduledFiring{Job: e.Name,
				ScheduledAt: next.scheduledAt.UTC(), Start: next.start.UTC(),
				Resources: e.Resources})
		}
	}
	for _, next := range popped {
		pushHeap(&u.starts, next)
	}
	return firings
}

// add adds the first start of the entry after from, if there is one.
func (u *upcomingStarts) add(e *entry, from time.Time) {
	if scheduledAt, start := e.Schedule.NextStart(e.Name, from); !scheduledAt.IsZero() {
		pushHeap(&u.starts, upcomingStart{start, scheduledAt, e})
	}
}
