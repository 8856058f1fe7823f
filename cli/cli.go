// Package cli is the command line of cmd/scheduler for programs that add jobs of their own:
//
//	func main() {
//		cli.Main(holdfast.WithJobs(refreshSales))
//	}
//
// It links everything that a configuration can name, such as SQLite and the exporter of spans. A
// program with a main of its own uses package holdfast.
package cli

import (
	"os"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/cli"
)

// Main is the command line of cmd/scheduler with the program's own handlers and jobs added to the
// built-in handlers and the jobs of the file. After a success it returns. After an error it writes
// the error to standard error, and exits the process with 1. With -o json or -o yaml, the error has
// that format. Some commands have exit codes of their own, which their help lists: status, doctor,
// lint, audit verify, and with --wait also trigger, backfill and backfills. The flag --config names
// the file, so Main refuses options that set the configuration.
//
// The first SIGINT or SIGTERM stops the replica gracefully. A second one ends the process at once.
func Main(given ...holdfast.Option) {
	program, err := holdfast.ForCommands(given...)
	if err == nil {
		err = cli.Execute(cli.UntilSignal(), os.Args[1:], os.Stdout, os.Stderr, program)
	}
	if err != nil {
		os.Exit(cli.Report(err, os.Stderr))
	}
}
