package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs"
)

func (c *commandLine) deliverAgainCommand() *cobra.Command {
	return c.actionCommand(&cobra.Command{
		Use: "again DELIVERY", Short: "Tell a webhook once more what it could not be told",
		Args: cobra.ExactArgs(1),
		Long: `Tell a webhook once more what it could not be told, within about a second, by any replica that has the webhook. Also what was
given up: it is tried as often again as at first.`,
	}, func(ctx context.Context, a *acting, args []string) error {
		id, err := uuid.Parse(args[0])
		if err != nil {
			return fmt.Errorf("expected a delivery's id as scheduler webhooks shows it, found %q",
				args[0])
		}
		return a.withOperations(ctx, func(ops *jobs.Operations, _ jobs.Store) error {
			u, err := ops.DeliverAgain(ctx, a.action(), id)
			if errors.Is(err, jobs.ErrNotFound) {
				return fmt.Errorf("no delivery %s is undelivered: it was delivered by now, or is "+
					"forgotten; scheduler webhooks lists them", id)
			}
			if err != nil {
				return err
			}
			return a.print(u, undeliveredHeader, [][]string{undeliveredRow(u)})
		})
	})
}
