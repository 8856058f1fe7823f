package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// firstTry is the first try of a firing to pass its gate and to take its advisory locks. Firings
// that begin at the same time share its requests.
type firstTry struct {
	gone  bool // another replica has passed the gate
	tried bool // the locks were tried, and take has not returned the result yet
	lock  *locking.Lock
	found *refusal
}

// take returns the result of the try for the locks, once.
func (t *firstTry) take() (*locking.Lock, *refusal) {
	lock, found := t.lock, t.found
	*t = firstTry{}
	return lock, found
}

// tryTogether makes the first tries of firings that begin at the same time, in the same session. It
// does not try to lock for firings that are known to be blocked. It calls tried once for each
// firing, as soon as its first try has ended. A firing that another one has refused waits until all
// tries have ended. The calls of tried may be concurrent.
func (l advisoryLocks) tryTogether(ctx context.Context, all []*firing, tried func(*firing)) {
	if l.locker != nil {
		l.passGates(ctx, all)
	}
	trying := make([]*firing, 0, len(all))
	wanted := make([]locking.Wanted, 0, len(all))
	for _, f := range all {
		f.burst = nil // a long run would keep all its firings in memory
		if l.locker == nil || f.first.gone || l.unavailable(f) != nil || l.known(f, nil) != nil {
			tried(f)
			continue
		}
		trying = append(trying, f)
		wanted = append(wanted, locking.Wanted{Owner: l.owner(f), Requests: f.entry.requests})
	}
	if len(trying) == 0 {
		return
	}
	sent := time.Now()
	settle := func(i int, lock *locking.Lock, err error) {
		f := trying[i]
		f.asked, f.first.tried = sent, true
		f.first.lock, f.first.found = l.result(f, nil, lock, err, sent)
		f.spans.locked(sent, f.first.found)
		tried(f)
	}
	joint := jointTry{all: trying}
	l.locker.TryAcquireEachIn(ctx, trying[0].session.ID, wanted,
		func(i int, lock *locking.Lock, err error) {
			if !joint.refuse(i, err) {
				settle(i, lock, err)
			}
		})
	for i, err := range joint.refused {
		if joint.holds(err) {
			settle(i, nil, err)
		} else {
			tried(trying[i])
		}
	}
}

// jointTry is a try of several firings to lock. One of them may be refused by another one that
// wants more names and then gets no lock either. The refused firing then tries again alone. A
// jointTry may be used concurrently.
type jointTry struct {
	all     []*firing
	mu      sync.Mutex
	failed  map[string]bool            // the runs that got no lock
	runs    map[string]bool            // of all; nil until a try has failed
	refused map[int]*locking.HeldError // by the index of the firing, which another one has refused
}

// refuse notes the result of a firing, and reports whether another one of them has refused it.
func (t *jointTry) refuse(i int, err error) bool {
	if err == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runs == nil {
		t.runs, t.failed = make(map[string]bool, len(t.all)), map[string]bool{}
		t.refused = map[int]*locking.HeldError{}
		for _, f := range t.all {
			t.runs[f.run.String()] = true
		}
	}
	t.failed[t.all[i].run.String()] = true
	var held *locking.HeldError
	if !errors.As(err, &held) || !t.runs[held.Holder.Run] {
		return false
	}
	t.refused[i] = held
	return true
}

// holds reports whether the firing that refused another one has its locks. It is valid when all
// results are known.
func (t *jointTry) holds(held *locking.HeldError) bool { return !t.failed[held.Holder.Run] }

// passGates finds out which of the firings this replica may start. Only a clear refusal ends a
// firing on this replica. An error may be a lost reply or a failed memcached; then the store
// decides.
func (l advisoryLocks) passGates(ctx context.Context, all []*firing) {
	scheduled := make([]*firing, 0, len(all))
	names := make([]string, 0, len(all))
	for _, f := range all {
		if f.adopted == uuid.Nil {
			scheduled, names = append(scheduled, f), append(names, f.gateName())
		}
	}
	if len(names) == 0 {
		return
	}
	start := time.Now()
	for i, gate := range l.locker.Gates(ctx, names, gateTTL) {
		f := scheduled[i]
		f.first.gone = !gate.Won && gate.Err == nil
		if gate.Err == nil {
			l.lookout.noteBegun(f.burst, f.ScheduledAt, f.entry)
		}
		f.spans.step("gate", start, gate.Err)
	}
}
