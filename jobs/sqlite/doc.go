// Package sqlite stores sessions, firings and the history in one SQLite file. It is the store of a
// single machine, with nothing to install.
//
// # Processes
//
// A scheduler opens the file with [Options].Exclusive and so takes a file lock (path + ".lock")
// while the store is open. For a symbolic link, this is the path of its target. So exactly one
// process runs jobs on a file. All live sessions of the file belong to this process. Several
// replicas of the process share one [Store]. Commands open the file without the lock, to read and
// to perform actions.
//
// # One writer
//
// The file is in WAL mode with synchronous=FULL. So a commit survives a loss of power, and readers
// do not wait for the writer. The writer is one connection, which all transactions that write
// share. The transactions of jobs ([InTx], [Store.RunStatements]) use it too. So all writes happen
// one after the other, and a job with a long transaction delays every start and finish. If the
// context of a call ends before the call gets the writer, the call returns storage.ErrUnavailable.
//
// Actions of operators wait for the transaction of a job too. There are two exceptions:
//
//   - A cancel of the run in the transaction reaches its replica from memory.
//   - A forced release can end the transaction.
//
// This includes an action that was requested while the run waited for the writer. The goroutine of
// the job then writes the action before it gives the writer to the next call, which may be the end
// of the run.
//
// # Sessions
//
// The process decides in memory, by the monotonic clock, whether a session is alive. So a heartbeat
// need not wait for the transaction of a job. If the writer becomes free within a second, a
// heartbeat also writes the new expiry to the file, for commands. When a scheduler opens the file,
// all sessions of former processes are dead. The first sweep ends them.
//
// # Claims
//
// A claim is one row with the token of the run. A run may commit while its claim exists. Start
// checks for conflicts and inserts the claim with its grants, in one transaction. Finish, sweep and
// revoke delete it. A transaction of a job first looks for its claim. Since this transaction is the
// only writer, nothing can delete the claim until it has ended.
//
// # Active definitions
//
// The active definitions follow from the definitions of the sessions. The end of a session removes
// its definitions. Those of a dead session count until the next sweep, registration or end of a
// session.
//
// # Guarantees
//
// The guarantees hold for writes through fenced transactions in this file:
//
//   - While a run has its claim, no run that conflicts with it can commit.
//   - A superseded run commits nothing more.
//   - A run that completes in its own transaction has its effects at most once. If it is recorded
//     as succeeded, it has them exactly once.
//
// They do not hold on network file systems without reliable locks and fsync.
//
// The names of the store's tables begin with holdfast_. Users may have tables in the same file.
package sqlite
