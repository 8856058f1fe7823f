package storage

import (
	"context"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Tokens raises the fencing tokens of a store.
type Tokens interface {
	// RaiseTokens is for databases that were restored from a dump or a snapshot. It makes all later
	// tokens larger than all tokens drawn before the restore.
	RaiseTokens(ctx context.Context) (RaisedTokens, error)
}

// RaisedTokens is the detail of AuditRaiseTokens.
type RaisedTokens struct {
	From jobs.Token `json:"from"` // the largest token that the database knew
	To   jobs.Token `json:"to"`   // all later tokens are larger
}
