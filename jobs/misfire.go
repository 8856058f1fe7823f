package jobs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	maxMisfireRecords = 100     // that one check writes for one job; older ones are told of in the first
	maxMisfireDues    = 100_000 // that one check looks at for one job
	defaultLateRuns   = 100     // of run_all
	maxLateRuns       = 1000
)

// misfires returns what is to be recorded of a job's dues that nobody started
// between the cursor and where it moves to, by the job's policy for what kept
// each of them.
func misfires(e *entry, c Cursor, now time.Time) []Misfired {
	unstarted, dropped := unstartedDues(e, c)
	return e.misfired(unstarted, dropped, c, now, nil)
}

// misfired returns what is to be recorded of the dues, by the job's policy for
// what kept each of them. Of a job that follows others, ready is when they had
// succeeded.
func (e *entry) misfired(unstarted []time.Time, dropped droppedDues, c Cursor, now time.Time, ready map[time.Time]time.Time) []Misfired {
	decision := &misfireDecision{entry: e, cursor: c, now: now, ready: ready, once: c.Waits, left: e.lateLimit()}
	recorded := make([]Misfired, len(unstarted))
	for i, due := range slices.Backward(unstarted) { // the latest is run in the place of those before it
		recorded[i] = decision.on(due)
	}
	if dropped.number > 0 {
		if recorded[0].State == Waiting { // its start would wipe out what it tells of the others
			recorded[0].State, recorded[0].Detail = Missed, strings.TrimSuffix(recorded[0].Detail, runLate)
		}
		recorded[0].Detail += fmt.Sprintf("; %s since %s are not recorded one by one", dropped, c.CheckedUntil.Format(time.RFC3339))
	}
	return recorded
}

// droppedDues is how many dues are not recorded one by one.
type droppedDues struct {
	number int
	jumped bool // and more, that were not looked at
}

func (d droppedDues) String() string {
	if d.jumped {
		return fmt.Sprintf("at least %d earlier dues", d.number)
	}
	return fmt.Sprintf("%d earlier dues", d.number)
}

const runLate = "; it is run late"

// misfireDecision goes through a job's dues from the latest back.
type misfireDecision struct {
	entry  *entry
	cursor Cursor
	now    time.Time
	ready  map[time.Time]time.Time // by due; nil where the job has dues of its own
	once   time.Time               // the due that is run for all whose policy is run_once; zero until there is one
	left   int                     // how many more are run late by run_all
}

func (d *misfireDecision) on(due time.Time) Misfired {
	e := d.entry
	m := Misfired{Firing: Firing{Job: e.Name, Due: due}, Run: uuid.Must(uuid.NewV7()), State: Missed}
	m.Reason, m.Detail = d.cause(due)
	policy := e.misfire(m.Reason)
	switch maxAge := e.MisfireBy.MaxAge; {
	case policy == MisfireSkip:
	case e.pastDeadline(due, d.now):
		m.State, m.Reason, m.Detail = Skipped, ReasonDeadline, e.deadlineWords(m.Detail)
	case maxAge > 0 && d.now.Sub(due) > maxAge:
		m.Detail += fmt.Sprintf("; what is due more than %s ago is not run late", maxAge)
	case policy == MisfireRunOnce && !d.once.IsZero():
		m.Reason, m.Detail = ReasonSuperseded, fmt.Sprintf("%s; the due of %s is run in its place", m.Detail, d.once.Format(time.RFC3339))
	case policy == MisfireRunAll && d.left == 0:
		m.Detail += fmt.Sprintf("; %d later ones are run late, and no more", e.lateLimit())
	default:
		m.State, m.Detail = Waiting, m.Detail+runLate
		if policy == MisfireRunOnce {
			d.once = due
		} else {
			d.left--
		}
	}
	return m
}

// cause says what kept the due from being started.
func (d *misfireDecision) cause(due time.Time) (Reason, string) {
	threshold, start := d.entry.MisfireThreshold, d.entry.startOf(due)
	if d.ready != nil {
		return d.causeBehind(d.ready[due])
	}
	for _, at := range []time.Time{due, start} {
		if p, paused := d.cursor.pausedAt(at); paused {
			return ReasonPaused, pauseWords(p)
		}
	}
	up := d.cursor.upThrough(start, start.Add(threshold))
	if away := d.cursor.Away; up && !d.cursor.carriedThrough(start, start.Add(threshold)) {
		return ReasonMisfire, fmt.Sprintf("no replica that has the job was up from %s to %s", away.From.Format(time.RFC3339), away.Until.Format(time.RFC3339))
	}
	if up {
		return ReasonNoWorker, fmt.Sprintf("replicas were up, but none had a worker for it within %s", threshold)
	}
	if since := d.cursor.downSince(start); !since.IsZero() {
		return ReasonMisfire, fmt.Sprintf("no replica was up since %s", since.Format(time.RFC3339))
	}
	return ReasonMisfire, fmt.Sprintf("no replica was up to start it within %s", threshold)
}

// causeBehind is cause for a job that follows others. A replica that has it adds
// its run within a second, free worker or not: none was up.
func (d *misfireDecision) causeBehind(ready time.Time) (Reason, string) {
	if p, paused := d.cursor.pausedAt(ready); paused {
		return ReasonPaused, pauseWords(p)
	}
	return ReasonMisfire, fmt.Sprintf("what it follows had succeeded at %s, and no replica that has the job was up within %s",
		ready.Format(time.RFC3339), d.entry.MisfireThreshold)
}

// pauseWords tells who paused what, and from when to when.
func pauseWords(p Pause) string {
	words := fmt.Sprintf("%s was paused by %s at %s", p.Target, p.By, p.At.Format(time.RFC3339))
	if p.ResumedAt != nil {
		words += fmt.Sprintf(" and resumed by %s at %s", p.ResumedBy, p.ResumedAt.Format(time.RFC3339))
	}
	if p.Reason != "" {
		words += ": " + p.Reason
	}
	return words
}

// misfireRecords is how many dues of the job one check records one by one: where
// many are run late one more than those, which tells of all that are not.
func (e *entry) misfireRecords() int {
	for _, cause := range []Reason{ReasonMisfire, ReasonNoWorker, ReasonPaused} {
		if e.misfire(cause) == MisfireRunAll {
			return max(maxMisfireRecords, e.lateLimit()+1)
		}
	}
	return maxMisfireRecords
}

// unstartedDues returns the last dues without a run, and how many before them
// were left out.
func unstartedDues(e *entry, c Cursor) (dues []time.Time, dropped droppedDues) {
	from, until, looked := c.CheckedUntil, c.Until, 0
	for due := e.Schedule.Next(from); !due.IsZero() && !due.After(until); due = e.Schedule.Next(due) {
		due = due.UTC()
		if looked++; looked > maxMisfireDues {
			// A long outage of a job with a short interval: only its end is
			// looked at one by one.
			if jump := until.Add(-24 * time.Hour); due.Before(jump) {
				dropped.number, dropped.jumped, looked, due = dropped.number+len(dues), true, 0, jump
				dues = dues[:0]
				continue
			}
		}
		if _, started := slices.BinarySearchFunc(c.Started, due, time.Time.Compare); !started {
			dues = append(dues, due)
		}
	}
	if extra := len(dues) - e.misfireRecords(); extra > 0 {
		dues, dropped.number = dues[extra:], dropped.number+extra
	}
	return dues, dropped
}
