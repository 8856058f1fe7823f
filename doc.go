// Package holdfast is a distributed job scheduler: every replica of a service
// runs the same cron table, and before a job runs its replica locks the tables
// that it writes.
//
// A program that only adds handlers of its own to the stock command line calls
// [Main]:
//
//	func main() {
//		holdfast.Main(jobs.Handle("refresh-sales", refreshSales))
//	}
//
// One that has a main of its own makes a [Replica] with [New] and gives it a
// context to run in:
//
//	replica, err := holdfast.New(config, holdfast.WithHandlers(handlers...))
//	…
//	err = replica.Run(ctx)
//
// The packages beneath, from the page down to the policies, each import only
// those that follow: admin shows who holds what; jobs fires, runs and records;
// locking locks; retry waits. configs describes it all in YAML.
//
// What is guaranteed, fault by fault, is in docs/guarantees.md.
package holdfast
