package lockhistory

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/locking"
)

// Written is one row that a lock's fenced transaction has left in the ledger,
// with times of the store's clock, in microseconds of any epoch. Both lie
// within the life of the claim: the first is read behind the fence check, the
// second as the transaction commits, before anybody who waits for its end.
type Written struct {
	Lock      string
	Number    int
	Token     locking.Token
	Fenced    int64
	Committed int64
}

// settle gives each lock's commits the outcome that the ledger tells, and
// returns what the locks were told otherwise.
func (h *History) settle(ledger []Written) *Violation {
	type attempt struct {
		lock   string
		number int
	}
	rows := map[attempt]Written{}
	for _, w := range ledger {
		rows[attempt{w.Lock, w.Number}] = w
	}
	for _, k := range h.Locks {
		for i := range k.Commits {
			c := &k.Commits[i]
			key := attempt{k.ID, c.Number}
			w, there := rows[key]
			delete(rows, key)
			switch {
			case there && w.Token != k.Token:
				return h.contradiction(k, fmt.Sprintf("commit %d is in the ledger with token %d", c.Number, w.Token))
			case there && c.Outcome == Superseded:
				return h.contradiction(k, fmt.Sprintf("commit %d was refused by the fence, and is in the ledger", c.Number))
			case !there && c.Outcome == Committed:
				return h.contradiction(k, fmt.Sprintf("commit %d was confirmed, and is not in the ledger", c.Number))
			case there:
				c.Outcome = Committed
			}
		}
	}
	for key, w := range rows {
		return &Violation{Rule: RuleLedger, Detail: fmt.Sprintf("the ledger has commit %d of lock %s with token %d, which was never granted or never tried to commit", key.number, key.lock, w.Token)}
	}
	return nil
}

func (h *History) contradiction(k *Lock, detail string) *Violation {
	return &Violation{Rule: RuleLedger, Locks: []*Lock{k}, Detail: detail, history: h}
}

// writing is the time from a lock's first fence check to its last commit.
type writing struct {
	lock        *Lock
	first, last int64
}

// writings returns when each lock wrote, the earliest first.
func (h *History) writings(ledger []Written) []writing {
	byID := map[string]*Lock{}
	for _, k := range h.Locks {
		byID[k.ID] = k
	}
	found := map[string]*writing{}
	for _, w := range ledger {
		if found[w.Lock] == nil {
			found[w.Lock] = &writing{byID[w.Lock], w.Fenced, w.Committed}
		}
		at := found[w.Lock]
		at.first, at.last = min(at.first, w.Fenced), max(at.last, w.Committed)
	}
	var all []writing
	for _, at := range found {
		all = append(all, *at)
	}
	slices.SortFunc(all, func(a, b writing) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.lock.Token, b.lock.Token))
	})
	return all
}

// replay puts the writings into the model by the store's clock, in which they
// have one order only, and reports whether it is allowed.
func replay(all []writing) bool {
	r := relate(locksOf(all))
	state := r.nothing()
	var under []writing
	for _, next := range all {
		under = slices.DeleteFunc(under, func(before writing) bool {
			over := before.last <= next.first
			if over {
				state = state.without(before.lock)
			}
			return over
		})
		if !r.admits(state, next.lock) {
			return false
		}
		state, under = r.grant(state, next.lock), append(under, next)
	}
	return true
}

func locksOf(all []writing) []*Lock {
	var locks []*Lock
	for _, w := range all {
		locks = append(locks, w.lock)
	}
	return locks
}
