// Package jobs has the types for programs that define jobs: handlers, runs, the policies of a job,
// and the events of its firings.
//
// # Handlers
//
// A handler does the work of one attempt. [Handle] gives it a name and the type of its params:
//
//	jobs.Handle("refresh-sales", func(ctx context.Context, run *jobs.Run, p Params) error {
//		return run.CompleteInTx(ctx, func(tx jobs.Tx) error { … })
//	})
//
// The params of a job are decoded strictly when the job is added, so that a mistake in them is an
// error at start. The context of a run ends with a cause that says why: [ErrTimeout],
// [ErrCancelled], [ErrShutdown], [ErrClaimLost], or an error of the replica's session.
//
// # Which writes are protected
//
// A fenced transaction checks the claim of its run first, and commits only while the run has its
// claim. Packages jobs/postgres and jobs/sqlite run such transactions. Package jobs/fence fences
// transactions in other databases by the tokens of the runs. Effects elsewhere are not fenced: pass
// [Run].Token on, and have the other system refuse tokens smaller than the largest that it has
// seen.
//
// # State, results and output
//
// A handler can save a state for the job's next run ([Run].Save), set a result ([Run].SetResult),
// and write output ([Run].Log, [Run].Output). The statement that ends the run stores them: the
// state only if the run succeeds. A superseded run stores nothing.
//
// # Notifications
//
// A [Listener] gets the events of the firings of its replica. Events are dropped while its queue is
// full. A [Hook] names a webhook that is called when a run of the job ends. The store records the
// notification and the end of the run in one transaction.
//
// # Other packages
//
//	schedule    schedules and calendars
//	handlers    the built-in handlers: sql, http and command
//	reasons     the reasons why runs wait, are skipped or end
//	storage     the contract of stores, and what they return
//	operations  the actions of operators
//	permission  who may perform which action
//	explain     explanations of the outcomes of firings
//	webhook     sends notifications
//	postgres    the store for clusters
//	sqlite      the store for one process
//	fence       fenced transactions in other databases
package jobs
