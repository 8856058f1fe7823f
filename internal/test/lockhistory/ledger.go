package lockhistory

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/locking"
)

// Written is a row of a lock's fenced transaction in the ledger, with times of the store's clock in
// microseconds of any epoch. The claim exists at both times. The first is read after the fence
// check. The second is read at the commit, before the transaction releases its row locks.
type Written struct {
	Lock      string
	Number    int
	Token     locking.Token
	Fenced    int64
	Committed int64
}

// settle gives the commits of each lock their outcome from the ledger, and returns answers that
// contradict it.
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
				return h.contradiction(k,
					fmt.Sprintf("commit %d is in the ledger with token %d", c.Number, w.Token))
			case there && c.Outcome == Superseded:
				return h.contradiction(k,
					fmt.Sprintf("commit %d was refused by the fence, and is in the ledger",
						c.Number))
			case !there && c.Outcome == Committed:
				return h.contradiction(k,
					fmt.Sprintf("commit %d was confirmed, and is not in the ledger", c.Number))
			case there:
				c.Outcome = Committed
			}
		}
	}
	for key, w := range rows {
		return &Violation{Rule: RuleLedger, Detail: fmt.Sprintf("the ledger has commit %d of "+
			"lock %s with token %d, which was never granted or never tried to commit", key.number,
			key.lock, w.Token)}
	}
	return nil
}

func (h *History) contradiction(k *Lock, detail string) *Violation {
	return &Violation{Rule: RuleLedger, Locks: []*Lock{k}, Detail: detail, history: h}
}

// writings returns when each lock wrote, sorted by start: from its first fence check to its last
// commit.
func (h *History) writings(ledger []Written) []stay {
	byID := map[string]*Lock{}
	for _, k := range h.Locks {
		byID[k.ID] = k
	}
	found := map[string]*stay{}
	for _, w := range ledger {
		if found[w.Lock] == nil {
			found[w.Lock] = &stay{byID[w.Lock], w.Fenced, w.Committed}
		}
		at := found[w.Lock]
		at.from, at.until = min(at.from, w.Fenced), max(at.until, w.Committed)
	}
	var all []stay
	for _, at := range found {
		all = append(all, *at)
	}
	return inOrder(all)
}
