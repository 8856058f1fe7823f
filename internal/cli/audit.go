package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// auditCommand returns the command "audit".
func (c *commandLine) auditCommand() *cobra.Command {
	var filter storage.AuditFilter
	cmd := &cobra.Command{
		Use: "audit", Short: "List the actions of operators, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if filter.Limit < 1 || filter.Limit > storage.MaxBatch {
				return fmt.Errorf("-n: expected 1 to %d, found %d", storage.MaxBatch, filter.Limit)
			}
			return c.withOperations(cmd.Context(),
				func(ops *operations.Operations, _ storage.History) error {
					lines, err := ops.Audit(cmd.Context(), filter)
					if err != nil {
						return err
					}
					rows := make([][]string, len(lines))
					for i, l := range lines {
						rows[i] = []string{clock(&l.At), l.Actor, l.Via, l.Proof, l.Client,
							l.Replica, l.Action, l.Target, l.Reason, l.RequestID}
					}
					return c.print(append([]storage.Audited{}, lines...),
						"AT\tWHO\tVIA\tPROOF\tCLIENT\tREPLICA\tACTION\tTARGET\tREASON\tREQUEST",
						rows)
				})
		},
	}
	cmd.Flags().StringVar(&filter.Actor, "actor", "", "only actions of this `user`")
	cmd.Flags().StringVar(&filter.Action, "action", "",
		"only actions of this `kind`, such as pause or release")
	cmd.Flags().StringVar(&filter.Target, "target", "",
		"only actions on this `target`, such as \"job rollup-sales\"")
	cmd.Flags().IntVarP(&filter.Limit, "count", "n", 50, "maximum `number` of entries")
	cmd.AddCommand(c.auditExportCommand(), c.auditVerifyCommand())
	return cmd
}
