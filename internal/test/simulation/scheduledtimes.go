package simulation

import (
	"regexp"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// together matches the detail of a record that covers earlier scheduled times.
var together = regexp.MustCompile(
	`; (at least )?(\d+) earlier scheduled times? since (\S+) ` +
		`(?:has no record of its|have no records of their) own`)

// collective is the part of one record that covers earlier scheduled times.
type collective struct {
	since, until time.Time // both exclusive
	number       int
	more         bool // there may be more
	found        int
	by           *storage.Record
}

// judgeScheduledTimes checks every scheduled time of each definition of a job while it was active,
// and then the records at other times.
func (o *oracle) judgeScheduledTimes(name string, h *History) {
	if len(h.Periods[0].Job.Schedule.After()) > 0 {
		o.judgeDependent(name, h)
		return
	}
	collectives := o.collectives(name)
	known := map[int64]bool{} // by the second of a scheduled time that counts or may count
	for i, f := range h.Periods {
		if f.Removed {
			continue
		}
		from, to, optional := f.Counted, o.Until, o.Until
		if i+1 < len(h.Periods) {
			next := h.Periods[i+1]
			to, optional = next.Checked, next.At.Add(o.Margin)
		} else if !h.Carried && h.Cursor.Before(to) {
			to = h.Cursor // no replica decides later ones
		} else {
			optional = o.Until.Add(366 * 24 * time.Hour)
		}
		o.judgePeriod(name, f, from, to, collectives, known)
		for scheduledAt := f.Job.Schedule.Next(later(from, to)); !scheduledAt.IsZero() &&
			!scheduledAt.After(optional); scheduledAt = f.Job.Schedule.Next(scheduledAt) {
			known[scheduledAt.Unix()] = true
			if i+1 == len(h.Periods) && scheduledAt.After(o.lastScheduledAt(name)) {
				break
			}
		}
	}
	for _, r := range o.byJob[name] {
		if !known[r.ScheduledAt.Unix()] || r.ScheduledAt.Nanosecond() != 0 {
			o.violate("%s: recorded as %s, and it was never due", describe(r), r.State)
		}
	}
	for _, c := range collectives {
		if c.found != c.number && !(c.more && c.found > c.number) {
			o.violate("%s: covers %d scheduled times since %s, there are %d", describe(c.by),
				c.number, c.since, c.found)
		}
	}
}

// judgePeriod checks the scheduled times of one definition after from, up to to.
func (o *oracle) judgePeriod(name string, f ActivePeriod, from, to time.Time,
	collectives []*collective,
	known map[int64]bool) {
	for {
		for _, occurrence := range f.Job.Schedule.Preview(from, 50, true) {
			scheduledAt := occurrence.ScheduledAt
			if scheduledAt.After(to) {
				return
			}
			from = scheduledAt
			r := o.records[firing{name, scheduledAt.UnixMicro(), "", 0}]
			if occurrence.ExcludedBy != "" {
				o.Excluded++
				if r != nil && !known[scheduledAt.Unix()] {
					o.violate("%s: %s, though calendar %s excludes it", describe(r), r.State,
						occurrence.ExcludedBy)
				}
				known[scheduledAt.Unix()] = true
				continue
			}
			known[scheduledAt.Unix()] = true
			o.ScheduledTimes++
			if r == nil && !o.countIn(collectives, scheduledAt) {
				o.violate("%s of %s: nothing became of it", name, scheduledAt)
			}
		}
		if next := f.Job.Schedule.Next(from); next.IsZero() || next.After(to) {
			return
		}
	}
}

// collectives returns the records of the job that cover earlier scheduled times.
func (o *oracle) collectives(name string) []*collective {
	var all []*collective
	for _, r := range o.byJob[name] {
		found := together.FindStringSubmatch(r.Detail)
		if found == nil {
			continue
		}
		number, numberErr := strconv.Atoi(found[2])
		since, sinceErr := time.Parse(time.RFC3339, found[3])
		if numberErr != nil || sinceErr != nil {
			o.violate("%s: tells %q", describe(r), found[0])
			continue
		}
		all = append(all, &collective{since: since, until: r.ScheduledAt, number: number,
			more: found[1] != "", by: r})
	}
	return all
}

// countIn counts a scheduled time without a record for the collective record that covers it, and
// reports whether there is one.
func (o *oracle) countIn(collectives []*collective, scheduledAt time.Time) bool {
	for _, c := range collectives {
		if scheduledAt.After(c.since) && scheduledAt.Before(c.until) {
			c.found++
			o.Collective++
			return true
		}
	}
	return false
}

func (o *oracle) lastScheduledAt(name string) time.Time {
	if records := o.byJob[name]; len(records) > 0 {
		return records[len(records)-1].ScheduledAt
	}
	return time.Time{}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
