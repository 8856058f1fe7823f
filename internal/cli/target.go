package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// targetFlags are the flags that name a target: what is paused or resumed.
type targetFlags struct {
	group string
	all   bool
}

// add defines the flags.
func (t *targetFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.group, "group", "", "all jobs of this `group` instead of one job")
	cmd.Flags().BoolVar(&t.all, "all", false, "all jobs")
}

// target returns the one target that arguments and flags name.
func (t *targetFlags) target(args []string) (storage.Target, error) {
	named := len(args)
	if t.group != "" {
		named++
	}
	if t.all {
		named++
	}
	switch {
	case named != 1:
		return storage.Target{}, errors.New("expected one of: a job, --group GROUP, --all")
	case t.all:
		return storage.Target{Kind: storage.TargetAll}, nil
	case t.group != "":
		return storage.Target{Kind: storage.TargetGroup, Name: t.group}, nil
	}
	return storage.Target{Kind: storage.TargetJob, Name: args[0]}, nil
}

// printPauses prints value as JSON, or pauses as a table.
func (c *commandLine) printPauses(value any, pauses ...storage.Pause) error {
	rows := make([][]string, len(pauses))
	for i, p := range pauses {
		rows[i] = []string{p.Target.String(), clock(&p.At), p.By, p.Reason, clock(p.ResumedAt)}
	}
	return c.print(value, "PAUSED\tSINCE\tBY\t…REASON\tRESUMED", rows)
}
