package storage

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// Errors of stores. Each store translates its own errors to these.
var (
	// ErrSessionLost says that the session has ended or expired. It never revives; a replica opens
	// a new one.
	ErrSessionLost = locking.ErrSessionLost
	// ErrUnavailable says that the store did not answer.
	ErrUnavailable = errors.New("store is unavailable")
	// ErrRowHeld says that an open transaction held a row that the call needs, for longer than the
	// store's lock timeout. It wraps ErrUnavailable. The whole call fails. Those of its requests
	// that do not need the row may succeed in another call at once.
	ErrRowHeld = fmt.Errorf("%w: an open transaction holds a row", ErrUnavailable)
	// ErrNotFound says that the store has no such job, run or other object.
	ErrNotFound = errors.New("not found")
	// ErrSuperseded says that the claim of a run is gone: nothing that the run still does may take
	// effect.
	ErrSuperseded = locking.ErrSuperseded
	// ErrCommitted says that an earlier attempt or run of the firing has committed the work in
	// another database. An attempt whose handler returns it has succeeded: see fence.ErrCommitted.
	ErrCommitted = errors.New("an earlier attempt has committed this transaction")
)

// MaxBatch is the largest number of requests in a batch, and the largest page of a list.
const MaxBatch = 1000

// Store holds the sessions, firings and history of a cluster, and decides who runs. Every method
// may be called concurrently and is one transaction, unless its comment says otherwise. A method
// that returns an error may have taken effect. It may be called again with the same arguments, and
// then returns the same outcome.
type Store interface {
	Sessions
	Firings
	Upkeep
	Dependents
	Backfills
	History
	JobProgress
	Control
	AuditChain
	Watching
	Marked
	// ClusterID returns the id that the first migration generated. It separates clusters that share
	// a memcached.
	ClusterID() uuid.UUID
	Close()
}
