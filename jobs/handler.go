package jobs

import (
	"context"
	"encoding/json"
	"reflect"
)

// HandlerFunc is a handler bound to the params of one job. It executes one attempt. It must return
// soon after ctx ends; the cause of ctx has the reason. The attempt succeeds if the HandlerFunc
// returns nil, or fence.ErrCommitted because an earlier attempt has done the work.
type HandlerFunc func(ctx context.Context, run *Run) error

// Middleware wraps the handlers of all jobs. Holdfast calls it once for each job, and again for
// each run with trigger params. The HandlerFunc that it returns sees the run and the context of
// each attempt before the handler, and the error of the handler afterwards. That HandlerFunc may be
// called concurrently, and must return soon after its context ends. If it panics, the run fails as
// if the handler had panicked.
type Middleware func(next HandlerFunc) HandlerFunc

// Registration is a named handler with the decoder of its params.
type Registration struct {
	Name     string
	handler  handler
	postgres bool
}

// handler is a function with params of any type.
type handler interface {
	// bind decodes the params of a job.
	bind(params json.RawMessage) (HandlerFunc, error)
	// paramNames returns the keys of the params; nil: any.
	paramNames() []string
}

// NeedsPostgres returns the registration of a handler that uses package postgres, so that it works
// only with PostgreSQL. If the database is SQLite, a job with this handler is an error at start and
// in a reload, and cannot be added at run time.
func (r Registration) NeedsPostgres() Registration {
	r.postgres = true
	return r
}

// Validator is implemented by params with rules beyond their types. Validate returns a
// *ParamsError, or another error for the params as a whole.
type Validator interface {
	Validate() error
}

// Handle registers fn under name. The params of each job are decoded strictly into a P of its own,
// once, when the job is added. So unknown keys and wrong types are errors at that time. If P or *P
// is a Validator, it is called too. The params of different jobs may be decoded concurrently, and
// fn may be called concurrently.
func Handle[P any](name string,
	fn func(ctx context.Context, run *Run, params P) error) Registration {
	if fn == nil {
		return Registration{Name: name} // NewRegistry refuses it
	}
	return Registration{Name: name, handler: typed[P](fn)}
}

// typed is a function with params of type P.
type typed[P any] func(ctx context.Context, run *Run, params P) error

func (fn typed[P]) bind(raw json.RawMessage) (HandlerFunc, error) {
	var params P
	if err := decodeParams(raw, &params, fn.paramNames()); err != nil {
		return nil, err
	}
	return func(ctx context.Context, run *Run) error { return fn(ctx, run, params) }, nil
}

func (typed[P]) paramNames() []string { return paramNames(reflect.TypeFor[P]()) }

// Listener gets the events of this replica, one at a time; the events of one firing are in order.
// Each listener has a queue of its own. Firings do not wait for it: if the queue is full, events
// are dropped, counted and logged. Its context ends 5 s after the replica has stopped, when the
// rest of the queue is dropped. A panic is logged, and the next event follows.
type Listener func(ctx context.Context, e Event)
