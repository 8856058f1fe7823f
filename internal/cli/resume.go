package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// resumeCommand returns the command "resume".
func (c *commandLine) resumeCommand() *cobra.Command {
	var flags targetFlags
	cmd := c.actionCommand(&cobra.Command{
		Use: "resume JOB | --group GROUP | --all", Short: "Resume paused scheduled firings",
		Args: cobra.MaximumNArgs(1),
		Long: `Resume the scheduled firings of a job, a group or all jobs. The misfire policy of
each job decides on the scheduled times that passed during the pause.`,
	}, func(ctx context.Context, a *actionLine, args []string) error {
		target, err := flags.target(args)
		if err != nil {
			return err
		}
		return a.withCluster(ctx, func(in cluster) error {
			p, err := in.Resume(ctx, a.reason, target)
			if errors.Is(err, storage.ErrNotFound) {
				return withPauseAdvice(ctx, in, target)
			}
			if err != nil {
				return err
			}
			return a.printPauses(p, p)
		})
	})
	flags.add(cmd)
	c.completesFlag(cmd, "group", groupsIn)
	return c.completes(cmd, jobsIn)
}

// withPauseAdvice returns the error for a target without a pause. The advice is a similar target:
// one with a pause, or else one that exists.
func withPauseAdvice(ctx context.Context, in cluster, target storage.Target) error {
	hint := hintIn(ctx, in, target.Name, pausedIn(target.Kind))
	if hint == "" {
		existing := jobsIn
		if target.Kind == storage.TargetGroup {
			existing = groupsIn
		}
		hint = hintIn(ctx, in, target.Name, existing)
	}
	if hint == "" {
		hint = "; list pauses with \"scheduler pauses\""
	}
	return fmt.Errorf("resume %s: it has no pause of its own%s", target, hint)
}
