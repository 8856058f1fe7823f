package admin

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

func plainPause(p storage.Pause) storage.Pause {
	p.At, p.ResumedAt = p.At.UTC(), records.InUTC(p.ResumedAt)
	return p
}

// activePauses returns the pauses that have not been resumed, never nil.
func (r *clusterReader) activePauses(ctx context.Context) ([]storage.Pause, error) {
	pauses := []storage.Pause{}
	if r.ops == nil {
		return pauses, nil
	}
	standing, err := r.ops.ActivePauses(ctx)
	if err != nil {
		return nil, fmt.Errorf("pauses: %w", err)
	}
	for _, p := range standing {
		pauses = append(pauses, plainPause(p))
	}
	return pauses, nil
}
