package rules

import (
	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Start is what a store knows of a start request before it looks for conflicts.
type Start struct {
	Session uuid.UUID
	Replica string
	Known   *Run // the run of the request, or nil
	Claimed bool // the run has a claim
	Live    bool // the session is live
	Drains  bool // the session drains
	Pause   *storage.Pause
	Stale   bool // another version of the job is active
	Taken   bool // another run has the firing
}

// Outcome returns the outcome of the start. It returns false if the outcome depends on conflicts.
// If it is storage.StartPaused and the run exists, the store applies Run.HoldBack.
func (s Start) Outcome(r storage.StartRequest) (storage.StartOutcome, bool) {
	mine := s.Known != nil && s.Known.Of(s.Session, s.Replica)
	pausable := r.Firing.Key == "" || s.Known != nil && s.Known.ObeysPauses()
	held := r.Attempt <= 1 && (s.Drains || pausable && s.Pause != nil)
	switch {
	case mine && s.Claimed: // a resent request, whose reply was lost
		return storage.StartGranted, true
	case !s.Live:
		return storage.StartNotLive, true
	case mine && s.Known.State == jobs.Waiting && held:
		return storage.StartPaused, true
	case mine && s.Known.State == jobs.Waiting:
		return 0, false
	case s.Known != nil:
		return storage.StartDuplicate, true
	case s.Stale:
		return storage.StartStale, true
	case s.Taken:
		return storage.StartDuplicate, true
	case held:
		return storage.StartPaused, true
	}
	return 0, false
}

// Noted reports whether a note is in effect, and whether the store has to apply it with Run.Note to
// the known run, or to a new one. A final note that an earlier call has written is in effect, and
// is not applied again.
func (s Start) Noted(n storage.Note) (stands, apply bool) {
	if s.Known == nil {
		free := !s.Taken && !s.Stale
		return free, free
	}
	mine := s.Known.Of(s.Session, s.Replica)
	if mine && s.Known.State == jobs.Waiting {
		return true, true
	}
	return mine && s.Known.State == n.State, false // a resent note, or one for another's run
}
