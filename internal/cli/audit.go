package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/internal/suggest"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// auditCommand returns the command "audit".
func (c *commandLine) auditCommand() *cobra.Command {
	var filter storage.AuditFilter
	cmd := remotely(&cobra.Command{
		Use: "audit", Short: "List the actions of operators, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if filter.Limit < 1 || filter.Limit > storage.MaxBatch {
				return fmt.Errorf("-n: expected 1 to %d, found %d", storage.MaxBatch, filter.Limit)
			}
			if a := filter.Action; a != "" && !slices.Contains(admin.AuditActions(), a) {
				return fmt.Errorf("--action: unknown action %q%s", a,
					suggest.Hint(a, admin.AuditActions()))
			}
			return c.withCluster(cmd.Context(), func(in cluster) error {
				lines, err := in.Audit(cmd.Context(), filter)
				if err != nil {
					return err
				}
				rows := make([][]string, len(lines))
				for i, l := range lines {
					rows[i] = []string{clock(&l.At), l.Actor, l.Via, l.Proof, l.Client,
						l.Replica, l.Action, l.Target, l.Reason, l.RequestID}
				}
				return c.print(lines,
					"AT\tWHO\t~VIA\t~PROOF\t~CLIENT\t~REPLICA\tACTION\tTARGET\t…REASON\t~REQUEST",
					rows)
			})
		},
	})
	cmd.Flags().StringVar(&filter.Actor, "actor", "", "only actions of this `user`")
	cmd.Flags().StringVar(&filter.Action, "action", "",
		"only actions of this `kind`, such as pause or release")
	cmd.Flags().StringVar(&filter.Target, "target", "",
		"only actions on this `target`, such as \"job rollup-sales\"")
	cmd.Flags().IntVarP(&filter.Limit, "count", "n", 50, "maximum `number` of entries")
	completesOf(cmd, "action", admin.AuditActions())
	cmd.AddCommand(c.auditExportCommand(), c.auditVerifyCommand())
	return cmd
}
