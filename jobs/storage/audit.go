package storage

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Audited is one entry of the audit log.
type Audited struct {
	ID    uuid.UUID `json:"id"`
	At    time.Time `json:"at"`
	Actor string    `json:"actor"`
	Via   string    `json:"via"`
	// how the actor was identified: "password", "token", "proxy", "oidc", "program" or "none"
	Proof string `json:"proof,omitempty"`
	// the address of the client of the page or the API
	Client string `json:"client,omitempty"`
	// the id of the request to the page or the API, which is also in the header X-Request-Id of the
	// answer
	RequestID string `json:"request_id,omitempty"`
	Replica   string `json:"replica,omitempty"`
	// "pause", "resume", "trigger", "cancel", "release", "drain", "undrain", "remove_replica",
	// "put_job", "remove_job", "deliver_again", "backfill", "cancel_backfill", or an event, such as
	// AuditSignIn
	Action string `json:"action"`
	// "job rollup", "run …", "table public/orders", "replica a", "page"
	Target string          `json:"target"`
	Reason string          `json:"reason,omitempty"`
	Detail json.RawMessage `json:"detail,omitempty"` // further facts, by action
	// the detail in base64 if it is not JSON; no replica writes such a detail
	InvalidDetail []byte `json:"invalid_detail,omitempty"`
}

// SetDetail sets Detail, or InvalidDetail if the text is not JSON.
func (l *Audited) SetDetail(text []byte) {
	l.Detail, l.InvalidDetail = text, nil
	if len(text) > 0 && !json.Valid(text) {
		l.Detail, l.InvalidDetail = nil, text
	}
}

// AuditFilter narrows the audit log.
type AuditFilter struct {
	Actor  string
	Action string
	Target string
	Since  time.Time // entries of this time and later
	Until  time.Time // entries before this time
	// Before selects the entries that are older than an entry, and After those that are newer.
	// CreatedAt is the At of that entry, and ID is its ID. For the next page set Before, or After
	// with OldestFirst.
	Before, After *RunCursor
	OldestFirst   bool
	Limit         int
}

// Events in the audit log. They are not actions of operators.
const (
	AuditSignIn        = "sign_in"
	AuditSignInRefused = "sign_in_refused" // a wrong password, token or answer of a provider
	AuditSignOut       = "sign_out"
	AuditRefused       = "refused" // a permission was missing
	AuditReload        = "reload"
	AuditReloadRefused = "reload_refused" // a mistake in the configuration
	AuditRaiseTokens   = "raise_tokens"   // after a restore of the database
)

// AuditEvents returns all events.
func AuditEvents() []string {
	return []string{AuditSignIn, AuditSignInRefused, AuditSignOut, AuditRefused, AuditReload,
		AuditReloadRefused, AuditRaiseTokens}
}

// AuditWriter adds events to the audit log.
type AuditWriter interface {
	// WriteAudit adds an entry. It encodes detail as JSON; nil means none. The key of the Action
	// must be empty.
	WriteAudit(ctx context.Context, by Action, event, target string, detail any) error
}
