package storage

import (
	"context"
	"encoding/json"
)

// Memory holds what jobs save from run to run.
type Memory interface {
	// Saved returns the state that the job's runs saved last, or nil. It does not check whether the
	// job exists.
	Saved(ctx context.Context, job string) (json.RawMessage, error)
}
