package jobs

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/locking"
)

// Blocker is the lock that blocks a run. Its owner, a run or a program, holds the resource or is an
// older waiter for it. Blockers are comparable.
type Blocker struct {
	Resource string        `json:"resource"`
	Holder   locking.Owner `json:"holder"` // the waiter if Waiting is set
	Waiting  bool          `json:"waiting,omitempty"`
	// Root is the holder for which the waiter waits, directly or through other waiters. It is zero
	// if the blocker is a holder, or if the root is unknown.
	Root Root `json:"root,omitzero"`
}

// Root is the holder at the end of a chain of waiters.
type Root struct {
	Resource string        `json:"resource"`
	Holder   locking.Owner `json:"holder"`
}

// Words describes the blocker, as in "table public/orders is held by job …". The argument verb
// stands between the resource and a holder, such as "is held by". For a blocker that waits, Words
// uses words of its own.
func (b Blocker) Words(verb string) string {
	if !b.Waiting {
		return fmt.Sprintf("%s %s %s", b.Resource, verb, locking.Holder{Owner: b.Holder})
	}
	return b.Resource + ": " + b.Queue()
}

// Queue is for a blocker that is a waiter. It describes this waiter, and the root for which it
// waits.
func (b Blocker) Queue() string {
	words := fmt.Sprintf("queued behind %s (waiting)", locking.Holder{Owner: b.Holder})
	if b.Root == (Root{}) {
		return words
	}
	return words + fmt.Sprintf(", which waits for %s (holds %s)",
		locking.Holder{Owner: b.Root.Holder}, b.Root.Resource)
}
