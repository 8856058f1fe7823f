package holdfast

import (
	"io"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs"
)

// Option adjusts a Replica.
type Option func(*app.Options)

// WithHandlers adds handlers to the built-in ones: sql, http and command.
func WithHandlers(handlers ...jobs.Registration) Option {
	return func(o *app.Options) { o.Handlers = append(o.Handlers, handlers...) }
}

// WithMiddleware wraps all handlers, the built-in ones too. The first one given
// is the outermost.
func WithMiddleware(middleware ...jobs.Middleware) Option {
	return func(o *app.Options) { o.Middleware = append(o.Middleware, middleware...) }
}

// WithListeners calls the listeners with the events of this replica's firings.
func WithListeners(listeners ...jobs.Listener) Option {
	return func(o *app.Options) { o.Listeners = append(o.Listeners, listeners...) }
}

// WithLog makes the replica log to log. Without it, the replica logs to standard
// error as its configuration says. Lines that handlers log go to output, which
// may be nil, and are stored with their runs.
func WithLog(log zerolog.Logger, output io.Writer) Option {
	return func(o *app.Options) { o.Log, o.LogOutput = &log, output }
}
