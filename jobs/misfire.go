package jobs

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

const (
	maxMisfireRecords = 100     // that one check writes for one job; older ones are told of in the first
	maxMisfireDues    = 100_000 // that one check looks at for one job
	maxLateRuns       = 100     // of run_all
)

// misfires returns what is to be recorded of a job's dues that nobody started
// between the cursor and until, by the job's policy.
func misfires(e *entry, c Cursor, until time.Time) []Misfired {
	unstarted, dropped := unstartedDues(e, c, until)
	return e.misfired(unstarted, dropped, c)
}

// misfired returns what is to be recorded of the dues, by the job's policy.
func (e *entry) misfired(unstarted []time.Time, dropped int, c Cursor) []Misfired {
	recorded := make([]Misfired, len(unstarted))
	late := lateRuns(e.Misfire, len(unstarted))
	for i, due := range unstarted {
		m := Misfired{Firing: Firing{Job: e.Name, Due: due}, Run: uuid.Must(uuid.NewV7()), State: Missed, Reason: ReasonMisfire}
		m.Detail = fmt.Sprintf("no replica started it within %s", e.MisfireThreshold)
		switch {
		case i >= len(unstarted)-late:
			m.State, m.Detail = Waiting, m.Detail+"; it is run late"
		case late > 0:
			m.Reason, m.Detail = ReasonSuperseded, fmt.Sprintf("%s; the due of %s is run in its place", m.Detail, unstarted[len(unstarted)-1].Format(time.RFC3339))
		}
		recorded[i] = m
	}
	if dropped > 0 {
		recorded[0].Detail += fmt.Sprintf("; %d earlier dues since %s are not recorded one by one", dropped, c.CheckedUntil.Format(time.RFC3339))
	}
	return recorded
}

// lateRuns is how many of the last n unstarted dues are run late.
func lateRuns(policy Misfire, n int) int {
	switch policy {
	case MisfireRunAll:
		return min(n, maxLateRuns)
	case MisfireRunOnce:
		return min(n, 1)
	default:
		return 0
	}
}

// unstartedDues returns the last dues without a run, and how many before them
// were left out.
func unstartedDues(e *entry, c Cursor, until time.Time) (dues []time.Time, dropped int) {
	from, looked := c.CheckedUntil, 0
	for due := e.Schedule.Next(from); !due.IsZero() && !due.After(until); due = e.Schedule.Next(due) {
		due = due.UTC()
		if looked++; looked > maxMisfireDues {
			// A long outage of a job with a short interval: only its end is
			// looked at one by one.
			if jump := until.Add(-24 * time.Hour); due.Before(jump) {
				dropped, looked, due = dropped+len(dues), 0, jump
				dues = dues[:0]
				continue
			}
		}
		if _, started := slices.BinarySearchFunc(c.Started, due, time.Time.Compare); !started {
			dues = append(dues, due)
		}
	}
	if extra := len(dues) - maxMisfireRecords; extra > 0 {
		dues, dropped = dues[extra:], dropped+extra
	}
	return dues, dropped
}
