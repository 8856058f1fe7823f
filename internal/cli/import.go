package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/crontab"
)

// importCommand returns the command "import".
func (c *commandLine) importCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "import", Short: "Print the jobs of another scheduler as YAML"}
	cmd.AddCommand(c.importCrontabCommand())
	return cmd
}

func (c *commandLine) importCrontabCommand() *cobra.Command {
	var options crontab.Options
	cmd := &cobra.Command{
		Use:   "crontab FILE",
		Short: "Print the jobs of a crontab as YAML",
		Long: `Print the jobs of a crontab as YAML. FILE is a path, or - for standard input.

Each line becomes a job with the handler "command". Warnings on standard error say what
is different with Holdfast. Lines that have no job are comments in the output. The exit
code is 1 if there is such a line.`,
		Example: `  crontab -l | scheduler import crontab - --timezone Europe/Berlin > holdfast.yaml
  scheduler import crontab /etc/crontab --system --timezone Europe/Berlin`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.format == jsonFormat || c.format == wideFormat {
				return fmt.Errorf("-o %s: expected yaml, because the output is a part of a "+
					"configuration", c.format)
			}
			if _, err := zoneOf(options.Timezone); err != nil {
				return err
			}
			in := io.Reader(cmd.InOrStdin())
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return fmt.Errorf("read the crontab: %w", err)
				}
				defer file.Close() //nolint:errcheck // it was only read
				in = file
			}
			table, err := untilInterrupted(cmd.Context(), func() (crontab.Table, error) {
				return crontab.Read(in, options)
			})
			if err != nil {
				return fmt.Errorf("read the crontab: %w", err)
			}
			for _, w := range table.Warnings {
				if _, err := fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w); err != nil {
					return err
				}
			}
			if err := table.Write(c.out); err != nil {
				return err
			}
			if n := len(table.Skipped); n > 0 {
				return fmt.Errorf("lines of the crontab without a job: %d", n)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&options.System, "system", false,
		"the file has a user before each command, as /etc/crontab")
	cmd.Flags().StringVar(&options.Timezone, "timezone", "",
		"time `zone` of lines before CRON_TZ; cron uses that of the machine")
	return cmd
}
