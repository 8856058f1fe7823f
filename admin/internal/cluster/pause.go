package cluster

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// PlainPause returns a pause with its times in UTC.
func PlainPause(p storage.Pause) storage.Pause {
	p.At, p.ResumedAt = p.At.UTC(), records.InUTC(p.ResumedAt)
	return p
}

// ActivePauses returns the pauses that have not been resumed, never nil.
func (r *Reader) ActivePauses(ctx context.Context) ([]storage.Pause, error) {
	pauses := []storage.Pause{}
	if r.ops == nil {
		return pauses, nil
	}
	active, err := r.ops.ActivePauses(ctx)
	if err != nil {
		return nil, fmt.Errorf("pauses: %w", err)
	}
	for _, p := range active {
		pauses = append(pauses, PlainPause(p))
	}
	return pauses, nil
}
