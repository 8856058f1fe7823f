package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs"
)

const undeliveredHeader = "DELIVERY\tWEBHOOK\tJOB\tRUN\tSTATE\tENDED\tTRIES\tNEXT TRY\tERROR"

func (c *commandLine) webhooksCommand() *cobra.Command {
	var filter jobs.UndeliveredFilter
	cmd := &cobra.Command{
		Use:   "webhooks",
		Short: "List what webhooks could not be told so far, and what was given up",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if filter.Limit < 1 || filter.Limit > jobs.MaxBatch {
				return fmt.Errorf("-n: expected 1 to %d, found %d", jobs.MaxBatch, filter.Limit)
			}
			return c.withOperations(cmd.Context(), func(ops *jobs.Operations, _ jobs.Store) error {
				list, err := ops.Undelivered(cmd.Context(), filter)
				if err != nil {
					return err
				}
				rows := make([][]string, len(list))
				for i, u := range list {
					rows[i] = undeliveredRow(u)
				}
				return c.print(append([]jobs.Undelivered{}, list...), undeliveredHeader, rows)
			})
		},
	}
	cmd.Flags().StringVar(&filter.Webhook, "webhook", "", "only what this `webhook` was to be told")
	cmd.Flags().BoolVar(&filter.GivenUp, "given-up", false, "only what is tried no more")
	cmd.Flags().IntVarP(&filter.Limit, "count", "n", jobs.MaxBatch, "how many deliveries")
	cmd.AddCommand(c.deliverAgainCommand())
	return cmd
}

func undeliveredRow(u jobs.Undelivered) []string {
	return []string{u.ID.String(), u.Webhook, u.Job, u.Run.String(), string(u.State),
		clock(&u.CreatedAt), fmt.Sprint(u.Tries), next(u.NextAt), u.Error}
}

func next(at *time.Time) string {
	if at == nil {
		return "given up"
	}
	return clock(at)
}
