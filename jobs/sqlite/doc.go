// Package sqlite stores sessions, firings and the history in one SQLite file: the store of a
// single machine, with nothing to install.
//
// # Protocol
//
// A scheduler opens the file with [Options].Exclusive, which takes a file lock (path + ".lock")
// while the store is open. So exactly one process runs jobs on a file, and all live sessions of the
// file are sessions of this process. Several replicas of that process share one [Store]. Commands
// open the file without the lock, while a scheduler may be running, to read and to perform actions.
//
// The file is in WAL mode with synchronous=FULL. So a commit survives a loss of power, and
// readers see the last commit without waiting for the writer. There is one writing connection,
// whose transactions begin IMMEDIATE. The transactions of jobs ([InTx], [Store.RunStatements])
// use it too. So all writes happen one after the other, and a job with a long transaction delays
// every start and finish. If the context of a call ends before the call gets the connection, the
// call returns storage.ErrUnavailable.
//
// Each connection keeps its prepared statements, up to a limit, and uses them again.
//
// The process decides in memory, by the monotonic clock, whether a session is alive. A heartbeat
// must not wait for the transaction of a job, or a long one would cost the replica its session. So
// that commands can read the new expiry, a heartbeat also writes it to the file, but only if the
// writer is free. When the file is opened, all sessions of former processes are dead, and the first
// sweep ends them.
//
// A run may commit while its claim exists: one row with the token of the run. Start checks for
// conflicts and inserts the claim with its grants in one transaction. Finish, sweep and revoke
// delete it. A transaction of a job first looks for its claim. Since it is the only writer, the
// claim cannot be deleted until it has ended.
//
// The active definitions follow from the definitions that sessions have. The end of a session
// removes its definitions. Those of a dead session count until the next sweep, registration or end
// of a session removes them.
//
// # Guarantees
//
// The guarantees hold for writes through fenced transactions in this file. While a run has its
// claim, no run that conflicts with it can commit. A superseded run commits nothing more. A run
// that completes in its own transaction has its effects at most once, and exactly once if it is
// recorded as succeeded. Network file systems without reliable locks and fsync are outside of
// the guarantees.
//
// The names of the store's tables begin with holdfast_. Tables of users may be in the same file.
package sqlite
