package locking

// EventKind says what happened to a lock between Acquire and Release.
type EventKind string

// The kinds of event.
const (
	// an entry had vanished and was added again; only with Options.Restore
	EventRestored EventKind = "restored"
	// an entry is another's, and the lock goes on by the second stage; only with Options.Restore
	EventTaken EventKind = "taken"
	EventLost  EventKind = "lost" // the lock's context has ended
)

// Event is one such happening.
type Event struct {
	Kind     EventKind
	Resource Resource // zero where the whole lock was lost at once
	Owner    Owner    // whose lock it is
	Holder   Holder   // of EventTaken, and of EventLost by taking: who has it now
	Err      error    // of EventLost: the *LostError
}
