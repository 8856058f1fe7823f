package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrUnknownHandler is wrapped by the error for a job whose handler is not registered.
var ErrUnknownHandler = errors.New("unknown handler")

// Registry holds the handlers of a program by name. It does not change after
// NewRegistry and may be used concurrently.
type Registry struct {
	handlers   map[string]Registration
	middleware []Middleware
}

// NewRegistry returns a registry of the handlers. It refuses empty and
// repeated names.
func NewRegistry(handlers ...Registration) (*Registry, error) {
	r := &Registry{handlers: make(map[string]Registration, len(handlers))}
	for _, h := range handlers {
		if h.Name == "" || h.handler == nil {
			return nil, errors.New("a handler needs a name and a function: use jobs.Handle")
		}
		if _, taken := r.handlers[h.Name]; taken {
			return nil, fmt.Errorf("handler %q is registered twice", h.Name)
		}
		r.handlers[h.Name] = h
	}
	return r, nil
}

// With returns the registry with its handlers wrapped in the middleware, the outermost first.
func (r *Registry) With(middleware []Middleware) *Registry {
	return &Registry{handlers: r.handlers, middleware: middleware}
}

// Names returns the handlers' names, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.handlers)) }

// ParamNames returns the keys that the params of the handler can have, or nil if it can have any.
func (r *Registry) ParamNames(handler string) []string {
	if h, known := r.handlers[handler]; known {
		return h.handler.paramNames()
	}
	return nil
}

// NeedsPostgres reports whether the named handler works only with PostgreSQL.
func (r *Registry) NeedsPostgres(handler string) bool { return r.handlers[handler].postgres }

// Bind decodes params for the named handler. It returns an error that wraps
// ErrUnknownHandler, or a *ParamsError with every mistake found.
func (r *Registry) Bind(handler string, params json.RawMessage) (HandlerFunc, error) {
	h, ok := r.handlers[handler]
	if !ok {
		return nil, fmt.Errorf("%w %q: registered are %q", ErrUnknownHandler, handler, r.Names())
	}
	bound, err := h.handler.bind(params)
	if err != nil {
		return nil, err
	}
	for _, wrap := range slices.Backward(r.middleware) {
		bound = wrap(bound)
	}
	return bound, nil
}
