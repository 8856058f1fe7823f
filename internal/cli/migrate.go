package cli

import (
	"fmt"
	"os"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
)

// migrateCommand returns the command "migrate".
func (c *commandLine) migrateCommand() *cobra.Command {
	var restored bool
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring the database schema up to date", Args: cobra.NoArgs,
		Long: `Bring the database schema up to date.

With --restored, all later fencing tokens are larger than those that were drawn
before the database was restored. PostgreSQL needs the flag only after a restore
that replicas do not detect, such as that of a snapshot of the disk.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := c.load()
			if err != nil {
				return err
			}
			config.Database.Migrate = true
			logging := configs.Log{Level: "info", Format: config.Log.Format}
			log, _, _ := app.NewLog(logging, os.Stderr)
			bar := c.progress("migrating the schema", 0)
			defer bar.end()
			// The bar and a line of the log cannot share the terminal.
			log = log.Hook(zerolog.HookFunc(
				func(*zerolog.Event, zerolog.Level, string) { bar.end() }))
			store, err := openDatabase(cmd.Context(), config, true, log)
			if err != nil {
				return err
			}
			defer store.Close()
			result := map[string]any{"cluster": store.ClusterID()}
			text := fmt.Sprintf("schema is up to date, cluster %s", store.ClusterID())
			if restored {
				raised, err := store.RaiseTokensBy(cmd.Context(), actionOf(""))
				if err != nil {
					return err
				}
				result["tokens"] = raised
				text += fmt.Sprintf("\nfencing tokens raised from %d to %d", raised.From, raised.To)
			}
			bar.end()
			return c.print(result, text, nil)
		},
	}
	cmd.Flags().BoolVar(&restored, "restored", false,
		"raise the fencing tokens, because the database was restored")
	return cmd
}
