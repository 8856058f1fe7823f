package holdfast

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-dev/holdfast/admin/page"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/internal/tracing"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Option adjusts a program: its configuration, jobs, handlers and log.
type Option func(*options)

type options struct {
	app.Options
	config   *configs.Config // nil: file, or an embedded replica
	given    bool            // WithConfig was given
	file     string          // of WithConfigFile
	fromFile bool            // WithConfigFile was given
	jobs     []builtJob
	stores   []string                // the options that set the database, each once
	changes  []func(*configs.Config) // of the configuration
	replaced []string                // the keys that changes set
	noURL    bool                    // WithPostgres was given an empty URL
	mistakes []error                 // in the values of options
}

// urlKey is the key of the database.
const urlKey = "database.url"

// setsDatabase returns the option with that name, which sets the database by the URL.
func setsDatabase(name, url string) Option {
	return func(o *options) {
		if !slices.Contains(o.stores, name) {
			o.stores = append(o.stores, name)
		}
		change(urlKey, func(c *configs.Config) { c.Database.URL = configs.NewSecret(url) })(o)
	}
}

// driverAdvice is how to get a driver for SQLite.
const driverAdvice = "sqlite.Driver of the package github.com/holdfast-dev/holdfast/jobs/sqlite"

// requireDatabase returns an error if no option sets the database or the configuration, and the
// program cannot open the default database.
func (o *options) requireDatabase() error {
	if slices.Contains(o.replaced, urlKey) || o.given || o.fromFile || o.Driver != nil {
		return nil
	}
	return errors.New("found no database, expected holdfast.WithPostgres, " +
		"holdfast.WithPostgresPool, or holdfast.WithSQLite with " + driverAdvice)
}

// checkDatabase returns an error if the options set two databases, an empty URL, or a pool or a
// driver that is nil.
func (o *options) checkDatabase() error {
	switch {
	case len(o.stores) > 1:
		return fmt.Errorf("found %s, expected one of them", strings.Join(o.stores, " and "))
	case slices.Contains(o.stores, withPostgres) && o.noURL:
		return errors.New(`found "" in WithPostgres, expected a URL such as ` +
			"postgres://holdfast@db/app")
	case slices.Contains(o.stores, withPool) && o.Pool == nil:
		return errors.New("found nil in WithPostgresPool, expected a pool")
	case slices.Contains(o.stores, withSQLite) && o.Driver == nil:
		return errors.New("found nil as the driver in WithSQLite, expected " + driverAdvice)
	}
	return nil
}

// change returns the option to set a key of the configuration by f.
func change(key string, f func(*configs.Config)) Option {
	return func(o *options) {
		o.changes, o.replaced = append(o.changes, f), append(o.replaced, key)
	}
}

func newOptions(given []Option) *options {
	o := &options{}
	for i, option := range given {
		if option == nil {
			o.mistakes = append(o.mistakes,
				fmt.Errorf("found nil as option %d, expected an Option", i+1))
			continue
		}
		option(o)
	}
	o.addJobs()
	return o
}

// require adds a mistake if the value of the named option is nil, or a pointer or function that is
// nil. It reports whether the option can use the value.
func (o *options) require(value any, option, expected string) bool {
	switch v := reflect.ValueOf(value); {
	case !v.IsValid():
	case v.Kind() != reflect.Pointer && v.Kind() != reflect.Func || !v.IsNil():
		return true
	}
	o.mistakes = append(o.mistakes, fmt.Errorf("found nil in %s, expected %s", option, expected))
	return false
}

// addJobs adds the jobs of WithJobs and the handlers that they bring. A Run becomes a handler with
// the name of the job, so no other handler can have this name.
func (o *options) addJobs() {
	taken := map[string]bool{}
	for _, name := range app.BuiltInHandlers() {
		taken[name] = true
	}
	for _, h := range o.Handlers {
		taken[h.Name] = true
	}
	o.Jobs = make([]configs.BuiltJob, len(o.jobs))
	own := map[string]bool{"": true} // the configuration reports repeated and empty names
	for i, b := range o.jobs {
		switch {
		case b.handler == nil || own[b.Name]:
		case taken[b.Name]:
			b.mistakes = append(b.mistakes, configs.Mistake{Key: "handler", Message: fmt.Sprintf(
				"found Run, and a handler with the name %q of the job, expected another name",
				b.Name)})
		default:
			own[b.Name] = true
			o.Handlers = append(o.Handlers, *b.handler)
		}
		o.Jobs[i] = configs.NewBuiltJob(b.Job, b.mistakes...)
	}
	o.jobs = nil
}

// WithConfigFile reads the configuration from a YAML file. Its mistakes and those of [WithJobs] are
// reported together. It cannot be combined with [WithConfig].
func WithConfigFile(path string) Option {
	return func(o *options) { o.file, o.fromFile = path, true }
}

// WithConfig sets the configuration. It comes from configs.Load, configs.Parse or configs.Defaults,
// and the program may have changed its fields. New does not change it, and refuses nil.
//
// Without WithConfig and WithConfigFile, the replica has the configuration of configs.Defaults, but
// without its page. [WithPage] sets an address for the page.
func WithConfig(config *configs.Config) Option {
	return func(o *options) { o.config, o.given = config, true }
}

// WithPostgres sets the database: a libpq URL, such as postgres://holdfast@db/app. It cannot be
// combined with [WithPostgresPool] and [WithSQLite].
func WithPostgres(url string) Option {
	return func(o *options) {
		o.noURL = strings.TrimSpace(url) == ""
		setsDatabase(withPostgres, url)(o)
	}
}

const withPostgres = "WithPostgres"

const withPool = "WithPostgresPool"

// WithPostgresPool sets the database: PostgreSQL, by a pool of the program. Runs start and finish
// on its connections, and the transactions of jobs use them too. Holdfast takes at most half of
// them at the same time, and at most database.max_connections. It needs 3 of them, so New
// refuses a pool of fewer than 6. Holdfast does not close the pool, and changes no settings of its
// connections.
//
// Heartbeats, notifications and queries of the page have connections of their own, at most 5, with
// the settings of the pool. So a busy pool delays no heartbeat.
func WithPostgresPool(pool *pgxpool.Pool) Option {
	return func(o *options) {
		o.Pool = pool
		// The configuration only tells PostgreSQL from SQLite by the URL.
		setsDatabase(withPool, "postgres://pool-of-the-program")(o)
	}
}

// WithSchema sets the PostgreSQL schema of Holdfast's tables, which is holdfast by default.
// Clusters with different schemas can share a database.
func WithSchema(name string) Option {
	return change("database.schema", func(c *configs.Config) { c.Database.Schema = name })
}

const withSQLite = "WithSQLite"

// WithSQLite sets the database: a file, which belongs to one process. The driver is sqlite.Driver
// of package jobs/sqlite.
func WithSQLite(driver storage.Driver, path string) Option {
	return func(o *options) {
		o.Driver = driver
		setsDatabase(withSQLite, "sqlite://"+filepath.ToSlash(path))(o)
	}
}

// WithDriver lets the configuration name a SQLite file as the database. The driver is sqlite.Driver
// of package jobs/sqlite. Without it, New refuses a configuration whose database.url begins with
// sqlite://. [WithSQLite] includes it.
func WithDriver(driver storage.Driver) Option {
	return func(o *options) {
		o.require(driver, "WithDriver", driverAdvice)
		o.Driver = driver
	}
}

// WithMemcached sets the memcached servers, host:port each, that have the advisory locks. All
// replicas must have the same servers in the same order.
func WithMemcached(servers ...string) Option {
	return change("locking.memcached.servers", func(c *configs.Config) {
		m := configs.NewMemcached(servers...)
		if given := c.Locking.Memcached; given != nil {
			*m = *given
			m.Servers = servers
		}
		c.Locking.Memcached = m
	})
}

// WithReplicaName sets the name of the replica, which must differ between live replicas. If a
// replica was killed, the next process with its name ends the old session at once.
func WithReplicaName(name string) Option {
	return change("replica.name", func(c *configs.Config) {
		c.Replica = configs.Replica{Name: name}
	})
}

// pageAdvice is how to get a maker of the page.
const pageAdvice = "admin.Page of the package github.com/holdfast-dev/holdfast/admin"

// WithPage sets the address of the admin page, host:port. The maker is admin.Page of package admin.
func WithPage(maker page.Maker, listen string) Option {
	return func(o *options) {
		o.require(maker, "WithPage", pageAdvice)
		o.Page = maker
		change("admin.listen", func(c *configs.Config) { c.Admin.Listen = listen })(o)
	}
}

// WithAdmin lets the configuration set the address of the admin page. The maker is admin.Page of
// package admin. Without it, New refuses a configuration that has an address in admin.listen.
// [WithPage] includes it, and [Replica.Admin] does not need it.
func WithAdmin(maker page.Maker) Option {
	return func(o *options) {
		o.require(maker, "WithAdmin", pageAdvice)
		o.Page = maker
	}
}

// WithJobs adds jobs to those of the configuration.
func WithJobs(jobs ...AnyJob) Option {
	return func(o *options) {
		o.jobs = slices.Grow(o.jobs, len(jobs))
		for _, j := range jobs {
			if o.require(j, "WithJobs", "a holdfast.Job") {
				o.jobs = append(o.jobs, j.build())
			}
		}
	}
}

// WithHandlers adds handlers to the built-in ones: sql, http and command.
func WithHandlers(handlers ...jobs.Registration) Option {
	return func(o *options) { o.Handlers = append(o.Handlers, handlers...) }
}

// WithMiddleware wraps all handlers, the built-in ones too. The first one given
// is the outermost.
func WithMiddleware(middleware ...jobs.Middleware) Option {
	return func(o *options) {
		for _, m := range middleware {
			o.require(m, "WithMiddleware", "a jobs.Middleware")
		}
		o.Middleware = append(o.Middleware, middleware...)
	}
}

// WithListeners calls the listeners with the events of this replica's firings.
func WithListeners(listeners ...jobs.Listener) Option {
	return func(o *options) {
		for _, l := range listeners {
			o.require(l, "WithListeners", "a jobs.Listener")
		}
		o.Listeners = append(o.Listeners, listeners...)
	}
}

// WithAuthorizer sets the Authorizer that decides what each user of the page and its API may do.
// Without it, their roles decide.
func WithAuthorizer(a permission.Authorizer) Option {
	return func(o *options) {
		o.require(a, "WithAuthorizer", "a permission.Authorizer")
		o.Authorizer = a
	}
}

// WithLog sends the log of the replica to the given logger. Without WithLog or WithSlog,
// the replica logs to standard error as its configuration says. Lines that handlers log go to
// output, which may be nil, and are stored with their runs.
func WithLog(log zerolog.Logger, output io.Writer) Option {
	return func(o *options) { o.Log, o.LogOutput = &log, output }
}

// WithSlog sends the log of the replica to the given logger. Lines that handlers log go there too,
// and are stored with their runs. The handler of log decides which levels are logged.
func WithSlog(log *slog.Logger) Option {
	return func(o *options) {
		if !o.require(log, "WithSlog", "a logger") {
			return
		}
		bridge := app.NewSlogWriter(log)
		own := bridge.Logger()
		o.Log, o.LogOutput = &own, bridge
	}
}

// WithTracerProvider writes a trace of each run to the provider, instead of to the collector of the
// configuration. The trace has the id of the run. To give it this id, Holdfast starts the root span
// with a remote parent, which is never recorded. The parent counts as sampled, so a sampler that
// follows the parent records every run. A sampler that decides by the id of the trace records a
// part of the runs. The spans of a handler belong to the trace if the handler passes its context
// on.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(o *options) {
		o.require(provider, "WithTracerProvider", "a trace.TracerProvider")
		o.Tracers = provider
	}
}

// WithTracing lets the configuration have the section tracing, which names a collector. The
// exporter is otlp.Exporter of package github.com/holdfast-dev/holdfast/otlp. Without WithTracing,
// New refuses such a configuration.
func WithTracing(exporter tracing.Exporter) Option {
	return func(o *options) {
		o.require(exporter, "WithTracing",
			"otlp.Exporter of the package github.com/holdfast-dev/holdfast/otlp")
		o.Exporter = exporter
	}
}

// WithRegisterer adds the metrics of docs/metrics.md to the program's own, from Open until the end
// of Run. The page serves them too. A Registerer takes the metrics of one replica only. For several
// replicas, use prometheus.WrapRegistererWith.
func WithRegisterer(registerer prometheus.Registerer) Option {
	return func(o *options) {
		o.require(registerer, "WithRegisterer", "a prometheus.Registerer")
		o.Registerer = registerer
	}
}
