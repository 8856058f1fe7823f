package sqlite

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Driver opens the store in a file. It is for holdfast.WithSQLite and holdfast.WithDriver. A
// program that does not use Driver does not link SQLite.
func Driver(ctx context.Context, path string, exclusive bool, log zerolog.Logger) (storage.Embedded,
	error) {
	store, err := Open(ctx, path, Options{Exclusive: exclusive, Log: log})
	if err != nil {
		return nil, err
	}
	return store, nil
}
