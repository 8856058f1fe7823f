package cli

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// withStore calls use with the configured store. Replicas may use the same store at the same time.
func (c *commandLine) withStore(
	ctx context.Context, use func(*configs.Config, app.Storage) error,
) error {
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

// withLocker calls use with a locker that reads and releases advisory locks. The locker is nil if
// there is no memcached: the locks are then in the memory of another process, or do not exist.
func withLocker(
	ctx context.Context, config *configs.Config, store app.LockStore,
	use func(*locking.Locker) error,
) error {
	if config.Locking.Memcached == nil {
		return use(nil)
	}
	backend, err := app.NewLockBackend(config, zerolog.Nop())
	if err != nil {
		return err
	}
	defer backend.Close() //nolint:errcheck // no lock depends on these connections
	locker, err := app.NewLocker(config, backend, store, nil, zerolog.Nop())
	if err != nil {
		return err
	}
	return use(locker)
}

// withOperations calls use with the actions of operators on the configured cluster.
func (c *commandLine) withOperations(
	ctx context.Context, use func(*operations.Operations, storage.History) error,
) error {
	registry, err := app.NewRegistry(c.program.Handlers)
	if err != nil {
		return err
	}
	return c.withStore(ctx, func(config *configs.Config, store app.Storage) error {
		current := func() *configs.Config { return config }
		specs := app.SpecParser{Config: current, Registry: registry}
		return withLocker(ctx, config, store, func(locker *locking.Locker) error {
			operations := app.NewOperations(specs, app.Jobs(config), store, store.Outbox, locker,
				"", nil, zerolog.Nop())
			return use(operations, store)
		})
	})
}
