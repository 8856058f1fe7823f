package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// validateCommand returns the command "validate".
func (c *commandLine) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "validate", Short: "Check the configuration and report every mistake",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			config, err := c.load()
			if err != nil {
				return err
			}
			return c.print(map[string]any{"config": c.configPath, "jobs": len(config.Jobs),
				"valid": true},
				fmt.Sprintf("%s is valid: %d jobs", c.configPath, len(config.Jobs)), nil)
		},
	}
}
