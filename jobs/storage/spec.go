package storage

import (
	"encoding/json"
	"time"
)

// Spec is a job that was added at run time.
type Spec struct {
	Job string `json:"job"`
	// Text is the job in the form of the configuration, as JSON. It includes the defaults of the
	// replica that accepted it, so that all replicas agree.
	Text json.RawMessage `json:"spec"`
	// Version grows with each change. In a call of PutSpec it is the version that the caller has
	// seen, or 0 for a new job.
	Version   int64     `json:"version"`
	ChangedAt time.Time `json:"changed_at"`
	ChangedBy string    `json:"changed_by"`
	Removed   bool      `json:"removed,omitempty"` // it is not fired any more; running runs go on
}

// SpecCheck decides whether a job may be added, changed or removed. It gets all added jobs as they
// are before the action, including a job that the action changes or removes. It must return quickly
// and must not call the store, which blocks other changes meanwhile.
type SpecCheck func(added []Spec) error
