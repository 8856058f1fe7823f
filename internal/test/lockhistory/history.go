package lockhistory

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// never is the time of an answer that did not arrive.
const never = math.MaxInt64

// Span is the time between a call and its answer. The call took effect at some time between them.
type Span struct{ Call, Return int64 }

// Lock is one lock that was granted, from its acquisition to its end.
type Lock struct {
	ID       string
	Process  string
	Requests []Request
	Token    locking.Token
	Session  uuid.UUID // Nil if unknown

	Acquired Span
	// within Acquired: when the granted claim was requested; 0 if unknown
	From     int64
	Released *Span // nil without a call
	Given    bool  // the answer: the lock was held until the release
	Lost     int64 // when its context ended by a loss; 0 if it did not
	Commits  []FencedCommit
}

// FencedCommit is one attempt of a lock at a fenced transaction.
type FencedCommit struct {
	Span
	Number  int
	Outcome Kind // Committed, Superseded or CommitUnclear
}

// History contains the merged records of all processes.
type History struct {
	Locks      []*Lock      // granted ones, by the time of their calls
	Counts     map[Kind]int // of all events
	notes      []Event
	sessions   map[uuid.UUID]*sessionHistory
	successors []Event                 // Succeeds
	given      map[locking.Token]int64 // when the release of a claim began
}

// sessionHistory is the known history of a session.
type sessionHistory struct {
	replica string
	first   int64 // when it was opened
	until   int64 // the earliest time at which it can have expired
	ending  int64 // when its end began; never if it did not
}

// New merges the events of all processes, in any order. It returns an error for inconsistent
// events, such as an answer without a call.
func New(events []Event) (*History, error) {
	h := &History{Counts: map[Kind]int{}, sessions: map[uuid.UUID]*sessionHistory{},
		given: map[locking.Token]int64{}}
	locks := map[string]*Lock{}
	for _, e := range events {
		if e.Kind == Acquire {
			if locks[e.Lock] != nil {
				return nil, fmt.Errorf("history: lock %s is acquired twice", e.Lock)
			}
			locks[e.Lock] = &Lock{ID: e.Lock, Process: e.Process, Requests: e.Requests,
				Acquired: Span{e.At, never}}
		}
	}
	// Sort calls before their answers, and grants before the steps of their locks, even if a
	// history that must be refused has other times.
	for _, kinds := range [][]Kind{{Granted, Release, Commit},
		{Released, NotHeld, ReleaseUnclear, Lost, Committed, Superseded, CommitUnclear}} {
		for _, e := range events {
			if !slices.Contains(kinds, e.Kind) {
				continue
			}
			if err := locks[e.Lock].take(e); err != nil {
				return nil, err
			}
		}
	}
	for _, e := range events {
		h.Counts[e.Kind]++
		h.take(e)
	}
	for _, lock := range locks {
		if lock.Acquired.Return != never {
			h.Locks = append(h.Locks, lock)
		}
	}
	slices.SortFunc(h.Locks, func(a, b *Lock) int {
		return cmp.Or(cmp.Compare(a.Acquired.Call, b.Acquired.Call), cmp.Compare(a.ID, b.ID))
	})
	return h, nil
}

// take adds an event of the lock.
func (k *Lock) take(e Event) error {
	if k == nil {
		return fmt.Errorf("history: %s of lock %s, which was never asked for", e.Kind, e.Lock)
	}
	switch e.Kind {
	case Granted:
		k.Acquired.Return, k.Token, k.Session, k.From = e.At, e.Token, e.Session, e.From
	case Release:
		k.Released = &Span{e.At, never}
	case Commit:
		k.Commits = append(k.Commits,
			FencedCommit{Span: Span{e.At, never}, Number: e.Number, Outcome: CommitUnclear})
	case Released, NotHeld, ReleaseUnclear:
		if k.Released == nil {
			return fmt.Errorf("history: %s of lock %s without a call", e.Kind, e.Lock)
		}
		k.Released.Return, k.Given = e.At, e.Kind == Released
	case Lost:
		k.Lost = e.At
	case Committed, Superseded, CommitUnclear:
		i := slices.IndexFunc(k.Commits, func(c FencedCommit) bool { return c.Number == e.Number })
		if i < 0 {
			return fmt.Errorf("history: %s of lock %s, number %d, without a call", e.Kind, e.Lock,
				e.Number)
		}
		k.Commits[i].Return, k.Commits[i].Outcome = e.At, e.Kind
	}
	return nil
}

// take adds an event without a lock.
func (h *History) take(e Event) {
	switch e.Kind {
	case Confirmed:
		l := h.sessionHistory(e.Session)
		l.replica, l.first, l.until = e.Replica, min(l.first, e.At), max(l.until, e.At+e.TTL)
	case Ending:
		l := h.sessionHistory(e.Session)
		l.ending = min(l.ending, e.At)
	case Succeeds:
		h.successors = append(h.successors, e)
	case Returning:
		if at, before := h.given[e.Token]; !before || e.At < at {
			h.given[e.Token] = e.At
		}
	case Note:
		h.notes = append(h.notes, e)
	}
}

func (h *History) sessionHistory(session uuid.UUID) *sessionHistory {
	if h.sessions[session] == nil {
		h.sessions[session] = &sessionHistory{first: never, ending: never}
	}
	return h.sessions[session]
}

// clockSlack is how far the store's clock may run ahead within a session's TTL. Both clocks are
// synchronized, so it only covers rounding.
const clockSlack = int64(time.Millisecond)

// endOf returns the earliest time at which the session can have ended, or 0 for an unknown session.
func (h *History) endOf(session uuid.UUID) int64 {
	l := h.sessions[session]
	if l == nil {
		return 0
	}
	end := min(l.until-clockSlack, l.ending)
	for _, successor := range h.successors {
		if successor.Replica == l.replica && successor.At > l.first { // not its own
			end = min(end, successor.At)
		}
	}
	return end
}

// freed returns when the lock's claim ended. Without a clear answer to its release, it is the
// earliest possible time. doc.go says why that is equivalent.
func (h *History) freed(k *Lock) Span {
	if k.Given {
		return *k.Released
	}
	from := h.endOf(k.Session)
	if k.Released != nil {
		from = min(from, k.Released.Call)
	}
	if at, given := h.given[k.Token]; given {
		from = min(from, at)
	}
	from = max(from, k.Acquired.Call)
	for _, c := range k.Commits {
		if c.Outcome == Committed {
			from = max(from, c.Call)
		}
	}
	return Span{from, max(from, k.Acquired.Return)}
}
