package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// runsCommand returns the command "runs".
func (c *commandLine) runsCommand() *cobra.Command {
	var filter storage.RunFilter
	var states []string
	cmd := &cobra.Command{
		Use:   "runs [RUN]",
		Short: "List runs, newest first, or show one run with its output and result",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return c.showRun(cmd, args[0])
			}
			for _, state := range states {
				if !slices.Contains(jobs.States(), jobs.State(state)) {
					return fmt.Errorf("--state: expected one of %v, found %q", jobs.States(), state)
				}
				filter.States = append(filter.States, jobs.State(state))
			}
			if filter.Limit < 1 || filter.Limit > storage.MaxBatch {
				return fmt.Errorf("-n: expected 1 to %d, found %d", storage.MaxBatch, filter.Limit)
			}
			return c.withStore(cmd.Context(), func(_ *configs.Config, store app.Storage) error {
				list, err := store.Runs(cmd.Context(), filter)
				if err != nil {
					return err
				}
				rows := make([][]string, len(list))
				for i, r := range list {
					rows[i] = []string{r.ID.String(), r.Job, clock(&r.ScheduledAt), string(r.State),
						r.Replica, clock(r.StartedAt), took(r), why(r)}
				}
				return c.print(append([]storage.Record{}, list...),
					"RUN\tJOB\tSCHEDULED\tSTATE\tREPLICA\tSTARTED\tTOOK\tWHY", rows)
			})
		},
	}
	cmd.Flags().StringVar(&filter.Job, "job", "", "only runs of this `job`")
	cmd.Flags().StringVar(&filter.Replica, "replica", "", "only runs on this `replica`")
	cmd.Flags().StringSliceVar(&states, "state", nil, "only runs in this `state`; can be repeated")
	cmd.Flags().IntVarP(&filter.Limit, "count", "n", 50, "maximum `number` of runs")
	return cmd
}

// showRun prints all fields of one run. Text is the id of the run.
func (c *commandLine) showRun(cmd *cobra.Command, text string) error {
	id, err := uuid.Parse(text)
	if err != nil {
		return fmt.Errorf("run: expected an id, found %q", text)
	}
	return c.withStore(cmd.Context(), func(_ *configs.Config, store app.Storage) error {
		run, err := store.Run(cmd.Context(), id)
		if errors.Is(err, storage.ErrNotFound) {
			return fmt.Errorf("run %s: not found in the history", id)
		}
		if err != nil {
			return err
		}
		var rows [][]string
		for _, field := range [][]string{
			{"run", run.ID.String()}, {"job", run.Job}, {"scheduled_at", clock(&run.ScheduledAt)},
			{"key", run.Key}, {"state", string(run.State)}, {"why", why(run)},
			{"replica", run.Replica}, {"attempt", fmt.Sprint(run.Attempt)},
			{"recovery", fmt.Sprint(run.Recovery)},
			{"started", clock(run.StartedAt)}, {"finished", clock(run.FinishedAt)},
			{"took", took(run)},
			{"params", string(run.Params)}, {"result", string(run.Result)},
		} {
			if field[1] != "" {
				rows = append(rows, field)
			}
		}
		for line := range strings.Lines(run.Output) {
			rows = append(rows, []string{"output", strings.TrimRight(line, "\n")})
		}
		return c.print(run, "FIELD\tVALUE", rows)
	})
}
