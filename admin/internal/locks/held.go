package locks

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
	"github.com/holdfast-dev/holdfast/locking"
)

// expectedHolds returns the locks that are held now, with the times at which they are expected to
// end.
func expectedHolds(ctx context.Context, r *Reader, now time.Time) ([]expectedHold, error) {
	set, err := r.Grants(ctx)
	if err != nil {
		return nil, err
	}
	if err := AddUsual(ctx, r, now, set.Locks); err != nil {
		return nil, err
	}
	holds := make([]expectedHold, 0, len(set.Locks))
	for _, lock := range set.Locks {
		holds = append(holds, expectedHold{lock.Holder.Job,
			locking.Request{Resource: lock.resource, Mode: lock.Mode, Slots: lock.Slots},
			expectedEnd(now, lock.Since, lock.typical)})
	}
	return holds, nil
}

// expectedEnd returns when a run ends that has run since a time: after the median duration of its
// job, or, if it has run for longer already, after the 95th percentile. If it has run for longer
// than that, it is expected to run for as long again.
func expectedEnd(now, since time.Time, usual storage.Typical) time.Time {
	for _, length := range []time.Duration{usual.Median, usual.Long} {
		if end := since.Add(length); usual.Runs > 0 && end.After(now) {
			return end
		}
	}
	return now.Add(now.Sub(since))
}
