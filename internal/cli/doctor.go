package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
)

// Exit codes of the command "doctor".
const (
	checkWarned = 1
	checkFailed = 2
)

// diagnosis is the JSON of the command "doctor".
type diagnosis struct {
	Result app.CheckResult `json:"result"` // the worst one
	Checks []app.Check     `json:"checks"`
}

// doctorCommand returns the command "doctor".
func (c *commandLine) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the configuration and its servers, and say what to do",
		Long: `Check the configuration, the database, its roles and settings, the clock and
memcached from this machine, and say what to do. The command changes nothing.

The exit code is 0 if all checks are ok, 1 if there is a warning, and 2 if a check
failed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks, err := c.examine(cmd.Context())
			if err != nil {
				return err
			}
			d := diagnosis{app.CheckOK, checks}
			code := 0
			for _, check := range checks {
				switch {
				case check.Result == app.CheckFailed:
					code, d.Result = checkFailed, app.CheckFailed
				case check.Result == app.CheckWarning && code == 0:
					code, d.Result = checkWarned, app.CheckWarning
				}
			}
			if err := c.printDiagnosis(d); err != nil {
				return err
			}
			if code > 0 {
				return &ExitError{Code: code}
			}
			return nil
		},
	}
	return failsWith(cmd, checkFailed)
}

// examine checks the configuration, and if it has no mistake, its servers.
func (c *commandLine) examine(ctx context.Context) ([]app.Check, error) {
	const name = "configuration"
	config, err := c.load()
	if err == nil {
		checks, err := app.Examine(ctx, config)
		return append([]app.Check{{Name: name, Result: app.CheckOK,
			Detail: fmt.Sprintf("%s is valid: %d jobs", c.configPath, len(config.Jobs))}},
			checks...), err
	}
	const advice = "correct the configuration, then check again: no server was checked"
	var wrong *configs.Errors
	if !errors.As(err, &wrong) {
		return []app.Check{{Name: name, Result: app.CheckFailed, Detail: err.Error(),
			Advice: advice}}, nil
	}
	var checks []app.Check
	for _, p := range wrong.Problems {
		checks = append(checks, app.Check{Name: name, Result: app.CheckFailed, Detail: p.String(),
			Advice: advice})
	}
	return checks, nil
}

// printDiagnosis writes the checks as JSON, or as a table with the advice below its check.
func (c *commandLine) printDiagnosis(d diagnosis) error {
	var rows [][]string
	for _, check := range d.Checks {
		rows = append(rows, []string{string(check.Result), check.Name, check.Detail})
		if check.Advice != "" {
			rows = append(rows, []string{"", "", "To do: " + check.Advice})
		}
	}
	return c.print(d, "RESULT\tCHECK\tDETAIL", rows)
}
