package app

import (
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
)

// checkStore returns an error for each job whose handler does not work with the configured store.
func checkStore(config *configs.Config, registry *jobs.Registry) error {
	var problems []error
	for i := range config.Jobs {
		if job := &config.Jobs[i]; lacksPostgres(config, registry, job.Handler) {
			problems = append(problems, fmt.Errorf("job %q: handler %q needs PostgreSQL, and the "+
				"database is SQLite: set database.url to a postgres:// URL, or use run.InTx or "+
				"run.CompleteInTx in the handler: %w", job.Name, job.Handler, ErrNoPostgres))
		}
	}
	return errors.Join(problems...)
}

// lacksPostgres reports whether the handler needs PostgreSQL and the store is SQLite.
func lacksPostgres(config *configs.Config, registry *jobs.Registry, handler string) bool {
	_, embedded := config.Database.SQLite()
	return embedded && registry.NeedsPostgres(handler)
}

// CheckStore returns an error for each job whose handler does not work with the configured store.
func (o *Options) CheckStore(config *configs.Config) error {
	registry, err := NewRegistry(o.Handlers)
	if err != nil {
		return err
	}
	return checkStore(config, registry)
}
