package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
)

// migrateCommand returns the command "migrate".
func (c *commandLine) migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Bring the database schema up to date", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := c.load()
			if err != nil {
				return err
			}
			config.Database.Migrate = true
			logging := configs.Log{Level: "info", Format: config.Log.Format}
			log, _, _ := app.NewLog(logging, os.Stderr)
			store, err := app.OpenStore(cmd.Context(), config, true, log)
			if err != nil {
				return err
			}
			defer store.Close()
			return c.print(map[string]any{"cluster": store.ClusterID()},
				fmt.Sprintf("schema is up to date, cluster %s", store.ClusterID()), nil)
		},
	}
}
