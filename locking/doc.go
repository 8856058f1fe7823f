// Package locking locks resources for replicas that share them: tables,
// "/"-separated paths, semaphores. It is useful without the scheduler.
//
// There are two stages. Stage 1 is entries in a small key-value store
// (Backend): memcached, or memory within one process. It is fast, cheap to poll,
// and forgets. Stage 2 is Grants, in a database or in memory: it has the last
// word, in every mode, and gives each lock a token that grows. A Locker works on
// either alone or on both.
//
//	stages                modes                        excludes
//	entries alone         exclusive, exact names       while the store remembers
//	entries with grants   all modes, with hierarchy    always; polling stays off the database
//	grants alone          all modes, with hierarchy    always
//
// Options.Restore is for a program that has a second stage of its own, as the
// scheduler does.
//
// # What a lock covers
//
// A lock on a resource covers the path and everything beneath it: a lock on
// a/b excludes one on a and one on a/b/c, and leaves a/d free. Shared locks go
// with shared ones, exclusive ones with none; a resource with n slots is locked
// by n at a time. A lock on several resources is all or nothing (Conflict,
// Normalize).
//
// # Stage 1
//
// The names of a lock are sorted and deduplicated, each is added under a key of
// its own if the key is free, and when one is held, what was added before is
// removed again in reverse. Nothing waits while it holds something, so nothing
// deadlocks; waiting is a policy around the whole (Acquire). Only what is locked
// exclusively has an entry, under its exact name: a name without relatives costs
// one add.
//
// An entry's value is JSON that says who holds it, with a nonce that was drawn
// for this one attempt and is never used again. Only an entry that holds
// exactly the value that was stored is renewed or removed: a stale owner cannot
// touch its successor's lock. Values that this package did not write are held
// by unknown, and are never removed.
//
// A request whose reply was lost may have taken effect, may not have, or may
// still do so later. So an unclear add is read back and the nonce compared; an
// entry that turns up with a nonce of ours that belongs to nothing any more is
// a stray, and is removed instead of being reported as somebody else's. Run
// looks for them too.
//
// Where there is a second stage, an entry names the session of its owner. A
// replica that meets the entry of another session asks the second stage whether
// that session is alive (Sessions): in Run, for all sessions that were met in one
// question, every two seconds at most. The entry of a dead session protects
// nothing. It is removed like a stray, so that nobody waits for the end of its
// lease, and the second stage still decides. A living session keeps its entries,
// also between the add and the grant.
//
// A server that did not answer is not asked for two seconds where a second stage
// decides; other servers are.
//
// Alone, an entry is trusted for its lease less a margin of two seconds, because
// memcached may drop an item up to two seconds early, counted from before the
// request was sent, so that a slow reply can't stretch it. Run renews at a third
// of the lease. What cannot be renewed within the trust, has vanished, or holds
// another's value, is lost: the lock's context ends with a *LostError. With
// grants an entry decides nothing: one that vanished is added again.
//
// # Stage 2
//
// Once the entries are there, the grants decide, in one call for all that a
// process asks at that moment. What they refuse has its entries removed again,
// and polls the entry of the lock that is in the way, which says its id, until
// that is gone; so polling stays off the database. Where the blocker has no
// entry (it is shared, has a slot, or only waits) each try asks the grants once.
// When stage 1 can't be asked they decide alone, and it is left in peace for two
// seconds.
//
// Who waits takes turns. A lock that Acquire waits for has a place among the
// waiting from the first refusal by the grants on, or after a second behind an
// entry, and younger requests that conflict yield to it: readers to a writer,
// and names beneath to the name above. From then on it asks the grants first,
// and adds its entries after, so that nobody's entry keeps it from its turn.
// When it gives up its place is withdrawn.
//
// All locks of a Locker live and die with one session, which Run opens, and
// renews at a third of its TTL. It is trusted from before the last confirmed
// request was sent until its TTL later, by this machine's monotonic clock. When
// it is lost, all locks end at that moment, and Run opens another. What a session
// leaves behind is taken back by any other replica, entries too, within a third
// of a TTL after it expired, by the store's clock; what a former life of a
// replica left at once, if Session.Succeeds says that its name is its own.
//
// A reply that was lost leaves nothing behind. A lock keeps its id while it is
// asked for again; what was given up is withdrawn; and a heartbeat that finds a
// claim or a place that nobody here knows of gives it back.
//
// # Guarantee
//
// Entries alone are advisory. A store that forgets (a restart, an eviction, a
// clock that was paused) lets a second holder in until the first one notices at
// its next renewal.
//
// Grants never give conflicting claims at the same time. But a holder can be
// paused, and go on when its session has expired and another has its lock: only
// what checks Lock.Token where it takes effect is safe from that, in a
// transaction of the grants' database that begins by locking the claim, or
// elsewhere by refusing tokens smaller than the largest that was seen.
//
// Held, unavailable and unclear are three answers: ErrHeld, ErrUnavailable and
// ErrUnclear. Only the first says that somebody has the resource.
//
// # Computing once
//
// Memo has a value computed once in the cluster, under a lock, and stores it
// beside the locks for as long as it is good. It stores by Add: of two that
// computed because the store had forgotten the lock, the first that stores wins,
// and the other returns that value too. Who has lost the lock stores nothing:
// its value may be older than one that has come and gone since.
//
// # Files
//
//	resource.go, table.go     what is locked, and what conflicts
//	locker.go, entry.go       TryAcquire, and entries
//	renew.go, renewals.go     their renewal; stray.go, remove.go, clear.go: their removal
//	owners.go, silence.go     entries of dead sessions; servers that do not answer
//	attempt.go, acquire.go    a lock with grants on its way; waiting
//	standing.go, session.go   what is held and asked for in a session; its heartbeat and sweep
//	lock.go, release.go       a lock, and its end
//	gate.go, memo.go          one of many, and its value for all
//
// Gate needs stage 1, and Memo a Locker that stands alone on it.
package locking
