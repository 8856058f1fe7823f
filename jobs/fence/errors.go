package fence

import (
	"errors"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var (
	// ErrCommitted says that an earlier attempt, or the run that this one recovers, has committed
	// the transaction of InTx. Roll back and return the error, wrapped or not. The attempt then
	// counts as succeeded. It fails if its error has a second cause, as after errors.Join.
	//
	// A handler with work after the commit checks for ErrCommitted, and goes on with that work.
	ErrCommitted = storage.ErrCommitted
	// ErrStepCommitted is ErrCommitted for a transaction with a step. Roll back and go on with the
	// next step. If the handler returns this error, the attempt fails, because later steps may be
	// missing.
	ErrStepCommitted = errors.New("an earlier attempt has committed this step")
	// ErrEnded says that the function of Do ended its transaction: by COMMIT or ROLLBACK, by a
	// method of the driver such as Commit, by a statement with an implicit commit, or by a deadlock
	// whose error it ignored. A part of its effects may be committed.
	ErrEnded = errors.New("the function has ended its fenced transaction")
	// ErrPartial says that the function of an earlier attempt ended its transaction (see ErrEnded)
	// and committed a part of its effects. No attempt of this firing can complete them.
	ErrPartial = errors.New("an earlier attempt has committed a part of this transaction")
	// ErrStepRepeated refuses a second transaction with the same step in one attempt. Give each
	// transaction a step of its own: see [Step]. If the handler repeats a transaction after an
	// error of its commit, ErrStepRepeated says that the commit took effect.
	ErrStepRepeated = errors.New("this attempt has already committed a transaction of this step")
	// ErrNotLast refuses a step after InTx in one attempt. Use [StepInTx] instead of InTx. In a
	// later attempt, InTx returns ErrCommitted, and a handler that returns it would leave out the
	// later steps.
	ErrNotLast = errors.New("InTx was not the last transaction of this attempt, use StepInTx")
	// ErrIsolation refuses a transaction of PostgreSQL that is not read committed.
	ErrIsolation = errors.New("the transaction is not read committed")
	// ErrNoStore is the error for a Run of jobs.NewRun, and of holdfasttest.Work without WithFence.
	ErrNoStore = errors.New("the run has no store: use holdfasttest.WithFence in a test")
)
