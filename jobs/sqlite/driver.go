package sqlite

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Driver opens the store in a file. It is for holdfast.WithSQLite and holdfast.WithDriver. A
// program links SQLite only if it uses it.
func Driver(ctx context.Context, path string, exclusive bool, log zerolog.Logger) (storage.Embedded,
	error) {
	store, err := Open(ctx, path, Options{Exclusive: exclusive, Log: log})
	if err != nil {
		return nil, err
	}
	return store, nil
}
