package holdfast

import (
	"errors"
	"slices"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
)

// ForCommands returns the handlers, jobs and hooks of options. Programs use package cli, because
// only this module can use the result. An option that sets the configuration is an error.
func ForCommands(given ...Option) (app.Options, error) {
	o := newOptions(given)
	if o.fromFile || o.given || len(o.changes) > 0 {
		return app.Options{}, errors.New("found an option that sets the configuration, expected " +
			"the flag --config")
	}
	if err := errors.Join(o.mistakes...); err != nil {
		return app.Options{}, err
	}
	return o.Options, nil
}

// ForTest is [New] for package holdfasttest. Programs use that package, because only this module
// can make a Shared. The replica has the store and the locks of shared instead of the configured
// ones. Its name is "test". It has no address for a page, no webhooks, no collector of traces, and
// its audit log has no chain.
func ForTest(shared *app.Shared, given ...Option) (*Replica, *app.Replica, error) {
	inMemory := change(urlKey, func(c *configs.Config) {
		c.Database = configs.Defaults().Database
		// The jobs may have handlers for PostgreSQL, which New refuses with SQLite.
		c.Database.URL = configs.NewSecret("postgres://holdfasttest")
		c.Locking.Memcached, c.Tracing, c.Webhooks = nil, nil, nil
		c.Admin.Listen, c.Audit.Chain = "", false
		c.Replica = configs.Replica{Name: "test"}
	})
	replica, err := newReplica(append(slices.Clip(given), inMemory, func(o *options) {
		o.Pool, o.stores = nil, nil
		o.Shared = shared
	}))
	if err != nil {
		return nil, nil, err
	}
	return replica, replica.app, nil
}
