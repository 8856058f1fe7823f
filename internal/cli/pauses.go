package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// pausesCommand returns the command "pauses".
func (c *commandLine) pausesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "pauses", Short: "List active pauses", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withOperations(cmd.Context(),
				func(ops *operations.Operations, _ storage.History) error {
					active, err := ops.ActivePauses(cmd.Context())
					if err != nil {
						return err
					}
					return c.printPauses(append([]storage.Pause{}, active...), active...)
				})
		},
	}
}
