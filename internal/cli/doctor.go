package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/doctor"
)

// Exit codes of the command "doctor".
const (
	checkWarned = 1
	checkFailed = 2
)

// diagnosis is the JSON of the command "doctor".
type diagnosis struct {
	Result doctor.Result  `json:"result"` // the worst one
	Checks []doctor.Check `json:"checks"`
}

// doctorCommand returns the command "doctor".
func (c *commandLine) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the configuration and its servers, and say what to do",
		Long: `Check the configuration, the database, its roles and settings, the clock, memcached
and the programs of command jobs from this machine, and say what to do. The command
changes nothing.

The exit code is 0 if all checks are ok, 1 if there is a warning, and 2 if a check
failed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks, err := c.examine(cmd.Context())
			if err != nil {
				return err
			}
			d := diagnosis{doctor.OK, checks}
			code := 0
			for _, check := range checks {
				switch {
				case check.Result == doctor.Failed:
					code, d.Result = checkFailed, doctor.Failed
				case check.Result == doctor.Warning && code == 0:
					code, d.Result = checkWarned, doctor.Warning
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
func (c *commandLine) examine(ctx context.Context) ([]doctor.Check, error) {
	const name = "configuration"
	config, err := c.load()
	if err == nil {
		err = c.program.CheckStore(config)
	}
	if err == nil {
		checks, err := doctor.Examine(ctx, config)
		return append([]doctor.Check{{Name: name, Result: doctor.OK,
			Detail: c.validText(config)}},
			checks...), err
	}
	const advice = "correct the configuration, then check again: no server was checked"
	var wrong *configs.Errors
	if !errors.As(err, &wrong) {
		return []doctor.Check{{Name: name, Result: doctor.Failed, Detail: err.Error(),
			Advice: advice}}, nil
	}
	var checks []doctor.Check
	for _, p := range wrong.Problems {
		checks = append(checks, doctor.Check{Name: name, Result: doctor.Failed, Detail: p.String(),
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
