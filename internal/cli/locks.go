package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/locking"
)

func (c *commandLine) locksCommand() *cobra.Command {
	return &cobra.Command{
		Use: "locks", Short: "List the resources that are held, and by whom", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withStore(cmd.Context(), func(config *configs.Config, store app.Storage) error {
				return withStage1(cmd.Context(), config, store, func(locker *locking.Locker) error {
					var stage1 admin.Advisory
					if locker != nil {
						stage1 = locker
					}
					list, err := admin.Locks(cmd.Context(), store, stage1)
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
