package holdfast

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Trigger requests one run of a job, now or at a later time. P is the type of the params that the
// trigger overrides: the type of the job's params, or one with some of its keys.
type Trigger[P any] struct {
	Job string
	// Params override the params of the job, key by key. The job must list each key of their JSON
	// as overridable. The zero value of P overrides none, even if its JSON has keys with empty
	// values.
	Params P
	// Key makes the trigger idempotent: if the actor repeats it with the same Job, Key, Params, At
	// and Delay, the result is the first run. "": each trigger has a run of its own. At most 200
	// bytes.
	Key string
	// At is when the run starts, by the store's clock. Instead of At, Delay gives this time as a
	// duration after the trigger. Without both, the run starts at once.
	At    time.Time
	Delay time.Duration
	// Wait is how long the run may wait before it begins; nil: until the job's deadline. With 0 the
	// trigger is refused if something blocks the run or no replica can start runs. See
	// storage.TriggerRequest.
	Wait       *time.Duration
	EvenPaused bool // start the run even if the job is paused

	Actor  string // for the audit log; "" is the program
	Reason string // for the audit log
}

// AnyTrigger is a [Trigger] with params of any type.
type AnyTrigger interface {
	request() (storage.Action, storage.TriggerRequest, error)
}

// TriggerOutcome is the outcome of a trigger.
type TriggerOutcome string

// The outcomes of a trigger.
const (
	TriggerCreated  TriggerOutcome = "created"  // it added the run
	TriggerExisting TriggerOutcome = "existing" // an earlier trigger with its key added the run
	TriggerRefused  TriggerOutcome = "refused"  // there is no run; the error says why
)

// TriggerResult is the answer to a trigger. It can be encoded as JSON.
type TriggerResult struct {
	// Outcome is "" if the trigger failed and its outcome is not known: the database did not
	// answer. A trigger with a key can then be repeated.
	Outcome TriggerOutcome `json:"outcome"`
	Run     storage.Record `json:"run,omitzero"` // zero without a run
	// WaitsFor is what blocks the run now. If a trigger with a Wait of 0 was refused, it is what
	// would have blocked the run. Nil: nothing blocks the run, no replica can start runs, or the
	// trigger was in a transaction.
	WaitsFor *storage.RunBlocker `json:"waits_for,omitempty"`
}

func (t Trigger[P]) request() (storage.Action, storage.TriggerRequest, error) {
	by := storage.Action{Actor: t.Actor, Reason: t.Reason}
	r := storage.TriggerRequest{Job: t.Job, Key: t.Key, At: t.At, Delay: t.Delay, Wait: t.Wait,
		EvenPaused: t.EvenPaused}
	if reflect.ValueOf(&t.Params).Elem().IsZero() {
		return by, r, nil
	}
	params, err := json.Marshal(t.Params)
	if err != nil {
		return by, r, &storage.BadInputError{Field: "params", Problem: err.Error()}
	}
	r.Params = params
	return by, r, nil
}

// Trigger adds a run of a job. This replica starts it at once if it has the job and a free worker.
// Otherwise any replica starts it, usually within a second. A job can be triggered as soon as one
// replica that has it is ready. Before that, a trigger is refused with storage.ErrNotFound.
//
// A refused trigger returns TriggerRefused together with an error. The error wraps
// storage.ErrPaused, storage.ErrBusy, storage.ErrKeyUsed (the key belongs to another request),
// storage.ErrNotFound (no such job) or storage.ErrBadInput, or it is a *jobs.ParamsError. Before
// Open it is ErrNotOpen, and after Run has returned it is ErrStopped.
func (r *Replica) Trigger(ctx context.Context, t AnyTrigger) (TriggerResult, error) {
	ops, err := r.operations()
	if err != nil {
		return TriggerResult{Outcome: TriggerRefused}, fmt.Errorf("trigger: %w", err)
	}
	return triggered(t, func(by storage.Action,
		request storage.TriggerRequest) (storage.Triggered, error) {
		return ops.Trigger(ctx, by, request)
	})
}

// TriggerTx is [Replica.Trigger] in a transaction of the program, on a connection to the database
// of the store. The run exists if and only if the transaction commits. An error leaves the
// transaction usable. docs/jobs-in-go.md has an example.
//
// It returns ErrNoPostgres with SQLite, and refuses a Wait of 0. Unlike Trigger, it works after Run
// has returned: it needs only the transaction. So a server can finish its requests. It returns an
// error then if it must read the store: for params of a job that was added at run time, and for a
// subject that may not trigger everything.
func (r *Replica) TriggerTx(ctx context.Context, tx pgx.Tx, t AnyTrigger) (TriggerResult, error) {
	return triggered(t, func(by storage.Action,
		request storage.TriggerRequest) (storage.Triggered, error) {
		return r.app.TriggerTx(ctx, tx, by, request)
	})
}

// TriggerSQLTx is [Replica.TriggerTx] in a transaction of database/sql, with any driver for
// PostgreSQL.
func (r *Replica) TriggerSQLTx(ctx context.Context, tx *sql.Tx, t AnyTrigger) (TriggerResult,
	error) {
	return triggered(t, func(by storage.Action,
		request storage.TriggerRequest) (storage.Triggered, error) {
		return r.app.TriggerSQLTx(ctx, tx, by, request)
	})
}

// triggered calls add with the request of a trigger, and returns its result.
func triggered(t AnyTrigger, add func(storage.Action,
	storage.TriggerRequest) (storage.Triggered, error)) (TriggerResult, error) {
	by, request, err := t.request()
	if err != nil {
		return TriggerResult{Outcome: TriggerRefused}, err
	}
	answer, err := add(by, request)
	var busy *storage.BusyError
	switch {
	case errors.As(err, &busy):
		return TriggerResult{Outcome: TriggerRefused, WaitsFor: &busy.Blocker}, err
	case errors.Is(err, storage.ErrUnavailable), errors.Is(err, context.Canceled),
		errors.Is(err, context.DeadlineExceeded):
		return TriggerResult{}, err
	case err != nil:
		return TriggerResult{Outcome: TriggerRefused}, err
	}
	result := TriggerResult{Outcome: TriggerExisting, Run: answer.Record, WaitsFor: answer.WaitsFor}
	if answer.Created {
		result.Outcome = TriggerCreated
	}
	return result, nil
}

// Wait waits until a run has ended, and returns it: see Operations.Wait. When Run returns, Wait
// returns ErrStopped and the run as it was, and at Close ErrNotOpen. Before Open it returns
// ErrNotOpen.
func (r *Replica) Wait(ctx context.Context, run uuid.UUID) (storage.Record, error) {
	ops, err := r.operations()
	if err != nil {
		return storage.Record{}, fmt.Errorf("wait for run %s: %w", run, err)
	}
	ctx, cancel := r.app.UntilClosed(ctx)
	defer cancel()
	return ops.Wait(ctx, run)
}

// operations returns the actions, or ErrNotOpen or ErrStopped.
func (r *Replica) operations() (*operations.Operations, error) {
	ops := r.Operations()
	if ops == nil {
		return nil, ErrNotOpen
	}
	return ops, r.app.Stopped()
}
