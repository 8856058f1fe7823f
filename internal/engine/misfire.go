package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/plural"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// the most records that one check writes for one job; the oldest of them counts the others
	maxMisfireRecords = 100
	maxMisfireTimes   = 100_000 // the most scheduled times that one check visits for one job
)

// misfires returns the records of a job's scheduled times between the cursor and its new position
// that no replica started, by the job's policy for the cause of each.
func misfires(e *entry, c storage.Cursor, now time.Time) []storage.Misfired {
	unstarted, dropped := unstartedFirings(e, c)
	return e.misfired(unstarted, dropped, c, now, nil)
}

// misfired returns the records of the scheduled times, by the job's policy for the cause of each.
// For a dependent, ready is when its dependencies had succeeded.
func (e *entry) misfired(unstarted []time.Time, dropped droppedFirings, c storage.Cursor,
	now time.Time,
	ready map[time.Time]time.Time) []storage.Misfired {
	decision := &misfireDecision{entry: e, cursor: c, now: now, ready: ready, once: c.Waits,
		left: e.LateLimit()}
	recorded := make([]storage.Misfired, len(unstarted))
	for i, scheduledAt := range slices.Backward(unstarted) {
		// the latest first: it replaces those before it
		recorded[i] = decision.on(scheduledAt)
	}
	for i := range recorded {
		// They are created together, so lists order them by their ids.
		recorded[i].Run = uuid.Must(uuid.NewV7())
	}
	if (dropped.number > 0 || dropped.jumped) && len(recorded) > 0 {
		if recorded[0].State == jobs.Waiting && dropped.number > 0 {
			// the start of a run would erase the count in its detail
			recorded[0].State, recorded[0].Detail = jobs.Missed,
				strings.TrimSuffix(recorded[0].Detail, runLate)
		}
		recorded[0].Detail += fmt.Sprintf("; %s since %s %s", dropped,
			c.CheckedUntil.Format(time.RFC3339), plural.Word(dropped.number,
				"has no record of its own", "have no records of their own"))
	}
	return recorded
}

// droppedFirings counts the scheduled times without records of their own.
type droppedFirings struct {
	number int
	jumped bool // and more that were not visited
}

func (d droppedFirings) String() string {
	text := plural.Of(d.number, "earlier scheduled time", "earlier scheduled times")
	if d.jumped {
		return "at least " + text
	}
	return text
}

const runLate = "; it is run late"

// misfireDecision decides on a job's scheduled times, from the latest back.
type misfireDecision struct {
	entry  *entry
	cursor storage.Cursor
	now    time.Time
	ready  map[time.Time]time.Time // by scheduled time; nil if the job is not a dependent
	// the scheduled time that run_once runs late for all others; zero until there is one
	once time.Time
	left int // how many more run_all may run late
}

func (d *misfireDecision) on(scheduledAt time.Time) storage.Misfired {
	e := d.entry
	m := storage.Misfired{Firing: storage.Firing{Job: e.Name, ScheduledAt: scheduledAt},
		State: jobs.Missed}
	m.Reason, m.Detail = d.cause(scheduledAt)
	policy := e.MisfirePolicy(m.Reason)
	switch maxAge := e.MisfireBy.MaxAge; {
	case policy == jobs.MisfireSkip:
	case e.pastDeadline(scheduledAt, d.now):
		m.State, m.Reason, m.Detail = jobs.Skipped, reasons.Deadline, e.deadlineWords(m.Detail)
	case maxAge > 0 && d.now.Sub(scheduledAt) > maxAge:
		m.Detail += fmt.Sprintf("; scheduled times more than %s ago are not run late", maxAge)
	case policy == jobs.MisfireRunOnce && !d.once.IsZero():
		m.Reason, m.Detail = reasons.Superseded,
			fmt.Sprintf("%s; the scheduled time %s is run late in its place", m.Detail,
				d.once.Format(time.RFC3339))
	case policy == jobs.MisfireRunAll && d.left == 0:
		m.Detail += fmt.Sprintf("; the limit of %s is reached",
			plural.Of(e.LateLimit(), "late run", "late runs"))
	default:
		m.State, m.Detail = jobs.Waiting, m.Detail+runLate
		if policy == jobs.MisfireRunOnce {
			d.once = scheduledAt
		} else {
			d.left--
		}
	}
	return m
}

// cause returns why the scheduled time was not started.
func (d *misfireDecision) cause(scheduledAt time.Time) (jobs.Reason, string) {
	threshold, start := d.entry.MisfireThreshold, d.entry.startOf(scheduledAt)
	if d.ready != nil {
		return d.causeBehind(d.ready[scheduledAt])
	}
	for _, at := range []time.Time{scheduledAt, start} {
		if p, paused := d.cursor.PausedAt(at); paused {
			return reasons.Paused, pauseWords(p)
		}
	}
	up := d.cursor.UpDuring(start, start.Add(threshold))
	if away := d.cursor.Absence; up && !d.cursor.PresentDuring(start, start.Add(threshold)) {
		return reasons.Misfire, fmt.Sprintf("no replica with the job was up from %s to %s",
			away.From.Format(time.RFC3339), away.Until.Format(time.RFC3339))
	}
	if up {
		return reasons.NoWorker, fmt.Sprintf("replicas were up, but none could start it within "+
			"%s: no free worker, a full group, a drain or a wrong clock", threshold)
	}
	if since := d.cursor.DownSince(start); !since.IsZero() {
		return reasons.Misfire, fmt.Sprintf("no replica was up since %s",
			since.Format(time.RFC3339))
	}
	return reasons.Misfire, fmt.Sprintf("no replica was up to start it within %s", threshold)
}

// causeBehind is cause for a dependent. A replica with the job adds its run within a second, even
// without a free worker. So no such replica was up.
func (d *misfireDecision) causeBehind(ready time.Time) (jobs.Reason, string) {
	if p, paused := d.cursor.PausedAt(ready); paused {
		return reasons.Paused, pauseWords(p)
	}
	return reasons.Misfire, fmt.Sprintf("its dependencies had succeeded at %s, and no replica "+
		"with the job was up within %s",
		ready.Format(time.RFC3339), d.entry.MisfireThreshold)
}

// pauseWords describes a pause: its target, its actors and its times.
func pauseWords(p storage.Pause) string {
	words := fmt.Sprintf("%s was paused by %s at %s", p.Target, p.By, p.At.Format(time.RFC3339))
	if p.ResumedAt != nil {
		words += fmt.Sprintf(" and resumed by %s at %s", p.ResumedBy,
			p.ResumedAt.Format(time.RFC3339))
	}
	if p.Reason != "" {
		words += ": " + p.Reason
	}
	return words
}

// misfireRecords returns how many scheduled times one check records for the job. If run_all runs
// many late, it is one more than those: the oldest record counts the others.
func (e *entry) misfireRecords() int {
	for _, cause := range []jobs.Reason{reasons.Misfire, reasons.NoWorker,
		reasons.Paused} {
		if e.MisfirePolicy(cause) == jobs.MisfireRunAll {
			return max(maxMisfireRecords, e.LateLimit()+1)
		}
	}
	return maxMisfireRecords
}

// unstartedFirings returns the last scheduled times without a run, and how many before them were
// left out.
func unstartedFirings(e *entry,
	c storage.Cursor) (scheduledTimes []time.Time, dropped droppedFirings) {
	from, until, looked := c.CheckedUntil, c.Until, 0
	for scheduledAt := e.Schedule.Next(from); !scheduledAt.IsZero() &&
		!scheduledAt.After(until); scheduledAt = e.Schedule.Next(scheduledAt) {
		scheduledAt = scheduledAt.UTC()
		if looked++; looked > maxMisfireTimes {
			// After a long outage of a job with a short interval, only the day before the last
			// scheduled time is visited one by one.
			last := e.Schedule.Prev(until.Add(time.Nanosecond))
			if jump := last.Add(-24 * time.Hour); scheduledAt.Before(jump) {
				// All scheduled times of that day may have been started.
				extra := max(0, len(scheduledTimes)-e.misfireRecords())
				dropped.number, dropped.jumped = dropped.number+extra, true
				scheduledTimes = slices.Delete(scheduledTimes, 0, extra)
				looked, scheduledAt = 0, jump
				continue
			}
		}
		if _, started := slices.BinarySearchFunc(c.Started, scheduledAt,
			time.Time.Compare); !started {
			scheduledTimes = append(scheduledTimes, scheduledAt)
		}
	}
	if extra := len(scheduledTimes) - e.misfireRecords(); extra > 0 {
		scheduledTimes, dropped.number = scheduledTimes[extra:], dropped.number+extra
	}
	return scheduledTimes, dropped
}
