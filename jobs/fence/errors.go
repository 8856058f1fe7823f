package fence

import "errors"

var (
	// ErrCommitted says that a transaction of this firing and step was committed before, by this
	// attempt, an earlier one, or the run that this one recovers. Roll back, and continue as after
	// a commit: the work is done.
	ErrCommitted = errors.New("an earlier attempt has committed this transaction")
	// ErrEnded says that the function of Do ended its transaction: by COMMIT or ROLLBACK, by a
	// statement with an implicit commit, or by a deadlock whose error the function ignored. Its
	// effects may be committed in part.
	ErrEnded = errors.New("the function has ended its fenced transaction")
	// ErrPartial says that the function of an earlier attempt ended its transaction (see ErrEnded)
	// and committed a part of its effects. No attempt of this firing can repeat or complete them.
	ErrPartial = errors.New("an earlier attempt has committed a part of this transaction")
	// ErrStepRepeated refuses a second transaction with the same step in one attempt: the fence
	// could not tell the two apart. Give each transaction a step of its own: see [Step].
	ErrStepRepeated = errors.New("this attempt has already committed a transaction of this step")
	// ErrIsolation refuses a transaction of PostgreSQL whose isolation level is not read committed.
	ErrIsolation = errors.New("the transaction is not read committed")
	// ErrNoStore is the error for a Run of jobs.NewRun.
	ErrNoStore = errors.New("the run has no store")
)
