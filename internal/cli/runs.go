package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
	var attempt int
	cmd := &cobra.Command{
		Use:   "runs [RUN]",
		Short: "List runs, newest first, or show one run with its attempts, output and result",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return c.showRun(cmd, args[0], attempt)
			}
			if attempt != 0 {
				return errors.New("--attempt: expected a run, found none")
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
	cmd.Flags().IntVar(&attempt, "attempt", 0,
		"show the output of this attempt of RUN; 0 is the last `one`")
	return cmd
}

// shownRun is one run with its attempts. Its output is that of the chosen attempt.
type shownRun struct {
	storage.Record
	Attempts []storage.RunAttempt `json:"attempts"`
}

// readRun returns a run with the output of an attempt, or of its last one if attempt is 0.
func readRun(ctx context.Context, store app.Storage, id uuid.UUID,
	attempt int) (run shownRun, err error) {
	if run.Record, err = store.Run(ctx, id); errors.Is(err, storage.ErrNotFound) {
		return run, fmt.Errorf("run %s: not found in the history", id)
	} else if err != nil {
		return run, err
	}
	found, err := storage.AttemptsOf(ctx, store, run.Record)
	if err != nil {
		return run, err
	}
	run.Attempts = append([]storage.RunAttempt{}, found...)
	if attempt == 0 || run.StartedAt != nil && attempt == run.Attempt {
		return run, nil
	}
	a, err := store.RunAttempt(ctx, id, attempt)
	if errors.Is(err, storage.ErrNotFound) {
		return run, fmt.Errorf("attempt %d of run %s: not found in the history", attempt, id)
	}
	run.Output = a.Output
	return run, err
}

// attemptWords describes an attempt as one cell.
func attemptWords(a storage.RunAttempt) string {
	text := string(a.State)
	if a.StartedAt == nil {
		return text + ", not started"
	}
	text += " on " + a.Replica + ", started " + clock(a.StartedAt)
	if length, ended := a.Took(); ended {
		text += ", took " + length.Round(time.Millisecond).String()
	}
	if a.Error != "" {
		text += ": " + a.Error
	}
	return text
}

// showRun prints all fields of one run. Text is the id of the run.
func (c *commandLine) showRun(cmd *cobra.Command, text string, attempt int) error {
	id, err := uuid.Parse(text)
	if err != nil {
		return fmt.Errorf("run: expected an id, found %q", text)
	}
	return c.withStore(cmd.Context(), func(_ *configs.Config, store app.Storage) error {
		run, err := readRun(cmd.Context(), store, id, attempt)
		if err != nil {
			return err
		}
		var rows [][]string
		for _, field := range [][]string{
			{"run", run.ID.String()}, {"job", run.Job}, {"scheduled_at", clock(&run.ScheduledAt)},
			{"key", run.Key}, {"state", string(run.State)}, {"why", why(run.Record)},
			{"replica", run.Replica}, {"attempt", fmt.Sprint(run.Attempt)},
			{"recovery", fmt.Sprint(run.Recovery)},
			{"started", clock(run.StartedAt)}, {"finished", clock(run.FinishedAt)},
			{"took", took(run.Record)},
			{"params", string(run.Params)}, {"result", string(run.Result)},
		} {
			if field[1] != "" {
				rows = append(rows, field)
			}
		}
		if len(run.Attempts) > 1 {
			for _, a := range run.Attempts {
				rows = append(rows, []string{fmt.Sprintf("attempt %d", a.Attempt), attemptWords(a)})
			}
		}
		for line := range strings.Lines(run.Output) {
			rows = append(rows, []string{"output", strings.TrimRight(line, "\n")})
		}
		return c.print(run, "FIELD\tVALUE", rows)
	})
}
