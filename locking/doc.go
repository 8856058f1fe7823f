// Package locking locks resources by entries in a small key-value store that
// all replicas share: memcached, or memory within one process.
//
// # Protocol
//
// A lock on several resources is taken all or nothing: their names are sorted
// and deduplicated, each is added under a key of its own if the key is free,
// and when one is held, what was added before is removed again in reverse.
// Nothing waits while it holds something, so nothing deadlocks; waiting is a
// policy around the whole (Acquire).
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
// # Trust
//
// A lock is trusted for its lease less a margin of two seconds, because
// memcached may drop an item up to two seconds early, counted from before the
// request was sent, so that a slow reply can't stretch it. Run renews at a third
// of the lease. What cannot be renewed within the trust, has vanished, or holds
// another's value, is lost: the lock's context ends with a *LostError.
//
// # Guarantee
//
// Stage 1 is advisory. A store that forgets (a restart, an eviction, a clock
// that was paused) lets a second holder in until the first one notices at its
// next renewal. Where that must not happen, a second stage decides: with
// Options.Restore this package takes only what adds quickly (exclusive locks on
// exact names), leaves shared locks, slots, hierarchy and jobs' own names to the
// grants in the database, and adds an entry that vanished again instead of
// ending the lock. Without Restore it stands alone, excludes by exact name
// while the store remembers, and refuses modes that it cannot enforce.
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
package locking
