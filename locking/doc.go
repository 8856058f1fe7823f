// Package locking locks resources for replicas that share them: tables, "/"-separated paths,
// semaphores. It is useful without the scheduler.
//
// A [Locker] uses two kinds of locks, or one of them. Advisory locks are in a small key-value store
// (Backend): memcached, or the memory of one process. They are fast and cheap to poll, and the
// store may lose them. Grants are in a database or in memory. They decide which locks are held, in
// every mode, and give each lock a token that is larger than those of earlier conflicting locks.
//
//	a Locker with         modes                        excludes other holders
//	advisory locks only   exclusive, exact names       while the key-value store keeps them
//	both                  all modes, with hierarchy    always; most polls spare the database
//	grants only           all modes, with hierarchy    always
//
// Options.Restore is for a program whose own database decides which owner may commit, such as the
// scheduler. If an advisory lock disappears, the Locker then adds it again, and its lock continues.
//
// # What a lock covers
//
// With grants, a lock on a resource covers the path and everything beneath it: a lock on a/b
// excludes one on a and one on a/b/c, but not one on a/d. An advisory lock covers only the
// exact path. A shared lock excludes only exclusive ones, and an exclusive lock excludes all. A
// resource with n slots can be locked n times. A lock on several resources is all or nothing.
// Conflict compares two requests by these rules.
//
// # Advisory locks
//
// The names of a lock are sorted and deduplicated. Each name has a key of its own. One request to
// each server adds the keys that are free. If another lock holds one of the keys, the added ones
// are removed. A caller holds nothing while it waits, so there is no deadlock. If two callers want
// the same names at the same time, each can add one of the keys, and then neither gets the lock.
// Acquire repeats all these steps by a policy, whose delay should have jitter. Only exclusive
// requests have an advisory lock, under the exact name. With grants or Options.Restore, a job's own
// name has none.
//
// The value of an advisory lock is JSON with its holder, and with a nonce that is drawn for each
// add and never reused. A value is renewed or removed only if the key still has exactly this value.
// So an old owner cannot change the lock of its successor. If a key has a value that this package
// did not write, an unknown holder has the lock, and the value is never removed.
//
// If the reply to an add is lost, the process does not know whether the add has taken effect or
// will do so later. So the value is read back, and the nonces are compared. A value with a nonce of
// this process that belongs to no lock is a stray, and is removed. Run looks for strays too.
//
// With grants, an advisory lock contains the session of its owner. If advisory locks of other
// sessions are in the way, Run asks the grants whether these sessions are alive (Sessions), in
// one query for all, at most every two seconds. The advisory lock of a dead session is removed
// like a stray, so no waiter waits for the end of its lease. The advisory locks of a live
// session are not removed, even if the grants have not decided on their lock yet.
//
// With grants, if a server does not answer, the Locker does not ask it again for two seconds. It
// continues to ask the other servers.
//
// Without grants, an advisory lock is trusted for its lease less two seconds, because memcached
// may drop an item up to two seconds early. The time counts from before the request was sent, so
// a slow reply does not extend it. Run renews an advisory lock each time a third of the lease
// has passed. If an advisory lock cannot be renewed in time, has disappeared, or has the value
// of another owner, its lock is lost: the context of the lock ends with a *LostError. With
// grants the advisory lock is added again, and the lock continues.
//
// # Grants
//
// After the advisory locks the grants decide, in one call for all requests of the process at that
// time. If they refuse a lock, its advisory locks are removed. Then each try of Acquire first
// looks for the advisory lock of the blocker, which contains the blocker's id. While it exists,
// the try does not ask the grants. If the blocker has no advisory lock (it is shared, has a slot,
// or only waits), each try asks the grants once. If the key-value store does not answer, the
// grants decide alone.
//
// Waiters are served in order. Acquire gets a position among the waiters when the grants first
// refuse it. If an Acquire has no position yet and an advisory lock has blocked it for a second,
// the Acquire asks the grants too. While its position is reserved (Reserve), younger conflicting
// requests wait behind it, for example readers behind a writer, and a/b behind a. When Acquire has
// a position, its tries add the advisory locks only after the grant. When it gives up, it withdraws
// its position.
//
// All locks of a Locker belong to one session, which Run opens, and renews each time a third of
// its TTL has passed. A session is trusted until one TTL after the last confirmed request was
// sent, by the monotonic clock of the machine. If it is lost, all its locks end, and Run opens
// another session. Any other replica frees the locks of an expired session, with their advisory
// locks, within a third of a TTL after the session expired by the clock of the store. With
// Session.Succeeds, a new process frees the locks of the previous process of its name at once.
//
// A lost reply leaves nothing behind. A lock keeps its id when it is requested again. If the
// caller gives up, the request is withdrawn. If a heartbeat returns a claim or a position that
// this process does not know, it is given back.
//
// # Guarantee
//
// Without grants, a lock is only advisory. The key-value store can lose it by a restart or an
// eviction, or earlier than expected if a machine was suspended and its clock stood still. Then a
// second holder gets the lock, and both have it until the first one detects the loss at its next
// renewal.
//
// Grants never give conflicting claims at the same time. But a holder can be paused, and continue
// after its session has expired and another holder has the lock. Then work is safe only if the
// place where it takes effect checks Lock.Token. Such a place is a transaction of the same database
// that first locks the claim, or a system that refuses tokens smaller than the largest that it has
// seen.
//
// ErrHeld means that another lock holds the resource or, with grants, has waited for it longer.
// ErrUnavailable and ErrUnclear do not say whether another lock holds it.
//
// # Values computed once
//
// Memo computes a value once in the cluster, under a lock, and stores it in the same key-value
// store for a given time. A process that has noticed the loss of its lock stores nothing, because
// its value may be old. If it has not noticed the loss, two processes can store the value. They
// store with Add, so the first stored value counts, and the other process returns it too.
//
// # Files
//
//	resource.go, table.go     resources and conflicts
//	locker.go, advisory.go    TryAcquire, and values of advisory locks
//	renew.go, renewals.go     renewal
//	stray.go, remove.go, clear.go  removal
//	owners.go, servers.go     advisory locks of dead sessions; servers that do not answer
//	attempt.go, acquire.go    a lock with grants; waiting
//	session_locks.go, session.go  locks and requests of a session; its heartbeat and sweep
//	lock.go, release.go       a lock, and its end
//	gate.go                   Gate, which chooses one of many callers
//	memo.go                   Memo, which computes a value once
//
// Gate needs advisory locks, and Memo a Locker with advisory locks only.
package locking
