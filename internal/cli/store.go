package cli

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs/sqlite"
)

// openDatabase is app.OpenStore with SQLite.
func openDatabase(ctx context.Context, config *configs.Config, running bool,
	log zerolog.Logger) (app.Storage, error) {
	return app.OpenStore(ctx, config, app.Connection{Driver: sqlite.Driver}, running, log)
}

// withStore calls use with the configured store. Replicas may use the same store at the same time.
func (c *commandLine) withStore(
	ctx context.Context, use func(*configs.Config, app.Storage) error,
) error {
	config, err := c.load()
	if err != nil {
		return err
	}
	store, err := openDatabase(ctx, config, false, zerolog.Nop())
	if err != nil {
		return err
	}
	defer store.Close()
	return use(config, store)
}
