package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs"
)

func (c *commandLine) pausesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "pauses", Short: "List what is paused, since when and by whom", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withOperations(cmd.Context(), func(ops *jobs.Operations, _ jobs.Store) error {
				standing, err := ops.ActivePauses(cmd.Context())
				if err != nil {
					return err
				}
				return c.printPauses(append([]jobs.Pause{}, standing...), standing...)
			})
		},
	}
}
