package fence

import (
	"errors"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var (
	// ErrCommitted says that the transaction of InTx was committed before, by an earlier attempt or
	// by the run that this one recovers. Roll back and return the error: the attempt then counts as
	// succeeded. The error may be wrapped, but an attempt fails if its error has a second cause,
	// as after errors.Join.
	//
	// A handler that has work after the commit checks for ErrCommitted with errors.Is, and goes on
	// with that work.
	ErrCommitted = storage.ErrCommitted
	// ErrStepCommitted is ErrCommitted for a transaction with a step. Roll back and go on with the
	// next step. If the handler returns this error, the attempt fails, because later steps may not
	// be done.
	ErrStepCommitted = errors.New("an earlier attempt has committed this step")
	// ErrEnded says that the function of Do ended its transaction: by COMMIT or ROLLBACK, by a
	// statement with an implicit commit, or by a deadlock whose error the function ignored. Its
	// effects may be committed in part.
	ErrEnded = errors.New("the function has ended its fenced transaction")
	// ErrPartial says that the function of an earlier attempt ended its transaction (see ErrEnded)
	// and committed a part of its effects. No attempt of this firing can repeat or complete them.
	ErrPartial = errors.New("an earlier attempt has committed a part of this transaction")
	// ErrStepRepeated refuses a second transaction with the same step in one attempt: the fence
	// could not tell the two apart. Give each transaction a step of its own: see [Step]. If the
	// handler repeats a transaction because its commit returned an error, ErrStepRepeated says that
	// the commit took effect.
	ErrStepRepeated = errors.New("this attempt has already committed a transaction of this step")
	// ErrNotLast refuses a step after InTx in one attempt. Only the last transaction may be without
	// a step. In a later attempt, InTx returns ErrCommitted, and a handler that returns this error
	// leaves out the steps that follow. Use [StepInTx] instead of InTx.
	ErrNotLast = errors.New("InTx was not the last transaction of this attempt, use StepInTx")
	// ErrIsolation refuses a transaction of PostgreSQL whose isolation level is not read committed.
	ErrIsolation = errors.New("the transaction is not read committed")
	// ErrNoStore is the error for a Run of jobs.NewRun.
	ErrNoStore = errors.New("the run has no store")
)
