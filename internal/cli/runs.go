package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// runsCommand returns the command "runs".
func (c *commandLine) runsCommand() *cobra.Command {
	var filter storage.RunFilter
	var states []string
	var job, backfill string
	var attempt int
	cmd := remotely(&cobra.Command{
		Use:   "runs [RUN]",
		Short: "List runs, newest first, or show one run with its attempts, output and result",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if err := refuseFilters(cmd, "run", "attempt"); err != nil {
					return err
				}
				return c.showRun(cmd, args[0], attempt)
			}
			if attempt != 0 {
				return errors.New("--attempt: expected a run, found none")
			}
			for _, state := range states {
				if !slices.Contains(jobs.States(), jobs.State(state)) {
					return fmt.Errorf("--state: expected one of %v, found %q%s", jobs.States(),
						state, didYouMean(state, stateNames()))
				}
				filter.States = append(filter.States, jobs.State(state))
			}
			if filter.Limit < 1 || filter.Limit > storage.MaxBatch {
				return fmt.Errorf("-n: expected 1 to %d, found %d", storage.MaxBatch, filter.Limit)
			}
			filter.SetJobs(job)
			var err error
			if backfill != "" {
				if filter.Backfill, err = uuid.Parse(backfill); err != nil ||
					filter.Backfill == uuid.Nil {
					return fmt.Errorf("--backfill: expected the id of a backfill, found %q",
						backfill)
				}
			}
			if filter.From, err = timeFlag(cmd, "since"); err != nil {
				return err
			}
			if filter.Until, err = timeFlag(cmd, "until"); err != nil {
				return err
			}
			return c.withCluster(cmd.Context(), func(in cluster) error {
				list, err := in.Runs(cmd.Context(), filter)
				if err == nil && len(list) == 0 {
					err = c.checkFilter(cmd.Context(), in, filter)
				}
				if err != nil {
					return err
				}
				header, rows := runRows(list)
				return c.print(list, header, rows)
			})
		},
	})
	cmd.Flags().StringVar(&job, "job", "",
		"only runs of this `job`, or of all jobs with a prefix, such as \"etl/*\"")
	cmd.Flags().StringVar(&filter.Group, "group", "", "only runs of jobs in this `group`")
	cmd.Flags().StringVar(&filter.Replica, "replica", "", "only runs on this `replica`")
	cmd.Flags().StringVar(&filter.Error, "error", "", "only runs whose error contains this `text`")
	cmd.Flags().StringVar(&backfill, "backfill", "", "only runs of the `backfill` with this id")
	cmd.Flags().StringSliceVar(&states, "state", nil, "only runs in this `state`; can be repeated")
	cmd.Flags().IntVarP(&filter.Limit, "count", "n", 50, "maximum `number` of runs")
	cmd.Flags().IntVar(&attempt, "attempt", 0,
		"show the output of the attempt with this `number`; 0 is the last one")
	cmd.Flags().String("since", "",
		"only runs that were created at this `time` or later, such as \"yesterday 22:00\" or -2h")
	cmd.Flags().String("until", "", "only runs that were created before this `time`")
	c.completesFlag(cmd, "job", jobsIn)
	c.completesFlag(cmd, "group", groupsIn)
	c.completesFlag(cmd, "replica", replicasIn)
	c.completesFlag(cmd, "backfill", backfillsIn(""))
	completesOf(cmd, "state", stateNames())
	return c.completes(cmd, runsIn())
}

// refuseFilters returns an error if the id of a run or backfill was given together with a flag for
// lists: with any flag of this command except own.
func refuseFilters(cmd *cobra.Command, what, own string) (err error) {
	cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Changed && flag.Name != own && err == nil {
			err = fmt.Errorf("--%s: not allowed with the id of a %s, because it is only for lists",
				flag.Name, what)
		}
	})
	return err
}

// runRows returns runs as rows of a table, with the ends of waits if a run waits for a blocker.
func runRows(list []storage.Record) (header string, rows [][]string) {
	until := "~WAITS UNTIL"
	if slices.ContainsFunc(list, func(r storage.Record) bool { return r.WaitEnd != nil }) {
		until = "WAITS UNTIL"
	}
	for _, r := range list {
		rows = append(rows, []string{r.ID.String(), r.Job, clock(&r.ScheduledAt), string(r.State),
			r.Replica, clock(r.StartedAt), took(r), waitsUntil(r), why(r)})
	}
	return "RUN\tJOB\tSCHEDULED\tSTATE\t~REPLICA\t~STARTED\tTOOK\t" + until + "\t…WHY", rows
}

// checkFilter returns an error or writes a note for a name in a filter that is not in the cluster.
// The history may have runs of former jobs and replicas, so that only a list without runs shows a
// wrong name.
func (c *commandLine) checkFilter(ctx context.Context, in cluster, f storage.RunFilter) error {
	if err := checkJob(ctx, in, f.Job); err != nil {
		return err
	}
	if f.Backfill != uuid.Nil {
		if _, err := readBackfill(ctx, in, f.Backfill); err != nil {
			return err
		}
	}
	if f.Group != "" {
		if err := c.checkGroup(ctx, in, f.Group); err != nil {
			return err
		}
	}
	if f.Replica == "" {
		return nil
	}
	return c.checkReplica(ctx, in, f.Replica)
}

// checkJob returns an error if a job of this name, unless it is "", is not in the cluster.
func checkJob(ctx context.Context, in cluster, job string) error {
	if job == "" {
		return nil
	}
	names, err := jobsIn(ctx, in)
	if err == nil && !slices.Contains(names, job) {
		err = withJobAdvice(ctx, in, storage.ErrNotFound, job)
	}
	return err
}

// idText returns an id as one cell, "" for none.
func idText(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}

// readRun returns a run with the output of an attempt, or of its last one if attempt is 0.
func readRun(ctx context.Context, in cluster, id uuid.UUID,
	attempt int) (run admin.RunDetail, err error) {
	if run, err = in.Run(ctx, id); errors.Is(err, storage.ErrNotFound) {
		return run, fmt.Errorf("run %s: not found in the history", id)
	} else if err != nil {
		return run, err
	}
	if attempt == 0 || run.StartedAt != nil && attempt == run.Attempt {
		return run, nil
	}
	a, err := in.Attempt(ctx, id, attempt)
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
	if a.Waited != nil && a.Waited.Resource != "" {
		text += ", waited for " + a.Waited.Resource
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
	return c.withCluster(cmd.Context(), func(in cluster) error {
		run, err := readRun(cmd.Context(), in, id, attempt)
		if err != nil {
			return err
		}
		var rows [][]string
		until := ""
		if run.WaitEnd != nil {
			until = waitsUntil(run.Record)
		}
		for _, field := range [][]string{
			{"run", run.ID.String()}, {"job", run.Job}, {"scheduled_at", clock(&run.ScheduledAt)},
			{"key", run.Key}, {"backfill", idText(run.Backfill)},
			{"state", string(run.State)}, {"why", why(run.Record)},
			{"waits_until", until},
			{"replica", run.Replica}, {"attempt", fmt.Sprint(run.Attempt)},
			{"recovery", fmt.Sprint(run.Recovery)},
			{"started", clock(run.StartedAt)}, {"finished", clock(run.FinishedAt)},
			{"took", took(run.Record)},
			{"params", compact(run.Params)}, {"result", compact(run.Result)},
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
		if err := c.print(run, "FIELD\tVALUE", rows); err != nil {
			return err
		}
		if attempt != 0 && attempt != run.Attempt {
			return nil // the attempt has ended
		}
		return watchOutput(cmd.Context(), in, run.Record, c.errOut)
	})
}

// compact returns JSON as one line.
func compact(value json.RawMessage) string {
	var out bytes.Buffer
	if json.Compact(&out, value) != nil {
		return string(value)
	}
	return out.String()
}
