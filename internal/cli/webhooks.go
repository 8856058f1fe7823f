package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// undeliveredHeader is the header of a table of undelivered events.
const undeliveredHeader = "DELIVERY\tWEBHOOK\tJOB\t~RUN\tSTATE\t~ENDED\tTRIES\tNEXT TRY\t" +
	"…ERROR"

// webhooksCommand returns the command "webhooks".
func (c *commandLine) webhooksCommand() *cobra.Command {
	var filter storage.UndeliveredFilter
	cmd := remotely(&cobra.Command{
		Use:   "webhooks",
		Short: "List webhook deliveries that failed, and those that were given up",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if filter.Limit < 1 || filter.Limit > storage.MaxBatch {
				return fmt.Errorf("-n: expected 1 to %d, found %d", storage.MaxBatch, filter.Limit)
			}
			return c.withCluster(cmd.Context(), func(in cluster) error {
				list, err := in.Undelivered(cmd.Context(), filter)
				if err != nil {
					return err
				}
				rows := make([][]string, len(list))
				for i, u := range list {
					rows[i] = undeliveredRow(u)
				}
				return c.print(list, undeliveredHeader, rows)
			})
		},
	})
	cmd.Flags().StringVar(&filter.Webhook, "webhook", "", "only deliveries to this `webhook`")
	cmd.Flags().BoolVar(&filter.GivenUp, "given-up", false, "only deliveries that were given up")
	cmd.Flags().IntVarP(&filter.Limit, "count", "n", storage.MaxBatch,
		"maximum `number` of deliveries")
	c.completesFlag(cmd, "webhook", webhooksIn)
	cmd.AddCommand(c.deliverAgainCommand())
	return cmd
}

// undeliveredRow returns the row of an event under undeliveredHeader.
func undeliveredRow(u storage.Undelivered) []string {
	return []string{u.ID.String(), u.Webhook, u.Job, u.Run.String(), string(u.State),
		clock(&u.CreatedAt), fmt.Sprint(u.Tries), nextTry(u.NextAt), u.Error}
}

// nextTry returns the time of the next try as text.
func nextTry(at *time.Time) string {
	if at == nil {
		return "given up"
	}
	return clock(at)
}
