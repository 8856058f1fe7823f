package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs"
)

func (c *commandLine) addCommand() *cobra.Command {
	var path string
	var replace bool
	cmd := c.actionCommand(&cobra.Command{
		Use: "add -f FILE", Short: "Add a job to a running cluster, or change one that was added",
		Args: cobra.NoArgs,
		Long: `Add a job to a running cluster. The file has one job, a mapping in YAML or JSON, as an entry of jobs in a configuration has it. What it
leaves out is taken from this configuration, so that all replicas have the same. Every replica that has its handler fires it within
about a second, until it is removed. With --replace a job that was added before is changed: what runs of it goes on as it was.`,
		Example: `  scheduler add -f job.yaml
  scheduler add -f job.yaml --replace --reason "twice as often"`,
	}, func(ctx context.Context, a *acting, _ []string) error {
		text, err := readJob(path)
		if err != nil {
			return err
		}
		return a.withOperations(ctx, func(ops *jobs.Operations, _ jobs.Store) error {
			spec, err := a.put(ctx, ops, text, replace)
			if err != nil {
				return placed(explained(err), path)
			}
			return a.print(spec, "JOB\tVERSION\tCHANGED\tBY",
				[][]string{{spec.Job, fmt.Sprint(spec.Version), clock(&spec.ChangedAt),
					spec.ChangedBy}})
		})
	})
	cmd.Flags().StringVarP(&path, "file", "f", "", "the job's `file`, or - for standard input")
	cmd.Flags().BoolVar(&replace, "replace", false, "change the job if it was added before")
	if err := cmd.MarkFlagRequired("file"); err != nil {
		panic(err) // the flag is there
	}
	return cmd
}

func readJob(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(path)
}

// put adds the job, or changes it where that was asked for.
func (a *acting) put(ctx context.Context, ops *jobs.Operations, text []byte,
	replace bool) (jobs.Spec, error) {
	if !replace {
		spec, err := ops.PutJob(ctx, a.action(), text, 0)
		if errors.Is(err, jobs.ErrConflict) {
			return spec, fmt.Errorf("%w: a job of that name was added before, --replace changes it",
				err)
		}
		return spec, err
	}
	spec, err := ops.PutJob(ctx, a.action(), text, jobs.AnyVersion)
	if errors.Is(err, jobs.ErrConflict) {
		return spec, fmt.Errorf("%w: somebody else changed it at the same time, look at it and "+
			"try again", err)
	}
	return spec, err
}

// placed names file, line and column of mistakes in a job.
func placed(err error, path string) error {
	var wrong *jobs.SpecError
	if !errors.As(err, &wrong) {
		return err
	}
	lines := make([]string, len(wrong.Problems))
	for i, p := range wrong.Problems {
		place := path
		if p.Line > 0 {
			place = fmt.Sprintf("%s:%d:%d", path, p.Line, p.Column)
		}
		if p.Key != "" {
			place += ": " + p.Key
		}
		lines[i] = place + ": " + p.Message
	}
	return errors.New(strings.Join(lines, "\n"))
}
