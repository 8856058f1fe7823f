package charts

import (
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// zoomWindow returns a window three times as long as the interval, centred on it.
func zoomWindow(begin, end time.Time) (from, until time.Time) {
	margin := max(end.Sub(begin), minWindow)
	return begin.Add(-margin).Truncate(time.Second), end.Add(margin).Truncate(time.Second).
		Add(time.Second)
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// worstState returns the state that colours a merged bar.
func worstState(states map[jobs.State]int) jobs.State {
	for _, s := range []jobs.State{
		jobs.Failed, jobs.TimedOut, jobs.Lost, jobs.Cancelled, jobs.Missed, jobs.Skipped,
		jobs.Running, jobs.Waiting,
	} {
		if states[s] > 0 {
			return s
		}
	}
	return jobs.Succeeded
}
