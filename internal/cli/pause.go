package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs"
)

func (c *commandLine) pauseCommand() *cobra.Command {
	var flags targetFlags
	cmd := c.actionCommand(&cobra.Command{
		Use:   "pause JOB | --group GROUP | --all",
		Short: "Start no scheduled firings of a job, a group or everything",
		Args:  cobra.MaximumNArgs(1),
		Long: `Start no scheduled firings of a job, a group or everything until it is resumed. What runs goes on; what was paused can
still be triggered with --even-paused.`,
	}, func(ctx context.Context, a *acting, args []string) error {
		target, err := flags.target(args)
		if err != nil {
			return err
		}
		return a.withOperations(ctx, func(ops *jobs.Operations, _ jobs.Store) error {
			p, err := ops.Pause(ctx, a.action(), target)
			if err != nil {
				return unknownJob(err, target.Name)
			}
			return a.printPauses(p, p)
		})
	})
	flags.add(cmd)
	return cmd
}
