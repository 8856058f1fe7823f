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

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/jobs"
)

func (c *commandLine) triggerCommand() *cobra.Command {
	var request jobs.TriggerRequest
	var params string
	var wait time.Duration
	var cmd *cobra.Command
	cmd = c.actionCommand(&cobra.Command{
		Use: "trigger JOB", Short: "Run a job now, on any replica", Args: cobra.ExactArgs(1),
		Long: `Run a job now: a replica takes the run up within about a second, and it waits for its tables like any other.
Params of the moment take the place of the job's own, key by key. A key makes the call repeatable: the same key for the same job
is the same run. A run that was skipped leaves its key free.

The run waits for locks and for earlier runs of its job until the job's deadline. With --wait-for 10m it ends as skipped if it
has not begun by then. With --wait-for 0 a trigger that would have to wait is refused: no run is added, the
command prints the blocker and exits with 1.`,
		Example: `  scheduler trigger rollup-sales --reason "late data of Tuesday"
  scheduler trigger rollup-sales --params '{"account": "globex"}' --key tuesday
  scheduler trigger rollup-sales --params @params.json
  scheduler trigger rollup-sales --wait-for 0`,
	}, func(ctx context.Context, a *acting, args []string) error {
		request.Job = args[0]
		if cmd.Flags().Changed("wait-for") {
			request.Wait = &wait
		}
		var err error
		if request.Params, err = readParams(params); err != nil {
			return fmt.Errorf("--params: %w", err)
		}
		return a.withOperations(ctx, func(ops *jobs.Operations, _ jobs.Store) error {
			run, err := ops.Trigger(ctx, a.action(), request)
			if errors.Is(err, jobs.ErrConflict) {
				return fmt.Errorf("the key %q was used for another run of %s, with other params: "+
					"take another key", request.Key, request.Job)
			}
			if err := explained(unknownJob(err, request.Job), "--even-paused"); err != nil {
				return err
			}
			return a.print(run, "RUN\tJOB\tKEY\tSTATE\tCREATED\tWAITS FOR", [][]string{{
				run.ID.String(), run.Job, run.Key, string(run.State),
				strconv.FormatBool(run.Created), obstacleWords(run.WaitsFor)}})
		})
	})
	cmd.Flags().StringVar(&request.Key, "key", "", "idempotency `key` (default a new one)")
	cmd.Flags().StringVar(&params, "params", "",
		"params of the moment as a `JSON` object, or @file")
	cmd.Flags().DurationVar(&wait, "wait-for", 0, "how long the run may wait before it begins, "+
		"such as 10m; 0 refuses a trigger that would have to wait")
	cmd.Flags().BoolVar(&request.EvenPaused, "even-paused", false, "run it although it is paused")
	return cmd
}

// obstacleWords say what a run waits for.
func obstacleWords(o *jobs.Obstacle) string {
	if o == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s (%s)", o.Words("is held by"), o.Reason)
}

// readParams reads a flag's JSON, or the file that it names.
func readParams(text string) (json.RawMessage, error) {
	if path, named := strings.CutPrefix(text, "@"); named {
		file, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		text = string(file)
	}
	if text == "" {
		return nil, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		return nil, errors.New(`expected an object in JSON, such as {"account": "globex"}`)
	}
	return json.RawMessage(text), nil
}
