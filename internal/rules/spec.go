package rules

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// PutSpec returns the spec that storage.Actions.PutSpec stores for an actor. known is the job's
// spec, or nil if it has none. PutSpec returns storage.ErrNotFound or storage.ErrConflict if known
// is not the version that the caller has seen.
func PutSpec(known *storage.Spec, spec storage.Spec, actor string,
	now time.Time) (storage.Spec, error) {
	put := storage.Spec{Job: spec.Job, Text: spec.Text, Version: 1, ChangedAt: now,
		ChangedBy: actor}
	switch {
	case known == nil && spec.Version > 0:
		return put, fmt.Errorf("added job %s: %w", spec.Job, storage.ErrNotFound)
	case known == nil:
		return put, nil
	case known.Removed != (spec.Version == 0),
		!known.Removed && known.Version != spec.Version:
		return put, known.Conflict(spec.Version)
	}
	put.Version = known.Version + 1
	return put, nil
}

// RemoveSpec returns the removed spec that storage.Actions.RemoveSpec stores for an actor. Its
// errors are those of PutSpec.
func RemoveSpec(known *storage.Spec, job string, version int64, actor string,
	now time.Time) (storage.Spec, error) {
	switch {
	case known == nil:
		return storage.Spec{}, fmt.Errorf("added job %s: %w", job, storage.ErrNotFound)
	case known.Removed || known.Version != version:
		return storage.Spec{}, known.Conflict(version)
	}
	removed := *known
	removed.Version, removed.Removed, removed.ChangedAt, removed.ChangedBy = version+1, true, now,
		actor
	return removed, nil
}
