package cli

import (
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/app"
)

// versionCommand returns the command "version".
func (c *commandLine) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			info, _ := debug.ReadBuildInfo() // nil without one
			build := app.BuildOf(info)
			return c.print(build, build.String(), nil)
		},
	}
}
