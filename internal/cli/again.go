package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// deliverAgainCommand returns the command "webhooks again".
func (c *commandLine) deliverAgainCommand() *cobra.Command {
	return c.completes(c.actionCommand(&cobra.Command{
		Use: "again DELIVERY", Short: "Repeat a webhook delivery that failed",
		Args: cobra.ExactArgs(1),
		Long: `Repeat a webhook delivery. A replica whose configuration has the webhook sends it
within about a second. This also works for a delivery that was given up. The number
of tries starts from zero again.`,
		Example: `  scheduler webhooks
  scheduler webhooks again 01a1fecc-ef57-7d76-aac5-e8f353379cd3`,
	}, func(ctx context.Context, a *actionLine, args []string) error {
		id, err := uuid.Parse(args[0])
		if err != nil {
			return fmt.Errorf(
				"delivery: expected an id from \"scheduler webhooks\", found %q", args[0])
		}
		return a.withCluster(ctx, func(in cluster) error {
			u, err := in.DeliverAgain(ctx, a.reason, id)
			if errors.Is(err, storage.ErrNotFound) {
				return fmt.Errorf("repeat delivery %s: not found among the undelivered ones; "+
					"list them with \"scheduler webhooks\"", id)
			}
			if err != nil {
				return err
			}
			return a.print(u, undeliveredHeader, [][]string{undeliveredRow(u)})
		})
	}), deliveriesIn)
}
