// Package simulation is what a simulated cluster does and what is asked of it
// in the end: a cron table of many kinds of jobs, a script of faults, a ledger
// in which handlers write down what they did, and an oracle.
//
// The oracle knows nothing of how firings are made. It takes the schedules, in
// force as the store says they were, and enumerates every due; it takes what is
// in the store in the end, and what the ledger says; and it holds the one
// against the other. What it asks:
//
//   - Each due that counts has one run or record, that is final; or it was told
//     of collectively, in a number that is exact; or a calendar excluded it, and
//     nothing is recorded of it. Nothing is recorded that was never due.
//   - What is recorded as run did run, once an attempt, in the order of the
//     attempts; what is recorded as skipped or missed did not. Nothing else ran.
//   - A firing runs again only as the recovery of a run that was lost, as often
//     as is allowed, and each lost run of a job that recovers has its successor.
//   - Of two runs that conflict, no two acted at the same time, where acting is
//     to find one's claim standing; and what acted later had the larger token.
//   - A job's runs that started in time started in the order of their dues.
//   - What was paused did not start, and nothing started before its time.
//   - While nothing was wrong, nothing was missed or lost, and what was skipped
//     names what was in its way.
//
// The simulation itself is a test of package jobs, since it stretches what is
// not for users to set; a test of internal/clustertest asks the same oracle
// about processes.
package simulation
