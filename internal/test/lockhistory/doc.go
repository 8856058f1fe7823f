// Package lockhistory records what several processes do with locks, and checks
// afterwards whether the guarantee held.
//
// # What is recorded
//
// Each process has a [Recorder], which writes a line for every acquire, release,
// loss and fenced commit, with the time of the call and of the answer by the
// machine's monotonic clock ([Now]), which all processes share. [Recorder.Locker]
// records a locking.Locker. [Recorder.Grants] records what its sessions last
// knew of themselves, and which call to the grants gave a lock that was waited
// for. [New] puts the lines of all processes together, also of those that were
// killed.
//
// What commits is told by the database: the test's fenced transactions leave
// rows in a ledger ([Written]), with the time behind the fence check and the
// time of the commit, both by the database's clock.
//
// # What is checked
//
// [History.Check] asks three things.
//
//   - Is there one order of all that happened, in which each step lies between
//     its call and its answer, and which a lock table kept by one thread could
//     have gone through? (github.com/anishathalye/porcupine decides that.) In
//     it, a lock is granted only while no lock stands that conflicts with it by
//     name, ancestor, descendant and mode, and while fewer than its slots are
//     taken; its token is larger than those of all conflicting locks before it;
//     and it commits, and is released, only while it stands.
//   - By the ledger alone: from a lock's first fence check to its last commit
//     nobody who conflicts with it writes, no more than its slots do, and
//     whoever writes later has the larger token.
//   - Does the ledger hold what the processes were told? What was confirmed is
//     there, what the fence refused is not, and nothing else is there.
//
// A claim that was not released stands until its session ends. So the lock of a
// killed or paused process counts as held for the session's TTL after the last
// renewal that it knows of, and a grant before that is a violation too.
//
// # What isn't checked
//
// What a process believes: one that was paused takes itself for the holder until
// it looks, and only its commits must be refused. So what is proved is about
// fenced commits, and about what is granted, not about what a handler does
// between a loss and its notice of it.
//
// Nor whether refusals are right, waiting is fair, or a lock is lost without
// need: a Locker that refuses everything has a correct history. The
// conformance suite of internal/test/lockingtest looks at that.
//
// The order by the ledger rests on the database's clock not being set back
// while the test runs, the order by processes on nothing but one boot.
//
// # Outcomes that nobody knows
//
// The answer to a call may be lost, by a broken connection or with its process.
// Porcupine would leave such a step open until the end of time, where it
// could be placed anywhere or, as good as never, last; with every such step its
// search doubles. Three rules say the same without:
//
//   - An acquire without an answer is left out. Whether it was granted or not,
//     nothing was done with it, and a claim that nobody uses explains nothing.
//   - A commit without an answer is there if the ledger has it.
//   - A lock that never was released for sure is freed at the earliest time at
//     which its session may have ended, or at which its release was called, and
//     after its commits were. If any order explains the history, so does the one
//     with this step moved forward to there: what is freed earlier stands in
//     nobody's way, and nothing else asks for it.
//
// Porcupine is also long in giving up a history that no order explains. So
// the times in which locks stood for sure are compared first, where nearly all
// violations show.
//
// A test compares all of this with porcupine alone on small histories.
//
// # Environment
//
// HOLDFAST_LOCKHISTORY_SECONDS is for how long processes work after the faults
// that befall them in TestProcesses, in seconds; without it 5.
package lockhistory
