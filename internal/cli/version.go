package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/app"
)

// versionCommand returns the command "version".
func (c *commandLine) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			version := app.Version()
			return c.print(map[string]string{"version": version}, "holdfast "+version, nil)
		},
	}
}
