package lockhistory

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-dev/holdfast/locking"
)

// ErrUndecided means that a history could not be checked in time.
var ErrUndecided = errors.New("history is undecided")

// Check returns nil if the guarantee allows the history, a *Violation if it does not, or
// ErrUndecided. The ledger contains the rows of fenced transactions. If it is nil, the answers to
// commits count.
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

// checkOrder checks whether one order explains all steps of the locks of a component.
func (h *History) checkOrder(part []*Lock) error {
	suspects := part
	// Nearly all violations show at times when locks were held for certain. Such a violation is
	// small, and porcupine needs long to reject a whole history.
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

// checkTokens searches for a token that two locks got.
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

// checkLedger checks only the commits, by the clock of the store.
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

// shrink returns a minimal set of items that are illegal together. A part of a legal history is
// legal too. So bisection finds the first item that makes it illegal, then the first item that does
// so together with it, and so on.
func shrink[T any](items []T, legal func([]T) bool) []T {
	var core []T
	for len(core) == 0 || legal(core) {
		n := sort.Search(len(items), func(n int) bool {
			return !legal(slices.Concat(items[:n+1], core))
		})
		if n == len(items) { // a part of it was undecided
			return slices.Concat(items, core)
		}
		core = slices.Insert(core, 0, items[n])
		items = items[:n]
	}
	return core
}
