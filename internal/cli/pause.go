package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs"
)

// targetFlags name what is paused or resumed.
type targetFlags struct {
	group string
	all   bool
}

func (t *targetFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.group, "group", "", "a `group` of jobs instead of one job")
	cmd.Flags().BoolVar(&t.all, "all", false, "everything instead of one job")
}

func (t *targetFlags) target(args []string) (jobs.Target, error) {
	named := len(args)
	if t.group != "" {
		named++
	}
	if t.all {
		named++
	}
	switch {
	case named != 1:
		return jobs.Target{}, errors.New("expected one of: a job, --group GROUP, --all")
	case t.all:
		return jobs.Target{Kind: jobs.TargetAll}, nil
	case t.group != "":
		return jobs.Target{Kind: jobs.TargetGroup, Name: t.group}, nil
	}
	return jobs.Target{Kind: jobs.TargetJob, Name: args[0]}, nil
}

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

func (c *commandLine) pausesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "pauses", Short: "List what is paused, since when and by whom", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withOperations(cmd.Context(), func(ops *jobs.Operations, _ jobs.Store) error {
				standing, err := ops.ActivePauses(cmd.Context())
				if err != nil {
					return err
				}
				return c.printPauses(append([]jobs.Pause{}, standing...), standing...)
			})
		},
	}
}

func (c *commandLine) printPauses(value any, pauses ...jobs.Pause) error {
	rows := make([][]string, len(pauses))
	for i, p := range pauses {
		rows[i] = []string{p.Target.String(), clock(&p.At), p.By, p.Reason, clock(p.ResumedAt)}
	}
	return c.print(value, "PAUSED\tSINCE\tBY\tREASON\tRESUMED", rows)
}
