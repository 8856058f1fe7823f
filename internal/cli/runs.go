package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs"
)

// showRun prints all that is known of one run.
func (c *commandLine) showRun(cmd *cobra.Command, text string) error {
	id, err := uuid.Parse(text)
	if err != nil {
		return fmt.Errorf("expected a run's id, found %q", text)
	}
	return c.withStore(cmd.Context(), func(_ *configs.Config, store app.Storage) error {
		run, err := store.Run(cmd.Context(), id)
		if errors.Is(err, jobs.ErrNotFound) {
			return fmt.Errorf("the history has no run %s", id)
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
