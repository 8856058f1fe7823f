package locking

// EventKind is what happened to a lock between Acquire and Release.
type EventKind string

const (
	// The Locker added a vanished advisory lock again. Only with Options.Restore.
	EventRestored EventKind = "restored"
	// Another lock has the key. The claim still protects the lock. Only with Options.Restore.
	EventTaken EventKind = "taken"
	EventLost  EventKind = "lost" // the lock's context has ended
)

// Event reports what happened to one lock.
type Event struct {
	Kind     EventKind
	Resource Resource // zero if the whole lock was lost at once
	Owner    Owner    // of the lock
	Holder   Holder   // the new holder, if another lock has the key
	Err      error    // the *LostError of EventLost
}
