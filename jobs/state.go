package jobs

import "github.com/holdfast-dev/holdfast/jobs/reasons"

// State is the state of a run.
type State string

// The states of a run. Waiting and Running are active; the others are final.
const (
	Waiting   State = "waiting"
	Running   State = "running"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	TimedOut  State = "timed_out"
	Cancelled State = "cancelled"
	Lost      State = "lost"
	Skipped   State = "skipped"
	Missed    State = "missed"
)

// States lists all states: first the active ones, then the final ones.
func States() []State {
	return []State{Waiting, Running, Succeeded, Failed, TimedOut, Cancelled, Lost, Skipped, Missed}
}

// Final reports whether a run in this state has ended.
func (s State) Final() bool { return s != Waiting && s != Running }

// Reason says, in one word, why a run did not run, waits, or was ended. Package reasons has all of
// them.
type Reason = reasons.Reason
