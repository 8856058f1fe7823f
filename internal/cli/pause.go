package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

// pauseCommand returns the command "pause".
func (c *commandLine) pauseCommand() *cobra.Command {
	var flags targetFlags
	cmd := c.actionCommand(&cobra.Command{
		Use:   "pause JOB | --group GROUP | --all",
		Short: "Pause the scheduled firings of a job, a group or all jobs",
		Args:  cobra.MaximumNArgs(1),
		Long: `Pause the scheduled firings of a job, a group or all jobs, until "scheduler resume".
Running runs continue. A paused job can still be triggered with --even-paused.`,
		Example: `  scheduler pause rollup-sales --reason "table is being rebuilt"
  scheduler pause --group imports
  scheduler pause --all`,
	}, func(ctx context.Context, a *actionLine, args []string) error {
		target, err := flags.target(args)
		if err != nil {
			return err
		}
		return a.withCluster(ctx, func(in cluster) error {
			if flags.group != "" {
				if err := a.checkGroup(ctx, in, flags.group); err != nil {
					return fmt.Errorf("pause: %w", err)
				}
			}
			p, err := in.Pause(ctx, a.reason, target)
			if err != nil {
				return withJobAdvice(ctx, in, err, target.Name)
			}
			return a.printPauses(p, p)
		})
	})
	flags.add(cmd)
	c.completesFlag(cmd, "group", groupsIn)
	return c.completes(cmd, jobsIn)
}
