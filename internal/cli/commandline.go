package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/configs"
	"github.com/holdfast-dev/holdfast/internal/app"
)

// commandLine has the values that all commands share.
type commandLine struct {
	program    app.Options // handlers, jobs and hooks of the program
	configPath string
	format     outputFormat
	out        io.Writer
}

// Execute runs the command line args. Program has the handlers, jobs and hooks of the program, in
// addition to the built-in handlers and the jobs of the file. Execute prints no error; the caller
// does.
func Execute(
	ctx context.Context, args []string, out, errOut io.Writer, program app.Options,
) error {
	c := &commandLine{program: program, out: out}
	root := &cobra.Command{
		Use:   "scheduler",
		Short: "Distributed job scheduler that locks the tables of each job",
		// An error is one line, so cobra adds neither usage nor suggestions.
		SilenceUsage: true, SilenceErrors: true, DisableSuggestions: true,
	}
	root.PersistentFlags().StringVarP(&c.configPath, "config", "c", "holdfast.yaml",
		"configuration `file`")
	root.PersistentFlags().VarP(&c.format, "output", "o", "output `format`: table or json")
	root.AddCommand(
		c.runCommand(), c.demoCommand(), c.validateCommand(), c.nextCommand(), c.migrateCommand(),
		c.doctorCommand(), c.statusCommand(), c.jobsCommand(), c.runsCommand(), c.logsCommand(),
		c.locksCommand(), c.webhooksCommand(),
		c.pausesCommand(), c.auditCommand(), c.explainCommand(),
		c.triggerCommand(), c.pauseCommand(), c.resumeCommand(), c.cancelCommand(),
		c.releaseCommand(), c.drainCommand(), c.undrainCommand(),
		c.addCommand(), c.removeCommand(), c.importCommand(), c.hashPasswordCommand(),
		c.versionCommand(),
	)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	return root.ExecuteContext(ctx)
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
