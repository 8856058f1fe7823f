package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// locksCommand returns the command "locks".
func (c *commandLine) locksCommand() *cobra.Command {
	return remotely(&cobra.Command{
		Use: "locks", Short: "List locked resources and their holders", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withCluster(cmd.Context(), func(in cluster) error {
				list, err := in.Locks(cmd.Context())
				if err != nil {
					return err
				}
				rows := make([][]string, len(list))
				for i, l := range list {
					rows[i] = []string{
						l.Resource, string(l.Mode), l.Holder.Job, l.Holder.Replica,
						l.Holder.Run, fmt.Sprint(l.Token),
						clock(&l.Since), clock(&l.ExpiresAt), string(l.Advisory),
					}
				}
				return c.print(list,
					"RESOURCE\tMODE\tJOB\tREPLICA\t~RUN\tTOKEN\tSINCE\t~EXPIRES\t~ADVISORY LOCK",
					rows)
			})
		},
	})
}
