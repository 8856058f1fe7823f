package cli

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
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
