// Package storage is the contract of Holdfast's stores, with its requests, results and records.
// Stores are jobs/postgres, for clusters, and jobs/sqlite, for one process.
//
// [Store] is the sum of small interfaces, each with one concern:
//
//	Sessions    a replica's liveness: open, heartbeat, end
//	Firings     start, note, finish: from a firing to the end of its run
//	Upkeep      sweep, adoption, misfires, pruning
//	Dependents  the firings of jobs that run after others
//	Backfills   the next runs of backfills
//	Actions     the actions of operators
//	Control     Actions, the control state that replicas obey, and the audit log
//	AuditChain  the hash chain of the audit log
//	History     runs, jobs, replicas and locks, as pages and commands show them
//	Contention  which jobs waited for which, and for how long
//	JobProgress the state that a job saves for its next run, and its previous success
//	Marked      values that change when data changes, so that open pages know when to load again
//	Watching    output of runs that are being watched
//
// Packages that use a store ask for the methods that they call, as jobs/explain and jobs/operations
// do.
//
// These interfaces are not part of [Store]: [RunStore] (fenced transactions of runs), [TestRuns]
// (runs of tests), [Outbox] (webhooks), [LoginAttempts] (failed sign-ins), [SignOuts],
// [AuditWriter] (events in the audit log), [Tokens] (fencing tokens after a restore), and
// [Restarts] (of memcached).
//
// Every method may be called concurrently. If the store cannot be reached, a method returns an
// error that wraps [ErrUnavailable]. The caller then does not know whether the store has executed
// the call. Batches have at most [MaxBatch] requests.
//
// A store decides by its own clock, never by the clocks of replicas. It grants a claim with a start
// and checks it in every fenced transaction. The full text of the protocol is in jobs/postgres.
//
// internal/test/jobstest checks the contract. Every store passes it.
package storage
