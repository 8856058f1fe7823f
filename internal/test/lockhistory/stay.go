package lockhistory

import (
	"cmp"
	"slices"
)

// stay is a time in which a lock was held for certain.
type stay struct {
	lock        *Lock
	from, until int64
}

func inOrder(all []stay) []stay {
	slices.SortFunc(all, func(a, b stay) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.lock.Token, b.lock.Token),
			cmp.Compare(a.lock.ID, b.lock.ID))
	})
	return all
}

// stays returns when each lock was held for certain, in any order of overlapping steps: from the
// answer to its acquisition to the earliest time at which it can have been freed. Some locks have
// no such time.
func (h *History) stays(locks []*Lock) []stay {
	var all []stay
	for _, k := range locks {
		if freed := h.freed(k); freed.Call > k.Acquired.Return {
			all = append(all, stay{k, k.Acquired.Return, freed.Call})
		}
	}
	return inOrder(all)
}

// replay reports whether all stays are possible together. They are sorted by their start, which is
// the order of the grants only if they conflict.
func replay(all []stay) bool {
	r := relate(locksOf(all))
	high := r.nothing().high
	var open []stay
	for _, next := range all {
		open = slices.DeleteFunc(open, func(before stay) bool {
			return before.until <= next.from
		})
		others := locksOf(open)
		if !r.bears(others, next.lock) || !r.grows(high, next.lock) ||
			!r.fits(append(others, next.lock), next.lock) {
			return false
		}
		open = append(open, next)
		for _, class := range r.of[next.lock] {
			high[class] = max(high[class], next.lock.Token)
		}
	}
	return true
}

// fits reports whether some order of grants allows the slots of the locks, including k. Each lock
// counts the locks before it by its own number.
func (r *relation) fits(locks []*Lock, k *Lock) bool {
	for _, class := range r.of[k] {
		for before, slots := range slices.Sorted(slices.Values(r.slotted(locks, class))) {
			if before >= slots {
				return false
			}
		}
	}
	return true
}

func locksOf(all []stay) []*Lock {
	var locks []*Lock
	for _, s := range all {
		locks = append(locks, s.lock)
	}
	return locks
}
