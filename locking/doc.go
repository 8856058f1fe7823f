// Package locking locks resources for replicas that share them: tables, "/"-separated paths,
// and resources with slots. It can be used without the scheduler.
//
// # Two kinds of locks
//
// A Locker uses one of two kinds of locks, or both:
//
//   - An advisory lock is a key in a key-value store (Backend): memcached, or the memory of one
//     process. It is fast and cheap to poll. The store may lose it.
//   - Grants are in a database, or in memory. They decide which locks are held. Each granted lock
//     has a claim with a fencing token. Of two conflicting locks, the later one has the larger
//     token.
//
// What a Locker guarantees depends on the kinds:
//
//	a Locker with         modes                        excludes other holders
//	advisory locks only   exclusive, exact names       while the key-value store keeps them
//	both                  all modes, with hierarchy    always; most polls spare the database
//	grants only           all modes, with hierarchy    always
//
// The scheduler uses advisory locks with Options.Restore. Its own store decides which run may
// commit.
//
// # What a lock covers
//
//   - With grants, a lock covers its path and all paths beneath it. A lock on a/b excludes locks on
//     a and on a/b/c, but not on a/d.
//   - An advisory lock covers only the exact path.
//   - A shared lock excludes only exclusive locks. An exclusive lock excludes all others.
//   - A resource with n slots can be locked n times.
//   - A lock on several resources is all or nothing.
//
// # Advisory locks
//
// Only exclusive requests have an advisory lock. With grants or Options.Restore, a job's own name
// has none.
//
// Each name has a key. The Locker sends one request to each server, which adds the free keys. If
// another lock holds one of the keys, the Locker removes the keys that it added. So a caller holds
// nothing while it waits, and no deadlock is possible. But two callers that want the same names can
// refuse each other, so the delay of Acquire's policy should have jitter.
//
// The value of an advisory lock is JSON with its holder and a nonce, an id that is never reused.
// The Locker changes a key only while it has exactly this value. So an old owner cannot change the
// lock of its successor. A value that this package did not write counts as an unknown holder, and
// stays.
//
// After a lost reply, the Locker compares the nonce in the key with its own. A value with a nonce
// of this process that belongs to no lock is a stray. The Locker removes strays.
//
// # Trust without grants
//
// Without Options.Restore, a Locker trusts an advisory lock for its lease less two seconds, because
// memcached may drop an item up to two seconds early. The time begins just before the Locker sends
// the request. Run renews an advisory lock after each third of the lease. The lock is lost in these
// cases:
//
//   - No renewal succeeds in time.
//   - The advisory lock has disappeared.
//   - The key has the value of another owner.
//
// Then the context of the lock ends with a *LostError. With grants or Options.Restore the lock
// continues, and the Locker adds the advisory lock again.
//
// # Grants
//
// Acquire adds the advisory locks first. Then the grants decide. If they refuse the lock, the
// Locker removes its advisory locks. Later tries depend on the blocker:
//
//   - While the blocker has an advisory lock, a try reads only this lock.
//   - Otherwise a try asks the grants. Shared locks, slots and waiters have no advisory lock.
//
// With Options.Grants or Options.Restore, each server has a breaker. The breaker opens for two
// seconds if the server does not reply to one of these calls: Acquire with grants, TryAcquire,
// TryAcquireIn, TryAcquireEachIn, Gate, Gates, Passed and Marked. While it is open, these calls and
// Mark do not ask the server. With grants, the grants then decide alone on a lock. All other calls
// ask the server: Inspect, Clear, ClearReleased, and the renewals and releases of locks.
//
// The grants serve waiters in order. Acquire gets a position among the waiters when the grants
// first refuse it. If only advisory locks have blocked it for a second, it asks the grants too.
// While its position is reserved, younger conflicting requests wait behind it. The function Reserve
// has the rule.
//
// # Sessions
//
// All locks of a Locker with grants belong to one session. Run opens the session, and renews it
// after each third of its TTL. The Locker trusts the session for one TTL. This time begins just
// before the Locker sends the last request that was confirmed. The Locker measures it with the
// monotonic clock. If the session is lost, all its locks end, and Run opens another one.
//
// Each replica frees the locks of expired sessions. This takes at most a third of a TTL after the
// expiry by the clock of the store. A process that dies before the grant leaves an advisory lock
// without a claim. So the Locker notes the sessions of the advisory locks that block its callers.
// At most every two seconds, Run asks the grants which of these sessions are alive. The Locker
// removes the advisory locks of dead sessions.
//
// A lost reply leaves nothing behind. If a heartbeat returns a claim or position that this process
// does not know, the Locker gives it back.
//
// # Guarantee
//
// Without grants, a lock is only advisory. The key-value store can lose it by a restart or an
// eviction. The lock can also expire while the machine of its holder is suspended: the clock of
// that machine does not count this time. Then a second holder gets the lock. Both have it until the
// first one notices the loss at its next renewal.
//
// Grants never give conflicting claims at the same time. But a holder can freeze, and continue
// after another holder has got the lock. So the place where the work takes effect must check
// Lock.Token:
//
//   - A transaction of the same database first locks the claim.
//   - Another system refuses tokens smaller than the largest that it has seen.
package locking
