// Package lockhistory records how several processes use locks, and checks afterwards whether the
// guarantee held.
//
// # What is recorded
//
// Each process has a [Recorder]. It writes a line for each acquire, release, loss and fenced
// commit, with the times of the call and of the answer by the monotonic clock of the machine
// ([Now]), which all processes share. [Recorder.Locker] records a locking.Locker. [Recorder.Grants]
// records the state of its sessions, and which call to the grants granted a waiting lock. [New]
// merges the lines of all processes, including killed ones.
//
// The database shows which transactions committed. The fenced transactions of the test insert rows
// into a ledger ([Written]), with the time after the fence check and the time of the commit, both
// by the clock of the database.
//
// # What is checked
//
// [History.Check] checks three rules.
//
//   - There is one order of all steps, in which each step lies between its call and its answer, and
//     which a single-threaded lock table could produce. (github.com/anishathalye/porcupine searches
//     it.) In this order, a lock is granted only while no conflicting lock is held, and while fewer
//     than its slots are used. Its token is larger than those of all conflicting locks before it.
//     It commits and is released only while it is held.
//   - By the ledger alone: between the first fence check of a lock and its last commit, no
//     conflicting lock writes, and no more locks than slots write. A later writer has the larger
//     token.
//   - The ledger matches the answers: it contains every confirmed commit, no refused commit, and no
//     other rows.
//
// A claim without a release exists until its session ends. So the lock of a killed or paused
// process counts as held for the session's TTL after the last known renewal. A grant before that is
// a violation too.
//
// # What is not checked
//
// The check does not cover the knowledge of a process. A paused process believes that it holds its
// lock until it checks. Only its commits must be refused. So the check proves fenced commits and
// grants, but not the behavior of a handler between a loss and its detection.
//
// The check also does not cover wrong refusals, fairness, and locks that are lost without need. A
// Locker that refuses everything has a correct history. The conformance suite in
// internal/test/lockingtest tests these.
//
// The order by the ledger requires that the clock of the database is not set back during the test.
// The order by processes requires only that the machine does not restart.
//
// # Unknown outcomes
//
// The answer to a call may be lost with its connection or its process. Porcupine would leave such a
// step open until the end of the history, and each such step doubles its search. Three rules give
// the same result without open steps:
//
//   - An acquire without an answer is ignored. Its lock was not used, and an unused claim explains
//     nothing.
//   - A commit without an answer happened if the ledger contains it.
//   - A lock without a certain release is freed at the earliest time at which its session may have
//     ended or its release was called, but after its commits. If any order explains the history, so
//     does the same order with this step at that time: an earlier end blocks no other lock.
//
// Porcupine needs long to reject a history without a valid order. So the times at which locks were
// held for certain are compared first. They show nearly all violations.
//
// A test compares all of this with porcupine alone on small histories.
//
// # Environment
//
// HOLDFAST_LOCKHISTORY_SECONDS is the time in seconds for which processes work after the faults of
// TestProcesses. The default is 20.
package lockhistory
