package charts

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Loss is the loss of a replica that ran runs.
type Loss struct {
	Replica string    `json:"replica"`
	At      time.Time `json:"at"`   // when a sweep recorded its runs as lost
	Runs    int       `json:"runs"` // how many of the runs on the time line were lost with it
}

// sweepTime is the longest time between the ends of runs that count as lost in one sweep.
const sweepTime = 10 * time.Second

// LossesOf returns the losses of replicas that ended runs of lanes within a window, oldest first. A
// run may be on several lanes.
func LossesOf(lanes [][]storage.RunInterval, from, until time.Time) (losses []Loss) {
	lost := make(map[uuid.UUID]storage.RunInterval)
	for _, runs := range lanes {
		for _, r := range runs {
			if r.State == jobs.Lost && r.Reason == reasons.SessionLost && r.FinishedAt != nil &&
				!r.FinishedAt.Before(from) && r.FinishedAt.Before(until) {
				lost[r.Run] = r
			}
		}
	}
	ends := make([]storage.RunInterval, 0, len(lost))
	for _, r := range lost {
		ends = append(ends, r)
	}
	slices.SortFunc(ends, func(a, b storage.RunInterval) int {
		return cmp.Or(cmp.Compare(a.Replica, b.Replica), a.FinishedAt.Compare(*b.FinishedAt),
			bytes.Compare(a.Run[:], b.Run[:]))
	})
	for _, r := range ends {
		if n := len(losses) - 1; n >= 0 && losses[n].Replica == r.Replica &&
			r.FinishedAt.Sub(losses[n].At) < sweepTime {
			losses[n].Runs++
			continue
		}
		losses = append(losses, Loss{Replica: r.Replica, At: *r.FinishedAt, Runs: 1})
	}
	slices.SortStableFunc(losses, func(a, b Loss) int { return a.At.Compare(b.At) })
	return losses
}

// title describes the loss.
func (l Loss) title() string {
	return fmt.Sprintf("replica %s was lost with %s, recorded %s", words.Cut(l.Replica, 60),
		words.Figure(l.Runs, "run", "runs"), words.UTC(l.At))
}
