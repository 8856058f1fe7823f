package holdfast

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
)

func (c *commandLine) runCommand() *cobra.Command {
	return &cobra.Command{
		Use: "run", Short: "Run a replica until it is told to stop", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := c.load()
			if err != nil {
				return err
			}
			log, output := newLog(config.Log, os.Stderr)
			replica, err := New(config, WithHandlers(c.handlers...), WithLog(log, output))
			if err != nil {
				return err
			}
			return replica.Run(cmd.Context())
		},
	}
}

func (c *commandLine) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "validate", Short: "Check the configuration, and say all that is wrong with it", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			config, err := c.load()
			if err != nil {
				return err
			}
			return c.print(map[string]any{"config": c.configPath, "jobs": len(config.Jobs), "valid": true},
				fmt.Sprintf("%s is valid: %d jobs", c.configPath, len(config.Jobs)), nil)
		},
	}
}

func (c *commandLine) migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Bring the database's schema up to date", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := c.load()
			if err != nil {
				return err
			}
			config.Database.Migrate = true
			log, _ := newLog(configs.Log{Level: "info", Format: config.Log.Format}, os.Stderr)
			store, err := openStore(cmd.Context(), config, true, log)
			if err != nil {
				return err
			}
			defer store.Close()
			return c.print(map[string]any{"cluster": store.ClusterID()}, fmt.Sprintf("schema is up to date, cluster %s", store.ClusterID()), nil)
		},
	}
}

func (c *commandLine) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return c.print(map[string]string{"version": Version()}, "holdfast "+Version(), nil)
		},
	}
}
