package engine

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// firstTry is the first try of a firing to pass its gate and to take its advisory locks. Firings
// that begin at the same time share its requests.
type firstTry struct {
	gone  bool // another replica has passed the gate
	tried bool // the locks were tried, and take was not called yet
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
// tries no locks where it need not ask memcached to know that the firing may not start.
func (l advisoryLocks) tryTogether(ctx context.Context, all []*firing) {
	if l.locker == nil {
		return
	}
	l.passGates(ctx, all)
	trying := make([]*firing, 0, len(all))
	wanted := make([]locking.Wanted, 0, len(all))
	for _, f := range all {
		if !f.first.gone && l.unavailable(f) == nil && l.known(f, nil) == nil {
			trying = append(trying, f)
			wanted = append(wanted, locking.Wanted{Owner: l.owner(f), Requests: f.entry.requests})
		}
	}
	if len(trying) == 0 {
		return
	}
	sent := time.Now()
	for i, t := range l.locker.TryAcquireEachIn(ctx, trying[0].session.ID, wanted) {
		f := trying[i]
		f.asked, f.first.tried = sent, true
		f.first.lock, f.first.found = l.result(f, nil, t.Lock, t.Err, sent)
		f.spans.locked(sent, f.first.found)
	}
}

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
		f.spans.step("gate", start, gate.Err)
	}
}
