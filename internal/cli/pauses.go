package cli

import "github.com/spf13/cobra"

// pausesCommand returns the command "pauses".
func (c *commandLine) pausesCommand() *cobra.Command {
	return remotely(&cobra.Command{
		Use: "pauses", Short: "List active pauses", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withCluster(cmd.Context(), func(in cluster) error {
				active, err := in.Pauses(cmd.Context())
				if err != nil {
					return err
				}
				return c.printPauses(active, active...)
			})
		},
	})
}
