package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
)

// commandLine has the values that all commands share.
type commandLine struct {
	serverFlags
	program    app.Options // handlers, jobs and hooks of the program
	configPath string
	format     outputFormat
	out        io.Writer
	errOut     io.Writer // for notes and progress; nil: none
	getenv     func(name string) string
}

// Execute runs the command line args. Program has the handlers, jobs and hooks of the program, in
// addition to the built-in handlers and the jobs of the file. Execute prints no error: see
// Report. An *ExitError has an exit code of its own.
func Execute(
	ctx context.Context, args []string, out, errOut io.Writer, program app.Options,
) error {
	c := &commandLine{program: program, out: out, getenv: os.Getenv}
	return c.execute(ctx, args, errOut)
}

func (c *commandLine) execute(ctx context.Context, args []string, errOut io.Writer) error {
	c.errOut = errOut
	root := c.rootCommand()
	root.SetArgs(args)
	root.SetOut(c.out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return nil
	}
	return c.mistake(cmd, args, err)
}

// rootCommand returns the command "scheduler" with all commands.
func (c *commandLine) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "scheduler",
		Short: "Distributed job scheduler that locks the tables of each job",
		Long: `Holdfast is a distributed job scheduler that locks the tables of each job.

Commands use the database of the configuration, or with --server the API of a
replica, with the permissions of a token. Then the audit log names the token.`,
		// An error is one line, so cobra adds neither usage nor suggestions.
		SilenceUsage: true, SilenceErrors: true, DisableSuggestions: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return c.chooseServer(cmd)
		},
	}
	root.PersistentFlags().StringVarP(&c.configPath, "config", "c", "holdfast.yaml",
		"configuration `file`")
	root.PersistentFlags().VarP(&c.format, "output", "o",
		"output `format`: table, wide, json or yaml")
	c.serverFlags.add(root)
	completesOf(root, "output", outputFormats())
	root.AddCommand(
		c.runCommand(), c.demoCommand(), c.validateCommand(), c.lintCommand(), c.nextCommand(),
		c.migrateCommand(), c.pruneCommand(),
		c.doctorCommand(), c.statusCommand(), c.jobsCommand(), c.runsCommand(), c.logsCommand(),
		c.locksCommand(), c.replicasCommand(), c.databasesCommand(), c.webhooksCommand(),
		c.pausesCommand(), c.auditCommand(), c.explainCommand(),
		c.backfillCommand(), c.backfillsCommand(),
		c.triggerCommand(), c.pauseCommand(), c.resumeCommand(), c.cancelCommand(),
		c.fenceCommand(), c.releaseCommand(), c.drainCommand(), c.undrainCommand(),
		c.addCommand(), c.removeCommand(), c.configCommand(), c.importCommand(),
		c.hashPasswordCommand(), c.versionCommand(),
	)
	checkUsage(root)
	return root
}

// exitCode is the annotation of a command with the exit code of its mistakes. Without it, the code
// is 1.
const exitCode = "holdfast/exit-code"

// failsWith marks a command whose mistakes have an exit code of their own.
func failsWith(cmd *cobra.Command, code int) *cobra.Command {
	return annotated(cmd, exitCode, strconv.Itoa(code))
}

// mistake returns the error of a command with its exit code. It has the text in the format of the
// output.
func (c *commandLine) mistake(cmd *cobra.Command, args []string, err error) error {
	var own *ExitError
	if !errors.As(err, &own) {
		own = &ExitError{Code: 1, Err: err}
		if code, parseErr := strconv.Atoi(cmd.Annotations[exitCode]); parseErr == nil {
			own.Code = code
		}
	}
	if own.Err == nil {
		return own
	}
	if text, structured := c.formatMistake(args, own.Err); structured {
		return &ExitError{Code: own.Code, Err: own.Err, Formatted: text}
	}
	if own.Code == 1 {
		return err
	}
	return own
}

// load reads the configuration, adds the program's jobs, and checks the params of all jobs against
// the handlers.
func (c *commandLine) load() (*configs.Config, error) {
	checked, err := c.program.CheckParams()
	if err != nil {
		return nil, err
	}
	return configs.Load(c.configPath, checked, configs.WithBuiltJobs(c.program.Jobs...))
}
