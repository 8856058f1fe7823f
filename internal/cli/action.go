package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs"
)

// acting is what the commands that act have in common.
type acting struct {
	*commandLine
	reason string
}

// actionCommand makes cmd one that acts.
func (c *commandLine) actionCommand(cmd *cobra.Command,
	run func(ctx context.Context, a *acting, args []string) error) *cobra.Command {
	a := &acting{commandLine: c}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), a, args) }
	cmd.Flags().StringVar(&a.reason, "reason", "", "why, for the audit log")
	return cmd
}

// action says who acts: the user of this command line.
func (a *acting) action() jobs.Action {
	actor := os.Getenv("USER")
	if account, err := user.Current(); err == nil {
		actor = account.Username
	}
	if actor == "" {
		actor = "unknown"
	}
	return jobs.Action{Actor: actor, Via: "cli", Reason: a.reason}
}

// unknownJob says what to do about a job that the store does not have.
func unknownJob(err error, job string) error {
	if errors.Is(err, jobs.ErrNotFound) {
		return fmt.Errorf("no job is called %q in the store: is a replica running with it?", job)
	}
	return err
}

// explained says what to do about an action that was refused.
func explained(err error, flags ...string) error {
	var paused *jobs.PausedError
	switch {
	case errors.As(err, &paused) && len(flags) > 0:
		return fmt.Errorf("%w%s: %s runs it all the same", err, because(paused.Pause.Reason),
			strings.Join(flags, " "))
	case errors.Is(err, jobs.ErrFromConfig):
		return fmt.Errorf("%w: change it there and deploy; here it can be paused and triggered",
			err)
	}
	return err
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", reason)
}
