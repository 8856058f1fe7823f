package fence

import "errors"

var (
	// ErrCommitted says that a transaction of this firing and step was committed before, by this
	// attempt, an earlier one, or the run that this one recovers. Roll back: the work is done.
	ErrCommitted = errors.New("an earlier attempt has committed this transaction")
	// ErrIsolation refuses a transaction of PostgreSQL whose isolation level is not read committed.
	ErrIsolation = errors.New("the transaction is not read committed")
	// ErrNoStore is the error for a Run of jobs.NewRun.
	ErrNoStore = errors.New("the run has no store")
)
