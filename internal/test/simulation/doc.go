// Package simulation is what a simulated cluster does and what is asked of it
// in the end: a cron table of many kinds of jobs, a script of faults, a ledger
// in which handlers write down what they did, and an oracle.
//
// The oracle knows nothing of how firings are made. It takes the schedules, in
// force as the store says they were, and enumerates every scheduled time; it takes what is
// in the store in the end, and what the ledger says; and it holds the one
// against the other. What it asks:
//
//   - Each scheduled time that counts has one run or record, that is final; or it was told
//     of collectively, in a number that is exact; or a calendar excluded it, and
//     nothing is recorded of it. Nothing is recorded that was never due.
//   - What is recorded as run did run, once an attempt, in the order of the
//     attempts; what is recorded as skipped or missed did not. Nothing else ran.
//   - A firing runs again only as the recovery of a run that was lost, as often
//     as is allowed, and each lost run of a job that recovers has its successor.
//   - Of two runs that conflict, no two acted at the same time, where acting is
//     to find one's claim standing; and what acted later had the larger token.
//   - A job's runs that started in time started in the order of their scheduled times.
//   - What was paused did not start, nothing started before its time, and nothing
//     began after its deadline or was skipped for one before it.
//   - A group had no more runs at once than its limits allow, in the cluster and on
//     a replica.
//   - What was not started in time was decided by the policy for what kept it, and
//     that is told as it was: a pause, an outage, or that there was no worker.
//     No replica that could start it had workers free all the time.
//   - A firing whose wait for a lock ran out gave up when its policy says so, and
//     firings don't pile up.
//   - What operators were told is so: a key is one run with its params; what was
//     asked to end ended, what was taken away stays so, of two who change a job one
//     wins, what was added is active soon, and nothing starts of what was removed
//     or where a replica is drained.
//   - While nothing was wrong, nothing was missed or lost, and what was skipped
//     names what was in its way.
//
// The simulation itself is a test of package jobs, since it stretches what is
// not for users to set; a test of internal/test/clustertest asks the same oracle
// about processes.
package simulation
