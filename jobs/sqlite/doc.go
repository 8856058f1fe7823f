// Package sqlite keeps sessions, firings and history in one SQLite file: the
// store of a single machine, with nothing to install.
//
// # Protocol
//
// A scheduler opens the file with [Options].Exclusive, which takes a file lock
// (path + ".lock") for as long as the store is open. So exactly one process
// runs jobs on a file, and all sessions live in it: several replicas of that
// process share one [Store]. Command-line tools open the file without the
// lock, beside a running scheduler, to read and to do what operators do.
//
// The file is in WAL mode with synchronous=FULL: what was committed survives a
// loss of power, and readers see the last commit without waiting for the
// writer. There is one writing connection, whose transactions begin IMMEDIATE;
// the transactions of jobs ([InTx], [Store.RunStatements]) use it too. So all
// that PostgreSQL needs locks for happens here one after the other, and a job
// with a long transaction holds up every start and finish for that long. A
// call whose context ends before its turn returns jobs.ErrUnavailable.
//
// Each connection keeps the statements that it has prepared, up to a bound, and
// uses them again.
//
// Whether a session lives is decided in memory, on the monotonic clock: a
// heartbeat must not wait for a job's transaction, or a long one would cost
// the replica its session. A heartbeat writes the new expiry to the file only
// if the writer is free, for tools to see. Sessions that a former process left
// are dead from the moment the file is opened: the first sweep ends them.
//
// A run may act while its claim stands: one row with the run's token. Start
// inserts it with its grants after the check for conflicts, in one
// transaction; finish, sweep and revoke delete it. A job's transaction looks
// for its claim first, as the one writer: nobody can delete the claim until it
// has ended.
//
// What a session carries counts until the session is found dead, at an end, a
// sweep or a registration: what a former process carried never outlives it.
//
// # Guarantees
//
// For what jobs write through fenced transactions in this file: no two runs
// with conflicting grants overlap in what they commit, a superseded run
// commits nothing more, and a run completed in its own transaction has its
// effects exactly once. Network file systems, whose locks and fsync do not
// hold, are outside the promise.
//
// The tables of the store begin with holdfast_; users' tables may live beside
// them.
package sqlite
