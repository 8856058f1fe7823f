// Package holdfast is a distributed job scheduler. Every replica of a service
// runs the same cron table, and a replica locks the tables that a job writes
// before it runs the job.
//
// A program that only adds handlers of its own to the stock command line calls
// [Main]:
//
//	func main() {
//		holdfast.Main(jobs.Handle("refresh-sales", refreshSales))
//	}
//
// A program with a main of its own makes a [Replica] with [New] and runs it:
//
//	replica, err := holdfast.New(config, holdfast.WithHandlers(handlers...))
//	…
//	err = replica.Run(ctx)
//
// Package jobs has what people who write jobs import, package configs reads the
// configuration, and package admin serves the page.
//
// docs/guarantees.md says what Holdfast guarantees, fault by fault.
package holdfast
