package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/locking"
)

// locksCommand returns the command "locks".
func (c *commandLine) locksCommand() *cobra.Command {
	return &cobra.Command{
		Use: "locks", Short: "List locked resources and their holders", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return c.withStore(ctx, func(config *configs.Config, store app.Storage) error {
				return withLocker(ctx, config, store, func(locker *locking.Locker) error {
					var advisory admin.Advisory // not a nil *locking.Locker
					if locker != nil {
						advisory = locker
					}
					list, err := admin.Locks(ctx, store, advisory)
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
						"RESOURCE\tMODE\tJOB\tREPLICA\tRUN\tTOKEN\tSINCE\tEXPIRES\tADVISORY LOCK",
						rows)
				})
			})
		},
	}
}
