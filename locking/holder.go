package locking

import "time"

// Owner names the job, run and replica that want a lock. All fields are free text.
type Owner struct {
	Replica string `json:"replica"`
	Job     string `json:"job"`
	Run     string `json:"run_id"`
}

// Holder is the holder of a lock, as its advisory lock names it. The Owner is zero if this package
// did not write the value or cannot read it.
type Holder struct {
	Owner
	Since time.Time `json:"since,omitzero"` // by the holder's clock; for display only
}

// Known reports whether the holder could be read.
func (h Holder) Known() bool { return h.Owner != Owner{} }

// String returns "job sales (run 0190…) on replica-1", "a program on replica-1", or "an unknown
// holder".
func (h Holder) String() string {
	if !h.Known() {
		return "an unknown holder"
	}
	text := "job " + h.Job
	if h.Job == "" {
		text = "a program"
	}
	if h.Run != "" {
		text += " (run " + h.Run + ")"
	}
	if h.Replica != "" {
		text += " on " + h.Replica
	}
	return text
}
