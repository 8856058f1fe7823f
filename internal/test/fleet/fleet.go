package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/holdfast-dev/holdfast/internal/test/servertest"
)

// Fleet is the servers that members share, and the folder of the members' logs.
type Fleet struct {
	Postgres  *servertest.Postgres
	Memcached *servertest.Memcached
	URL       string // of the database that members use

	dir     string
	program string
}

// New starts the servers. Stop ends them.
func New(ctx context.Context) (_ *Fleet, err error) {
	f := &Fleet{}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Stop())
		}
	}()
	if f.program, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("path of this program: %w", err)
	}
	if f.dir, err = os.MkdirTemp("", "fleet-"); err != nil {
		return nil, fmt.Errorf("folder for logs: %w", err)
	}
	if f.Memcached, err = servertest.StartMemcached(ctx); err != nil {
		return nil, err
	}
	if f.Postgres, err = servertest.StartPostgres(ctx, ""); err != nil {
		return nil, err
	}
	f.URL = f.Postgres.URL("postgres")
	return f, nil
}

// Stop ends the servers. All members must have ended before.
func (f *Fleet) Stop() error {
	var problems []error
	if f.Postgres != nil {
		problems = append(problems, f.Postgres.Stop())
	}
	if f.Memcached != nil {
		problems = append(problems, f.Memcached.Stop())
	}
	if f.dir != "" {
		problems = append(problems, os.RemoveAll(f.dir))
	}
	return errors.Join(problems...)
}
