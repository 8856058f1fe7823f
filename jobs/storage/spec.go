package storage

import (
	"encoding/json"
	"time"
)

// Spec is a job that was added at run time.
type Spec struct {
	Job string `json:"job"`
	// Text is the job in JSON, in the form of the configuration. It includes the defaults of the
	// replica that accepted it.
	Text json.RawMessage `json:"spec"`
	// Version grows with each change. In a request it is the version that the caller has seen, or 0
	// for a new job.
	Version   int64     `json:"version"`
	ChangedAt time.Time `json:"changed_at"`
	ChangedBy string    `json:"changed_by"`
	Removed   bool      `json:"removed,omitempty"` // it is not fired any more
}

// SpecCheck decides whether an added job may be added, changed or removed. It gets all added jobs
// as they are before the action. It must return quickly and must not call the store, which is
// locked for other changes meanwhile.
type SpecCheck func(added []Spec) error
