package rules

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// IsScheduled reports whether a waiting run is the first attempt of a scheduled firing. The late
// ones of a job are adopted in the order of their scheduled times.
func IsScheduled(r storage.Record) bool {
	return r.Key == "" && r.Recovery == 0 && r.Attempt <= 1 && r.Backfill == uuid.Nil
}

// Adopted returns the ids of the free runs that a session adopts, in their order. Each free run
// belongs to a job in a.Jobs. oldest has the scheduled time of the oldest waiting run of each job
// for which IsScheduled is true.
func Adopted(free []storage.Record, oldest map[string]time.Time, a storage.Adoption,
	now time.Time) []uuid.UUID {
	asked := make(map[string]storage.AdoptedJob, len(a.Jobs))
	for _, j := range a.Jobs {
		asked[j.Name] = j
	}
	position := func(r storage.Record) time.Time {
		if r.Backfill != uuid.Nil {
			return storage.QueuePosition(r.WaitSince, storage.BackfillPriority)
		}
		return storage.QueuePosition(r.WaitSince, asked[r.Job].Priority)
	}
	slices.SortFunc(free, func(a, b storage.Record) int {
		return cmp.Or(position(a).Compare(position(b)), a.ScheduledAt.Compare(b.ScheduledAt),
			bytes.Compare(a.ID[:], b.ID[:]))
	})
	var late, prompt []uuid.UUID
	for _, r := range free {
		if r.Reason == reasons.NoWorker && now.Sub(r.WaitSince) < a.MinWait {
			continue
		}
		overdue := r.Key == "" && r.Recovery == 0 &&
			now.Sub(r.ScheduledAt) > asked[r.Job].Threshold
		switch first, waits := oldest[r.Job]; {
		case r.Attempt > 1 || !overdue && r.Backfill == uuid.Nil:
			prompt = append(prompt, r.ID)
		case r.Backfill != uuid.Nil || !waits || !r.ScheduledAt.After(first):
			late = append(late, r.ID)
		}
	}
	first := append(late[:min(len(late), max(a.Late, 0))], prompt...)
	return first[:min(len(first), max(a.Limit, 0))]
}
