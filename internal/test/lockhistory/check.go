package lockhistory

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-dev/holdfast/locking"
)

// ErrUndecided says that a history could not be checked in time. It is neither
// right nor wrong.
var ErrUndecided = errors.New("history is undecided")

// Check returns nil if the history is one that the guarantee allows, a
// *Violation if it isn't, or ErrUndecided. The ledger has what fenced
// transactions left behind; nil where there was none, and then a commit
// counts as what its process was told.
func (h *History) Check(ledger []Written) error {
	if violation := h.checkTokens(); violation != nil {
		return violation
	}
	if ledger != nil {
		if violation := h.settle(ledger); violation != nil {
			return violation
		}
		if violation := h.checkLedger(ledger); violation != nil {
			return violation
		}
	}
	for _, part := range components(h.Locks) {
		if err := h.checkOrder(part); err != nil {
			return err
		}
	}
	return nil
}

// checkOrder asks whether one order explains what the locks of a component did.
func (h *History) checkOrder(part []*Lock) error {
	suspects := part
	// Nearly all violations show where locks stood for sure. Found there they
	// are few, while porcupine is long in giving up a whole history.
	if stays := h.stays(part); !replay(stays) {
		suspects = locksOf(shrink(stays, replay))
	}
	switch h.linearizable(suspects) {
	case porcupine.Unknown:
		return fmt.Errorf("%d locks: %w after %s", len(part), ErrUndecided, checkLimit)
	case porcupine.Ok:
		return nil
	}
	core := shrink(suspects, func(locks []*Lock) bool {
		return h.linearizable(locks) != porcupine.Illegal
	})
	return &Violation{Rule: h.ruleOf(core), Locks: core, Of: len(h.Locks), history: h}
}

// checkTokens finds a token that was given to two locks.
func (h *History) checkTokens() *Violation {
	holders := map[locking.Token]*Lock{}
	for _, k := range h.Locks {
		if other := holders[k.Token]; other != nil && k.Token != 0 {
			return &Violation{Rule: RuleToken, Locks: []*Lock{other, k}, Of: len(h.Locks),
				history: h}
		}
		holders[k.Token] = k
	}
	return nil
}

// checkLedger looks at the commits alone, by the store's clock.
func (h *History) checkLedger(ledger []Written) *Violation {
	all := h.writings(ledger)
	if replay(all) {
		return nil
	}
	core := shrink(all, replay)
	v := &Violation{Rule: ruleOfStays(core), Of: len(all), ledger: core, history: h}
	for _, w := range core {
		v.Locks = append(v.Locks, w.lock)
	}
	return v
}

// shrink returns some of the items that are illegal together, and legal without
// any one of them. What remains of a legal history without some of its locks
// is legal too, so the first item that makes it illegal is found by bisection,
// then the first that does so together with it, and so on.
func shrink[T any](items []T, legal func([]T) bool) []T {
	var core []T
	for len(core) == 0 || legal(core) {
		n := sort.Search(len(items), func(n int) bool {
			return !legal(slices.Concat(items[:n+1], core))
		})
		if n == len(items) { // a part of it could not be decided
			return slices.Concat(items, core)
		}
		core = slices.Insert(core, 0, items[n])
		items = items[:n]
	}
	return core
}
