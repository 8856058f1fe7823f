package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// addCommand returns the command "add".
func (c *commandLine) addCommand() *cobra.Command {
	var path string
	var replace bool
	cmd := c.actionCommand(&cobra.Command{
		Use: "add -f FILE", Short: "Add a job to a running cluster, or change an added job",
		Args: cobra.NoArgs,
		Long: `Add a job to a running cluster. The file has one job in YAML or JSON, written like
an element of "jobs" in a configuration. The command completes the job with the
defaults of this configuration, or with --server those of the replica that answers,
so that all replicas use the same values.

Within about a second, every replica that has the handler fires the job. It does so
until "scheduler remove". With --replace, the command changes a job that was added
before. Running runs of the job keep the old definition.`,
		Example: `  scheduler add -f job.yaml
  scheduler add -f job.yaml --replace --reason "twice as often"`,
	}, func(ctx context.Context, a *actionLine, _ []string) error {
		text, err := untilInterrupted(ctx, func() ([]byte, error) { return readJob(path) })
		if err != nil {
			return err
		}
		return a.withCluster(ctx, func(in cluster) error {
			spec, err := a.put(ctx, in, text, replace)
			if err != nil {
				return withPositions(withAdvice(err), path)
			}
			return a.print(spec, "JOB\tVERSION\tCHANGED\tBY",
				[][]string{{spec.Job, fmt.Sprint(spec.Version), clock(&spec.ChangedAt),
					spec.ChangedBy}})
		})
	})
	cmd.Flags().StringVarP(&path, "file", "f", "", "`file` with the job, or - for standard input")
	cmd.Flags().BoolVar(&replace, "replace", false, "change the job if it was already added")
	if err := cmd.MarkFlagRequired("file"); err != nil {
		panic(err) // the flag was defined above
	}
	return cmd
}

// readJob reads a file, or standard input if path is "-".
func readJob(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(path)
}

// put adds the job. With replace, it changes the job if it was already added.
func (a *actionLine) put(ctx context.Context, in cluster, text []byte,
	replace bool) (storage.Spec, error) {
	spec, err := in.PutJob(ctx, a.reason, text, replace)
	switch {
	case !errors.Is(err, storage.ErrConflict):
		return spec, err
	case replace:
		return spec, fmt.Errorf("%w: %s", err, changedMeanwhile)
	}
	return spec, fmt.Errorf("%w: a job with this name was already added; "+
		"use --replace to change it", err)
}

// withPositions returns a *configs.Errors with file, line and column of each mistake in a job.
func withPositions(err error, path string) error {
	var wrong *operations.SpecError
	if !errors.As(err, &wrong) {
		return err
	}
	found := &configs.Errors{Problems: make([]configs.Problem, len(wrong.Problems))}
	for i, p := range wrong.Problems {
		found.Problems[i] = configs.Problem{File: path, Line: p.Line, Column: p.Column, Key: p.Key,
			Message: p.Message}
	}
	return found
}
