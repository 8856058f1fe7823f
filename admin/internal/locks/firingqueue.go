package locks

import (
	"cmp"
	"container/heap"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// upcomingFiring is a future firing.
type upcomingFiring struct {
	at        time.Time
	next      time.Time // the job's next scheduled time after it, or zero if unknown
	contender int       // its index
}

// upcomingFirings returns the contenders' scheduled times in order, until f.Until. If there are
// more than maxUpcomingFirings, it moves f.Until to the end of the examined time.
func (r *Reader) upcomingFirings(f *UpcomingConflicts, contenders []*contender) []upcomingFiring {
	queue := make(firingQueue, 0, len(contenders))
	elsewhere := 0
	for i, contender := range contenders {
		if at, ok := r.nextFiring(contender, f.From); ok {
			queue = append(queue, upcomingFiring{at: at, contender: i})
		} else {
			elsewhere++
		}
	}
	if elsewhere > 0 {
		f.Cut = append(f.Cut, fmt.Sprintf("%s that share resources have no schedule, depend on "+
			"others, or are fired by replicas with another definition",
			words.PlainFigure(elsewhere, "job", "jobs")))
	}
	heap.Init(&queue)
	var scheduledTimes []upcomingFiring
	for len(queue) > 0 && queue[0].at.Before(f.Until) {
		if len(scheduledTimes) == maxUpcomingFirings {
			f.Until = queue[0].at
			f.Cut = append(f.Cut, fmt.Sprintf("The simulation ends after %d scheduled times, at %s",
				maxUpcomingFirings, words.UTC(f.Until)))
			break
		}
		scheduledAt := queue[0]
		at, ok := r.nextFiring(contenders[scheduledAt.contender], scheduledAt.at)
		if ok {
			scheduledAt.next = at
			queue[0].at = at
			heap.Fix(&queue, 0)
		} else {
			heap.Pop(&queue)
		}
		scheduledTimes = append(scheduledTimes, scheduledAt)
	}
	return scheduledTimes
}

// nextFiring returns the contender's first scheduled time after t.
func (r *Reader) nextFiring(one *contender, t time.Time) (time.Time, bool) {
	if len(one.scheduledTimes) == 0 && !one.ended {
		one.scheduledTimes = r.ScheduledTimes(one.job, t, firingsBatch)
		one.ended = len(one.scheduledTimes) < firingsBatch
	}
	if len(one.scheduledTimes) == 0 {
		return time.Time{}, false
	}
	at := one.scheduledTimes[0]
	one.scheduledTimes = one.scheduledTimes[1:]
	return at.UTC(), true
}

type firingQueue []upcomingFiring

func (q firingQueue) Len() int { return len(q) }

func (q firingQueue) Less(i, j int) bool {
	return cmp.Or(q[i].at.Compare(q[j].at), cmp.Compare(q[i].contender, q[j].contender)) < 0
}

func (q firingQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *firingQueue) Push(x any) { *q = append(*q, x.(upcomingFiring)) }

func (q *firingQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
