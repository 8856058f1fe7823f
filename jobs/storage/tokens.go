package storage

import (
	"context"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Tokens are the fencing tokens of a store.
type Tokens interface {
	// RaiseTokens makes all later tokens larger than those that were drawn before the database was
	// restored from a dump or a snapshot.
	RaiseTokens(ctx context.Context) (RaisedTokens, error)
}

// RaisedTokens is the detail of AuditRaiseTokens.
type RaisedTokens struct {
	From jobs.Token `json:"from"` // the largest token that the database knew
	To   jobs.Token `json:"to"`   // the next token is the first one after it
}
