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

// Adopted returns the ids of the free runs that a session adopts, in their order. Each free run
// belongs to a job in a.Jobs.
func Adopted(free []storage.Record, a storage.Adoption, now time.Time) []uuid.UUID {
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
		if r.Attempt <= 1 && (overdue || r.Backfill != uuid.Nil) {
			late = append(late, r.ID)
		} else {
			prompt = append(prompt, r.ID)
		}
	}
	first := append(late[:min(len(late), max(a.Late, 0))], prompt...)
	return first[:min(len(first), max(a.Limit, 0))]
}
