package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// completionTimeout bounds how long a shell waits for names.
const completionTimeout = time.Second

// completedRuns is the number of runs that a completion offers.
const completedRuns = 50

// completes makes the first argument of a command complete to names of the cluster.
func (c *commandLine) completes(cmd *cobra.Command, names namesIn) *cobra.Command {
	offer := c.offer(names)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string,
		cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offer(cmd, args, begun)
	}
	return cmd
}

// completesFlag makes the value of a flag complete to names of the cluster.
func (c *commandLine) completesFlag(cmd *cobra.Command, flag string, names namesIn) {
	offerFlag(cmd, flag, c.offer(names))
}

// completesOf makes the value of a flag complete to fixed values.
func completesOf(cmd *cobra.Command, flag string, values []string) {
	offerFlag(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func offerFlag(cmd *cobra.Command, flag string, offer cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, offer); err != nil {
		panic(err) // the flag was defined by the caller
	}
}

// offer returns a function that asks the cluster for names. It is silent about errors, because a
// shell shows them in the middle of a line.
func (c *commandLine) offer(names namesIn) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completionTimeout)
		defer cancel()
		var found []string
		err := c.chooseServer(cmd)
		if err == nil {
			err = c.withCluster(ctx, func(in cluster) (err error) {
				found, err = names(ctx, in)
				return err
			})
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found = slices.DeleteFunc(found, func(name string) bool {
			return !strings.HasPrefix(name, begun) || strings.ContainsRune(name, '\n')
		})
		slices.Sort(found)
		return slices.Compact(found), cobra.ShellCompDirectiveNoFileComp
	}
}

// runsIn returns a function that lists ids of runs in some states, each with its job and state.
func runsIn(states ...jobs.State) namesIn {
	return func(ctx context.Context, in cluster) ([]string, error) {
		list, err := in.Runs(ctx, storage.RunFilter{States: states, Limit: completedRuns})
		offered := make([]string, len(list))
		for i, r := range list {
			offered[i] = cobra.CompletionWithDesc(r.ID.String(),
				printable(r.Job)+" "+string(r.State))
		}
		return offered, err
	}
}

// stateNames returns the names of the states of runs.
func stateNames() []string {
	var names []string
	for _, state := range jobs.States() {
		names = append(names, string(state))
	}
	return names
}

// deliveriesIn returns ids of undelivered events, each with its webhook and job.
func deliveriesIn(ctx context.Context, in cluster) ([]string, error) {
	list, err := in.Undelivered(ctx, storage.UndeliveredFilter{Limit: completedRuns})
	offered := make([]string, len(list))
	for i, u := range list {
		offered[i] = cobra.CompletionWithDesc(u.ID.String(), printable(u.Webhook+" "+u.Job))
	}
	return offered, err
}
