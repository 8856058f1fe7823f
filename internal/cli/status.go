package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/admin"
	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// unknownStatus is the exit code of the command "status" if it could not read the status. It is
// that of plug-ins of Nagios, as are those of the severities.
const unknownStatus = 3

// ExitError is an error with an exit code of its own.
type ExitError struct {
	Code int
	Err  error // nil: the output says it all
}

// Error returns the text of the cause, or "".
func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// statusCommand returns the command "status".
func (c *commandLine) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Show the status of the cluster and its problems", Args: cobra.NoArgs,
		Long: `Show the status of the cluster and its problems, by the same rules as the page.

The exit code is 0 if the status is neutral, 1 if it is amber, 2 if it is red, and
3 if the command could not read it.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := c.readStatus(cmd.Context())
			if err != nil {
				return &ExitError{unknownStatus, err}
			}
			if err := c.printStatus(v); err != nil {
				return &ExitError{unknownStatus, err}
			}
			if code := v.Severity.Rank(); code > 0 {
				return &ExitError{Code: code}
			}
			return nil
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return &ExitError{unknownStatus, err}
	})
	return cmd
}

// readStatus returns the status. A store that does not answer is a part of it.
func (c *commandLine) readStatus(ctx context.Context) (v admin.Status, err error) {
	config, err := c.load()
	if err != nil {
		return v, err
	}
	registry, err := app.NewRegistry(c.program.Handlers)
	if err != nil {
		return v, err
	}
	var locks *app.LockBackend
	if config.Locking.Memcached != nil {
		if locks, err = app.NewLockBackend(config, zerolog.Nop()); err != nil {
			return v, err
		}
		defer locks.Close() //nolint:errcheck // no lock depends on these connections
		locks.CheckLocks(ctx)
	}
	store, err := app.OpenStore(ctx, config, false, zerolog.Nop())
	if errors.Is(err, storage.ErrUnavailable) {
		return admin.UnreachableStatus(ctx, app.StatusOptions(config, nil, nil, locks), err), nil
	}
	if err != nil {
		return v, err
	}
	defer store.Close()
	current := func() *configs.Config { return config }
	ops := app.NewOperations(app.SpecParser{Config: current, Registry: registry}, app.Jobs(config),
		store, store.Outbox, nil, "", nil, zerolog.Nop())
	return admin.ReadStatus(ctx, app.StatusOptions(config, store, ops, locks)), nil
}

// printStatus writes the status as JSON, or on one screen.
func (c *commandLine) printStatus(v admin.Status) error {
	parts := make([]string, len(v.Parts))
	for i, p := range v.Parts {
		parts[i] = p.Name + ": " + p.Text
	}
	if c.format != "json" {
		_, err := fmt.Fprintf(c.out, "%s: %s\n%s\n", strings.ToUpper(string(v.Severity)),
			printable(v.Headline), printable(strings.Join(parts, ", ")))
		if err != nil || len(v.Problems) == 0 {
			return err
		}
		fmt.Fprintln(c.out)
	}
	rows := make([][]string, len(v.Problems))
	for i, p := range v.Problems {
		age := "-"
		if p.Since != nil {
			age = v.Now.Sub(*p.Since).Round(time.Second).String()
		}
		rows[i] = []string{string(p.Severity), age, p.Text}
	}
	return c.print(v, "SEVERITY\tFOR\tPROBLEM", rows)
}
