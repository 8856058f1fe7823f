// Package holdfast is a distributed job scheduler. Every replica of a service
// has the same jobs (the cron table). Before a replica runs a job, it locks the
// tables that the job writes.
//
// A program with a main of its own makes a [Replica] with [New] and runs it:
//
//	replica, err := holdfast.New(holdfast.WithPostgres(url), holdfast.WithJobs(refreshSales))
//	…
//	err = replica.Run(ctx)
//
// A program that only adds jobs of its own to the commands of cmd/scheduler calls cli.Main:
//
//	func main() {
//		cli.Main(holdfast.WithJobs(refreshSales))
//	}
//
// The admin page, the command line, SQLite and the exporter of spans are in the packages admin,
// cli, jobs/sqlite and otlp. A program that does not import them does not link them.
//
// A [Job] is a value with a schedule, the tables that it writes, typed params and a function. Jobs
// in a YAML file and jobs in Go can be used together.
//
// Package jobs has the types for handlers. Package configs reads the configuration. Package
// holdfasttest tests jobs without servers.
//
// docs/guarantees.md lists the guarantees, and what happens in each kind of fault.
package holdfast
