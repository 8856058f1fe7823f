package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/sleep"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// backfillCommand returns the command "backfill".
func (c *commandLine) backfillCommand() *cobra.Command {
	var request operations.BackfillRequest
	var key string
	var dry, await bool
	var cmd *cobra.Command
	cmd = c.completes(c.actionCommand(&cobra.Command{
		Use: "backfill JOB --from TIME", Short: "Run a job for past scheduled times",
		Args: cobra.ExactArgs(1),
		Long: `Run a job for its scheduled times from --from to --to that have no run that
succeeded, the oldest first. Replicas add and start the runs one after the other, under
the same locks as scheduled runs and after all other waiting runs. The backfill goes on
when replicas restart. "scheduler backfills" shows its progress, and "scheduler
backfills cancel" ends it.

With --parallel, up to that many runs are under way at once. The job must allow its runs
to overlap.

With --wait, the command shows the progress and waits until the backfill has ended. The
exit code is 0 if all its runs succeeded, 2 if one did not, and 3 if the backfill was
cancelled or stopped. Code 1 means that the command itself failed. Interrupting the
command does not end the backfill: "scheduler backfills BACKFILL --wait" waits again.

With --dry-run, the command only prints the scheduled times that would get a run, and
those that would be left out with the reason.`,
		Example: `  scheduler backfill rollup-sales --from 2026-03-01T00:00:00Z --dry-run
  scheduler backfill rollup-sales --from 2026-03-01T00:00:00Z --to 2026-03-14T00:00:00Z
  scheduler backfill rollup-sales --from 2026-03-01T00:00:00Z --reason "new prices"`,
	}, func(ctx context.Context, a *actionLine, args []string) error {
		request.Job = args[0]
		if err := checkKey(cmd); err != nil {
			return err
		}
		var err error
		if request.From, err = timeFlag(cmd, "from"); err != nil {
			return err
		}
		if request.To, err = timeFlag(cmd, "to"); err != nil {
			return err
		}
		return a.withCluster(ctx, func(in cluster) error {
			if dry {
				plan, err := in.PlanBackfill(ctx, request)
				if err != nil {
					return withJobAdvice(ctx, in, err, request.Job)
				}
				return a.printPlan(plan)
			}
			b, err := in.AddBackfill(ctx, a.reason, key, request)
			if err != nil {
				return withJobAdvice(ctx, in, err, request.Job)
			}
			if await {
				return a.awaitBackfill(ctx, in, b)
			}
			return a.printBackfills(ctx, in, b, b)
		})
	}), jobsIn)
	cmd.Flags().String("from", "", "first `time`, such as 2026-03-01T00:00:00Z")
	cmd.Flags().String("to", "", "last `time` (default: now)")
	cmd.Flags().IntVar(&request.Parallel, "parallel", 1,
		"maximum `number` of runs that have not ended")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only print what the backfill would do")
	cmd.Flags().BoolVar(&await, "wait", false,
		"wait until the backfill has ended, and exit with a code for its outcome")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "wait")
	cmd.Flags().StringVar(&key, "key", "", "idempotency `key`")
	_ = cmd.MarkFlagRequired("from") // the flag exists
	return cmd
}

// printPlan prints a dry run.
func (c *commandLine) printPlan(plan operations.BackfillPlan) error {
	rows := make([][]string, len(plan.Times))
	for i, t := range plan.Times {
		rows[i] = []string{clock(&t.ScheduledAt), "run", ""}
		if t.LeftOut != "" {
			rows[i][1] = "left out: " + t.LeftOut
		}
		if t.Run != uuid.Nil {
			rows[i][2] = t.Run.String()
		}
	}
	return c.print(plan, "SCHEDULED\tPLAN\tRUN", rows)
}

// pausedJobs returns the pauses that keep active backfills from adding runs, by job.
func pausedJobs(ctx context.Context, in state,
	list ...storage.Backfill) (map[string]string, error) {
	active := func(b storage.Backfill) bool { return b.State == storage.BackfillActive }
	if !slices.ContainsFunc(list, active) {
		return nil, nil
	}
	if pauses, err := in.Pauses(ctx); err != nil || len(pauses) == 0 {
		return nil, err
	}
	all, err := in.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	paused := make(map[string]string)
	for _, job := range all {
		if len(job.Pauses) > 0 {
			paused[job.Name] = "paused: " + job.Covered()
		}
	}
	return paused, nil
}

// printBackfills prints value as JSON, or backfills as a table.
func (c *commandLine) printBackfills(ctx context.Context, in state, value any,
	backfills ...storage.Backfill) error {
	paused, err := pausedJobs(ctx, in, backfills...)
	if err != nil {
		return err
	}
	rows := make([][]string, len(backfills))
	for i, b := range backfills {
		if b.State == storage.BackfillActive {
			b.Detail = cmp.Or(b.Detail, paused[b.Job])
		}
		rows[i] = []string{b.ID.String(), b.Job, clock(&b.From), clock(&b.To), string(b.State),
			fmt.Sprintf("%d of %d", b.Done(), b.Times), strconv.Itoa(b.LeftOut),
			strconv.Itoa(b.Succeeded), strconv.Itoa(b.Unsuccessful), strconv.Itoa(b.Unfinished()),
			b.CreatedBy, b.Detail}
	}
	return c.print(value, "BACKFILL\tJOB\t~FROM\t~TO\tSTATE\tDONE\tLEFT OUT\tSUCCEEDED\t"+
		"UNSUCCESSFUL\tUNFINISHED\t~BY\t…WHY", rows)
}

// backfillsCommand returns the command "backfills".
func (c *commandLine) backfillsCommand() *cobra.Command {
	var filter storage.BackfillFilter
	var state string
	var await bool
	cmd := remotely(&cobra.Command{
		Use: "backfills [BACKFILL]", Short: "List backfills with their progress, newest first",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if err := refuseFilters(cmd, "backfill", "wait"); err != nil {
					return err
				}
			}
			if filter.Limit < 1 || filter.Limit > storage.MaxBatch {
				return fmt.Errorf("-n: expected 1 to %d, found %d", storage.MaxBatch, filter.Limit)
			}
			filter.State = storage.BackfillState(state)
			if state != "" && !slices.Contains(storage.BackfillStates(), filter.State) {
				return fmt.Errorf("--state: expected one of %v, found %q",
					storage.BackfillStates(), state)
			}
			return c.withCluster(cmd.Context(), func(in cluster) error {
				if len(args) == 1 {
					return c.showBackfill(cmd.Context(), in, args[0], await)
				}
				if await {
					return errors.New("--wait: expected a backfill, found none")
				}
				list, err := in.Backfills(cmd.Context(), filter)
				if err == nil && len(list) == 0 {
					err = checkJob(cmd.Context(), in, filter.Job)
				}
				if err != nil {
					return err
				}
				return c.printBackfills(cmd.Context(), in, list, list...)
			})
		},
	})
	cmd.Flags().StringVar(&filter.Job, "job", "", "only backfills of this `job`")
	cmd.Flags().StringVar(&state, "state", "", "only backfills in this `state`: active, "+
		"completed, cancelled or stopped")
	cmd.Flags().IntVarP(&filter.Limit, "count", "n", 100, "maximum `number` of backfills")
	cmd.Flags().BoolVar(&await, "wait", false,
		"wait until BACKFILL has ended, and exit as \"scheduler backfill --wait\"")
	c.completesFlag(cmd, "job", jobsIn)
	cmd.AddCommand(c.cancelBackfillCommand())
	return c.completes(cmd, backfillsIn(""))
}

func (c *commandLine) showBackfill(ctx context.Context, in cluster, text string,
	await bool) error {
	id, err := backfillID(text)
	if err != nil {
		return err
	}
	b, err := readBackfill(ctx, in, id)
	if err != nil {
		return err
	}
	if await {
		return c.awaitBackfill(ctx, in, b)
	}
	return c.printBackfills(ctx, in, b, b)
}

// readBackfill returns a backfill with its progress.
func readBackfill(ctx context.Context, in cluster, id uuid.UUID) (storage.Backfill, error) {
	b, err := in.Backfill(ctx, id)
	if errors.Is(err, storage.ErrNotFound) {
		err = fmt.Errorf("backfill %s: not found; list backfills with \"scheduler backfills\"", id)
	}
	return b, err
}

// backfillEvery is the interval in which "backfill --wait" reads the backfill.
const backfillEvery = time.Second

// awaitBackfill waits until a backfill has ended, and prints it. It goes on while the cluster does
// not answer, like operations.Operations.Wait.
func (c *commandLine) awaitBackfill(ctx context.Context, in cluster, b storage.Backfill) error {
	paused, err := pausedJobs(ctx, in, b)
	if err == nil && paused[b.Job] != "" {
		_, err = fmt.Fprintf(c.errOut, "scheduler: job %s is %s; the backfill continues after "+
			"the resume\n", printable(b.Job), printable(paused[b.Job]))
	}
	if err != nil && !errors.Is(err, storage.ErrUnavailable) {
		return fmt.Errorf("wait for backfill %s: %w", b.ID, err)
	}
	bar := c.progress("backfill of "+b.Job, b.Times)
	defer bar.end()
	for b.State == storage.BackfillActive {
		bar.set(b.Done())
		sleep.For(ctx, backfillEvery)
		next, err := in.Backfill(ctx, b.ID)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("wait for backfill %s: %w; the backfill goes on", b.ID,
				context.Cause(ctx))
		case err == nil:
			b = next
		case !errors.Is(err, storage.ErrUnavailable):
			return fmt.Errorf("wait for backfill %s: %w", b.ID, err)
		}
	}
	bar.end()
	if err := c.printBackfills(ctx, in, b, b); err != nil {
		return err
	}
	switch {
	case b.State != storage.BackfillCompleted:
		return &ExitError{Code: notExecuted}
	case b.Unsuccessful > 0:
		return &ExitError{Code: endedBadly}
	}
	return nil
}

func backfillID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return id, fmt.Errorf("backfill: expected an id from \"scheduler backfills\", found %q",
			text)
	}
	return id, nil
}

// cancelBackfillCommand returns the command "backfills cancel".
func (c *commandLine) cancelBackfillCommand() *cobra.Command {
	return c.completes(c.actionCommand(&cobra.Command{
		Use: "cancel BACKFILL", Short: "End a backfill", Args: cobra.ExactArgs(1),
		Long: `End a backfill. It adds no more runs, and its waiting runs are cancelled. Its running
runs end by themselves; "scheduler cancel" ends them.`,
		Example: `  scheduler backfills --state active
  scheduler backfills cancel 01a1fecc-ef57-7d76-aac5-e8f353379cd3 --reason "wrong range"`,
	}, func(ctx context.Context, a *actionLine, args []string) error {
		id, err := backfillID(args[0])
		if err != nil {
			return err
		}
		return a.withCluster(ctx, func(in cluster) error {
			b, err := in.CancelBackfill(ctx, a.reason, id)
			if errors.Is(err, storage.ErrNotFound) {
				return fmt.Errorf("cancel backfill %s: not found; list backfills with "+
					"\"scheduler backfills\"", id)
			}
			if err != nil {
				return err
			}
			return a.printBackfills(ctx, in, b, b)
		})
	}), backfillsIn(storage.BackfillActive))
}
