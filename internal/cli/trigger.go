package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// triggerCommand returns the command "trigger".
func (c *commandLine) triggerCommand() *cobra.Command {
	var request storage.TriggerRequest
	var params string
	var wait time.Duration
	var await bool
	var cmd *cobra.Command
	cmd = c.actionCommand(&cobra.Command{
		Use: "trigger JOB", Short: "Run a job now or later, on any replica",
		Args: cobra.ExactArgs(1),
		Long: `Run a job now or later, on any replica. A replica takes up the run within about a
second. The run waits for its tables like a scheduled run.

The object in --params overrides the params of the job, key by key. With --key, you
can safely repeat the command: for the same job and key, the same user or token
gets the same run. A run that was skipped leaves its key free.

The run waits for locks and for earlier runs of its job, at most until the deadline
of the job. With --wait-for 10m, it ends as skipped if it has not begun after 10
minutes. Replicas apply this limit, so that the run also waits until one can start
runs. With --wait-for 0, the command refuses a trigger that would have to wait: it
adds no run, prints the blocker and exits with 1.

With --at or --delay, the run starts at that time, by the clock of the database. Until
then, "scheduler runs --state waiting" lists it, and "scheduler cancel" cancels it. If
the time has passed, the run starts now.

With --wait, the command waits until the run has ended. The exit code is 0 if it
succeeded, 2 if it failed, timed out or was lost, and 3 if it was skipped or
cancelled. Code 1 means that the command itself failed. Interrupting the command
does not end the run.`,
		Example: `  scheduler trigger rollup-sales --reason "late data of Tuesday"
  scheduler trigger rollup-sales --params '{"account": "globex"}' --key tuesday
  scheduler trigger rollup-sales --params @params.json
  scheduler trigger rollup-sales --wait-for 0
  scheduler trigger rollup-sales --at 2026-03-14T02:30:00Z
  scheduler trigger rollup-sales --delay 2h --key tuesday
  scheduler trigger rollup-sales --wait --key "$BUILD_ID"`,
	}, func(ctx context.Context, a *actionLine, args []string) error {
		request.Job = args[0]
		if err := checkKey(cmd); err != nil {
			return err
		}
		if cmd.Flags().Changed("wait-for") {
			request.Wait = &wait
		}
		var err error
		if request.At, err = timeFlag(cmd, "at"); err != nil {
			return err
		}
		if cmd.Flags().Changed("params") {
			if request.Params, err = readParams(params); err != nil {
				return fmt.Errorf("--params: %w", err)
			}
		}
		return a.withCluster(ctx, func(in cluster) error {
			run, err := in.Trigger(ctx, a.reason, request)
			if errors.Is(err, storage.ErrKeyUsed) {
				return fmt.Errorf("trigger job %q: key %q already belongs to a run with other "+
					"params or for another time; use another key", request.Job, request.Key)
			}
			if errors.Is(err, storage.ErrBadInput) && request.Wait != nil &&
				strings.Contains(err.Error(), "wait: ") {
				return fmt.Errorf("%w (wait is the value of --wait-for)", err)
			}
			if err := triggerAdvice(ctx, in, err, request.Job); err != nil {
				return err
			}
			waits := waitsText(run)
			if lack := lackOfReplica(ctx, in, run); lack.awaited != "" {
				waits = lack.awaited
				fmt.Fprintf(a.errOut, "scheduler: note: %s; run %s waits until one %s\n", lack.now,
					run.ID, lack.can)
			}
			if await {
				return a.awaitRun(ctx, in, run.ID)
			}
			return a.print(run, "RUN\tJOB\tKEY\tSTATE\tCREATED\tWAITS FOR", [][]string{{
				run.ID.String(), run.Job, run.Key, string(run.State),
				strconv.FormatBool(run.Created), waits}})
		})
	})
	cmd.Flags().StringVar(&request.Key, "key", "", "idempotency `key` (default: a new key)")
	cmd.Flags().StringVar(&params, "params", "",
		"params for this run as a `JSON` object, or @file")
	cmd.Flags().DurationVar(&wait, "wait-for", 0,
		"maximum `duration` of the wait before the run begins, "+
			"such as 10m; 0 refuses a trigger that would have to wait")
	cmd.Flags().BoolVar(&await, "wait", false,
		"wait until the run has ended, and exit with a code for its outcome")
	cmd.Flags().String("at", "", "start the run at this `time`, such as "+
		"2026-03-14T02:30:00Z, \"tomorrow 02:30\" or +2h")
	cmd.Flags().DurationVar(&request.Delay, "delay", 0,
		"start the run after this `duration`, such as 2h")
	cmd.MarkFlagsMutuallyExclusive("at", "delay")
	cmd.Flags().BoolVar(&request.EvenPaused, "even-paused", false,
		"run the job even if it is paused")
	return c.completes(cmd, jobsIn)
}

// The exit codes of "trigger --wait" for a run that did not succeed.
const (
	endedBadly  = 2 // failed, timed out or lost
	notExecuted = 3 // skipped or cancelled
)

// awaitRun waits until the run has ended, and prints it.
func (c *commandLine) awaitRun(ctx context.Context, in cluster, id uuid.UUID) error {
	bar := c.progress(fmt.Sprintf("waiting for run %s", id), 0)
	run, err := in.Wait(ctx, id)
	bar.end()
	if err != nil {
		return fmt.Errorf("%w; the run goes on", err)
	}
	return c.printEnd(run)
}

// printEnd prints a run that has ended. The error has an exit code for the outcome and no text,
// because the output says it all.
func (c *commandLine) printEnd(run storage.Record) error {
	if err := c.print(run, "RUN\tJOB\tKEY\tSTATE\tREPLICA\tTOOK\tWHY", [][]string{{
		run.ID.String(), run.Job, run.Key, string(run.State), run.Replica, took(run),
		why(run)}}); err != nil {
		return err
	}
	switch run.State {
	case jobs.Succeeded:
		return nil
	case jobs.Failed, jobs.TimedOut, jobs.Lost:
		return &ExitError{Code: endedBadly}
	}
	return &ExitError{Code: notExecuted}
}

// lack is why no replica can start the run of a trigger, in words. It is zero if one can, or if
// that is not known.
type lack struct{ awaited, now, can string }

// lackOfReplica returns why no replica can start the run of a trigger that waits now: none is live,
// each of them is draining or stopping, or none has the job.
func lackOfReplica(ctx context.Context, in cluster, run storage.Triggered) lack {
	if run.State != jobs.Waiting || run.Replica != "" || run.WaitSince.After(run.CreatedAt) {
		return lack{}
	}
	names, err := liveReplicasIn(false)(ctx, in)
	if err == nil && len(names) == 0 {
		return lack{"a replica that can start runs", "no replica can start runs", "can"}
	}
	job, err := in.Job(ctx, run.Job)
	if err == nil && job.AbsentSince != nil {
		return lack{"a replica that has the job", "no live replica has job " + run.Job, "has it"}
	}
	return lack{}
}

// waitsText returns what a run waits for: its start time, a blocker, or "nothing".
func waitsText(run storage.Triggered) string {
	switch o := run.WaitsFor; {
	case o != nil:
		return fmt.Sprintf("%s (%s)", o.Words("is held by"), o.Reason)
	case run.State == jobs.Waiting && run.WaitSince.After(run.CreatedAt):
		return "start at " + clock(&run.WaitSince)
	}
	return "nothing"
}

// readParams returns the JSON object of --params, or of the file that it names. It refuses an empty
// text, as in --params "$PARAMS" without a variable PARAMS: the job would run with its own params.
func readParams(text string) (json.RawMessage, error) {
	if path, named := strings.CutPrefix(text, "@"); named {
		file, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		text = string(file)
	}
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("found nothing, expected a JSON object; " +
			"leave out the flag to run the job with its own params")
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		return nil, errors.New(`expected a JSON object such as {"account": "globex"}`)
	}
	return json.RawMessage(text), nil
}

// triggerAdvice adds advice to the error of a trigger that was refused.
func triggerAdvice(ctx context.Context, in cluster, err error, job string) error {
	var paused *storage.PausedError
	if !errors.As(err, &paused) {
		return withJobAdvice(ctx, in, err, job)
	}
	if reason := paused.Pause.Reason; reason != "" {
		return fmt.Errorf("%w (%s); use --even-paused to run it", err, reason)
	}
	return fmt.Errorf("%w; use --even-paused to run it", err)
}
