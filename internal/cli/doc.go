// Package cli is the command line "scheduler". [Execute] parses the arguments and runs one
// command. Each command has a file of its own, named after the command.
//
// There are three kinds of commands:
//
//   - run and demo run replicas of package app in this process.
//   - validate, lint, next, import, fence print, hash-password and version need no database. They
//     read at most the configuration.
//   - All others work on a cluster beside its replicas. They open the store and other servers of
//     the configuration, or with --server use the API of a replica (package remote). Commands that
//     change something perform an action of [operations.Operations]. The store writes the action
//     and its entry in the audit log in one transaction. Replicas obey within about a second.
//
// Commands share these helpers:
//
//	commandline.go  the flags -c and -o, and the list of commands
//	store.go        opens store, advisory locks and operations
//	action.go       the flag --reason, the actor, and advice for refused actions
//	target.go       the flags --group and --all
//	output.go       tables, JSON and cells
//	escape.go       JSON and YAML that cannot control a terminal
//	report.go       errors and exit codes
//	signal.go       SIGINT and SIGTERM; signal_unix.go has SIGHUP
//
// An error is one line on standard error, or an object with -o json or yaml. Mistakes in a
// configuration or in an added job take one line each. The process exits with 1, or with the code
// of an [ExitError].
package cli
