// Package simulation contains the parts of a simulated cluster: a cron table of many kinds of jobs,
// a script of faults, a ledger of what handlers did, and an oracle that checks the result.
//
// The oracle does not know how the scheduler works. It takes the active definitions from the store
// and enumerates every scheduled time. It compares these with the runs in the store and the calls
// in the ledger. It checks that:
//
//   - Each scheduled time that counts has one final run or record of its own, or a later record
//     covers it. Such a collective record gives the number of the times that it covers, and the
//     number is right. A time that a calendar excludes has no record, nor has any other time.
//   - A run whose record says that it started has one call per attempt, in the order of the
//     attempts. A skipped or missed run has no call. No other calls exist.
//   - A firing runs again only as the recovery of a lost run, at most as
//     often as allowed. Each lost run of a job that recovers has its
//     successor.
//   - No two conflicting runs acted at the same time. A run acts from the call of its handler until
//     the last time at which the handler finds the claim of the run. The later run had the larger
//     token.
//   - The runs of a job that started in time started in the order of their
//     scheduled times.
//   - No run of a paused job started, no run started before its time, none
//     began after its deadline, and none was skipped for its deadline
//     before it.
//   - A group had at most as many concurrent runs as its limits allow, in
//     the cluster and on each replica.
//   - If a scheduled time was not started in time, the misfire policy for the true cause decided on
//     it. The cause is a pause, an outage, or that no worker was free. In the last case, no replica
//     that could start it had a free worker for the whole time in which it could start.
//   - A firing gave up its wait for a lock when its policy says so, and
//     firings do not accumulate.
//   - The answers to operators were true: a key is one run with its params, a cancelled run ended,
//     a released lock stayed released, and one of two concurrent changes of a job won. An added job
//     is active soon. No run of a removed job starts, and no run starts on a draining replica.
//   - Without faults nothing was missed or lost, and each skip names its
//     blocker.
//
// The simulation itself is a test of package internal/engine, because it changes settings that
// users cannot change. A test of internal/test/clustertest applies the same oracle to processes.
package simulation
