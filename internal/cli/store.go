package cli

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// withStore calls use with the configured store, opened beside the replicas
// that may be running.
func (c *commandLine) withStore(ctx context.Context,
	use func(*configs.Config, app.Storage) error) error {
	config, err := c.load()
	if err != nil {
		return err
	}
	store, err := app.OpenStore(ctx, config, false, zerolog.Nop())
	if err != nil {
		return err
	}
	defer store.Close()
	return use(config, store)
}

// withStage1 calls use with a locker that only looks, or nil where the locks
// are in the memory of another process or there are none.
func withStage1(ctx context.Context, config *configs.Config, store jobs.Store,
	use func(*locking.Locker) error) error {
	if config.Locking.Memcached == nil {
		return use(nil)
	}
	backend, err := app.NewLockBackend(config, zerolog.Nop())
	if err != nil {
		return err
	}
	defer backend.Close() //nolint:errcheck // nothing was held
	locker, err := app.NewLocker(config, backend, store, nil, zerolog.Nop())
	if err != nil {
		return err
	}
	return use(locker)
}

// withOperations calls use with the operations of the configured cluster.
func (c *commandLine) withOperations(ctx context.Context,
	use func(*jobs.Operations, jobs.Store) error) error {
	registry, err := app.NewRegistry(c.handlers)
	if err != nil {
		return err
	}
	return c.withStore(ctx, func(config *configs.Config, store app.Storage) error {
		table := app.Jobs(config)
		return withStage1(ctx, config, store, func(locker *locking.Locker) error {
			return use(app.NewOperations(app.Specs{Config: func() *configs.Config { return config }, Registry: registry},
				table, store, store.Outbox, locker, "", nil, zerolog.Nop()), store)
		})
	})
}
