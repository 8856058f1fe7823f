package storage

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/locking"
)

// Errors of stores.
var (
	// ErrSessionLost says that the session has ended or expired.
	ErrSessionLost = locking.ErrSessionLost
	// ErrUnavailable says that the store did not answer.
	ErrUnavailable = errors.New("store is unavailable")
	// ErrRowHeld says that an open transaction held a row that the call needs, for longer than the
	// store's lock timeout. The whole call failed. Its requests that do not need the row may
	// succeed in another call. ErrRowHeld wraps ErrUnavailable.
	ErrRowHeld = fmt.Errorf("%w: an open transaction holds a row", ErrUnavailable)
	// ErrNotFound says that the store has no such job, run or other object.
	ErrNotFound = errors.New("not found")
	// ErrSuperseded says that the claim of the run is gone.
	ErrSuperseded = locking.ErrSuperseded
	// ErrCommitted says that an earlier attempt or run of the firing has committed the work in
	// another database: see fence.ErrCommitted. An attempt whose handler returns it has succeeded.
	ErrCommitted = errors.New("an earlier attempt has committed this transaction")
)

// MaxBatch is the maximum number of requests in one call, and of elements in a page of a list.
const MaxBatch = 1000

// Store holds the sessions, firings and history of a cluster. It decides which runs start and
// commit.
//
// Each call is one transaction, unless its comment says otherwise. The caller may repeat a call
// that returned an error. An action then needs its key: see Action.Key.
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
