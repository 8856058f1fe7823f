package holdfast

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/term"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/jobs"
)

func (c *commandLine) triggerCommand() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use: "trigger JOB", Short: "Run a job now, on any replica", Args: cobra.ExactArgs(1),
		Long: `Run a job now: a replica takes the run up within about a second, and it waits for its tables like any other.
A key makes the call repeatable: the same key for the same job is the same run.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withStore(cmd.Context(), func(_ *configs.Config, store jobs.Store) error {
				run, err := store.Trigger(cmd.Context(), args[0], key)
				if errors.Is(err, jobs.ErrNotFound) {
					return fmt.Errorf("no job is called %q in the store: is a replica running with it?", args[0])
				}
				if err != nil {
					return err
				}
				return c.print(run, "RUN\tJOB\tKEY\tSTATE", [][]string{{run.ID.String(), run.Job, run.Key, string(run.State)}})
			})
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "idempotency `key` (default a new one)")
	return cmd
}

func (c *commandLine) hashPasswordCommand() *cobra.Command {
	return &cobra.Command{
		Use: "hash-password", Short: "Read a password and print its hash, for admin.users", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			password, err := readPassword(cmd)
			if err != nil {
				return err
			}
			hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
			if err != nil {
				return fmt.Errorf("password: %w", err)
			}
			return c.print(map[string]string{"password_hash": string(hash)}, string(hash), nil)
		},
	}
}

// readPassword reads a line, without showing it where it is typed.
func readPassword(cmd *cobra.Command) (string, error) {
	var password string
	if fd := int(os.Stdin.Fd()); cmd.InOrStdin() == os.Stdin && term.IsTerminal(fd) {
		fmt.Fprint(cmd.ErrOrStderr(), "Password: ")
		typed, err := term.ReadPassword(fd)
		fmt.Fprintln(cmd.ErrOrStderr())
		if err != nil {
			return "", fmt.Errorf("password: %w", err)
		}
		password = string(typed)
	} else {
		line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		if err != nil && line == "" {
			return "", fmt.Errorf("password on standard input: %w", err)
		}
		password = strings.TrimRight(line, "\r\n")
	}
	if password == "" {
		return "", errors.New("password: found an empty one")
	}
	return password, nil
}
