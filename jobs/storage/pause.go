package storage

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Pause prevents scheduled firings and backfills of its target from starting runs. It does not
// prevent further attempts.
type Pause struct {
	ID        uuid.UUID  `json:"id"`
	Target    Target     `json:"target"`
	At        time.Time  `json:"paused_at"`
	By        string     `json:"paused_by"`
	Reason    string     `json:"reason,omitempty"`
	ResumedAt *time.Time `json:"resumed_at,omitempty"` // nil while the pause is active
	ResumedBy string     `json:"resumed_by,omitempty"`
}

// Covers reports whether the pause applies to a job of that group.
func (p Pause) Covers(job, group string) bool {
	switch p.Target.Kind {
	case TargetAll:
		return true
	case TargetGroup:
		return group != "" && p.Target.Name == group
	default:
		return p.Target.Name == job
	}
}

// Target is what a pause applies to.
type Target struct {
	Kind TargetKind `json:"kind"`
	Name string     `json:"name,omitempty"` // of the job or the group
}

// String names the target: "job rollup", "group night", "everything".
func (t Target) String() string {
	if t.Kind == TargetAll {
		return "everything"
	}
	return string(t.Kind) + " " + t.Name
}

// TargetKind is a kind of Target.
type TargetKind string

// The kinds of targets.
const (
	TargetJob   TargetKind = "job"
	TargetGroup TargetKind = "group"
	TargetAll   TargetKind = "all"
)

// PausedError names the pause that covers a job.
type PausedError struct {
	Pause Pause
}

// Error names the target of the pause, its time and its actor.
func (e *PausedError) Error() string {
	return fmt.Sprintf("%s is paused since %s by %s", e.Pause.Target,
		e.Pause.At.Format(time.RFC3339), e.Pause.By)
}

// Unwrap returns ErrPaused.
func (e *PausedError) Unwrap() error { return ErrPaused }
