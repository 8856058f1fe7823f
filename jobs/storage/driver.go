package storage

import (
	"context"

	"github.com/rs/zerolog"
)

// Embedded is a store in a file of this machine, with everything that a replica needs of a store.
type Embedded interface {
	Store
	RunStore
	LoginAttempts
	SignOuts
	AuditWriter
	Outbox
	Tokens
}

// Driver opens the store in a file. With exclusive, the process has the file for itself, and the
// driver creates and migrates the file if needed. sqlite.Driver is the only one.
type Driver func(ctx context.Context, path string, exclusive bool, log zerolog.Logger) (Embedded,
	error)
