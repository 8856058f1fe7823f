package jobs

import (
	"context"
	"encoding/json"
)

// HandlerFunc is a handler bound to one job's params. It does the work of one
// attempt; it must return soon after ctx ends, whose cause says why.
type HandlerFunc func(ctx context.Context, run *Run) error

// Middleware wraps the handlers of all jobs: it sees each attempt's run and
// context before the handler does, and its error after. It is called once for
// each job, and once more for a run with params of the moment; what it returns
// may be called concurrently, and must return soon after its context ends. A
// panic in that is the run's, as the handler's own would be.
type Middleware func(next HandlerFunc) HandlerFunc

// Registration is a named handler and the way it reads its params.
type Registration struct {
	Name string
	bind func(params json.RawMessage) (HandlerFunc, error)
}

// Validator is implemented by params that have rules beyond their types.
// Validate returns a *ParamsError, or any error for the params as a whole.
type Validator interface {
	Validate() error
}

// Handle registers fn under name. Each job's params are decoded into a P of
// its own, strictly and once, when the job is added: unknown keys and wrong
// types are errors then and not when the job is due. If P or *P is a
// Validator, it is asked too. fn may be called concurrently.
func Handle[P any](name string,
	fn func(ctx context.Context, run *Run, params P) error) Registration {
	return Registration{Name: name, bind: func(raw json.RawMessage) (HandlerFunc, error) {
		var params P
		if err := decodeParams(raw, &params); err != nil {
			return nil, err
		}
		return func(ctx context.Context, run *Run) error { return fn(ctx, run, params) }, nil
	}}
}
