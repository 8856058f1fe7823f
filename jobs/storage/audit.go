package storage

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Audited is one line of the audit log.
type Audited struct {
	ID      uuid.UUID `json:"id"`
	At      time.Time `json:"at"`
	Actor   string    `json:"actor"`
	Via     string    `json:"via"`
	Replica string    `json:"replica,omitempty"`
	// "pause", "resume", "trigger", "cancel", "release", "drain", "undrain", "put_job",
	// "remove_job", "deliver_again"
	Action string `json:"action"`
	// "job rollup", "run …", "table public/orders", "replica a"
	Target string          `json:"target"`
	Reason string          `json:"reason,omitempty"`
	Detail json.RawMessage `json:"detail,omitempty"` // further facts, by action
}

// AuditFilter narrows the audit log. Zero fields do not filter.
type AuditFilter struct {
	Actor  string
	Action string
	Target string
	Before *RunCursor // the page after this line, given by its At and ID
	Limit  int        // 1 to MaxBatch; 0 means 100
}
