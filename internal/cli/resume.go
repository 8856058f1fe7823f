package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs"
)

func (c *commandLine) resumeCommand() *cobra.Command {
	var flags targetFlags
	cmd := c.actionCommand(&cobra.Command{
		Use: "resume JOB | --group GROUP | --all", Short: "Start scheduled firings again",
		Args: cobra.MaximumNArgs(1),
		Long: `Start scheduled firings again. What was due meanwhile is decided by each job's misfire policy.`,
	}, func(ctx context.Context, a *acting, args []string) error {
		target, err := flags.target(args)
		if err != nil {
			return err
		}
		return a.withOperations(ctx, func(ops *jobs.Operations, _ jobs.Store) error {
			p, err := ops.Resume(ctx, a.action(), target)
			if errors.Is(err, jobs.ErrNotFound) {
				return fmt.Errorf("%s is not paused itself: scheduler pauses shows what is", target)
			}
			if err != nil {
				return err
			}
			return a.printPauses(p, p)
		})
	})
	flags.add(cmd)
	return cmd
}
