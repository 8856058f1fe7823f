package simulation

import (
	"regexp"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// together is how the record of a due tells of those before it.
var together = regexp.MustCompile(`; (at least )?(\d+) earlier dues since (\S+) are not recorded one by one`)

// collective is what one record tells of dues before it.
type collective struct {
	since, until time.Time // both not among them
	number       int
	more         bool // and perhaps more
	found        int
	by           *jobs.Record
}

// judgeDues goes through every due of a job, of each definition while it was
// in force, and then through what is recorded of none of them.
func (o *oracle) judgeDues(name string, h *History) {
	if len(h.Forces[0].Job.Schedule.After()) > 0 {
		o.judgeFollower(name, h)
		return
	}
	tellers := o.collectives(name)
	known := map[int64]bool{} // by a due's second: it was due, or may have been
	for i, f := range h.Forces {
		if f.Removed {
			continue
		}
		from, to, optional := f.Counted, o.Until, o.Until
		if i+1 < len(h.Forces) {
			next := h.Forces[i+1]
			to, optional = next.Checked, next.At.Add(o.Margin)
		} else if !h.Carried && h.Cursor.Before(to) {
			to = h.Cursor // nobody is there to decide what is later
		} else {
			optional = o.Until.Add(366 * 24 * time.Hour)
		}
		o.judgeForce(name, f, from, to, tellers, known)
		for due := f.Job.Schedule.Next(later(from, to)); !due.IsZero() && !due.After(optional); due = f.Job.Schedule.Next(due) {
			known[due.Unix()] = true
			if i+1 == len(h.Forces) && due.After(o.lastDue(name)) {
				break
			}
		}
	}
	for _, r := range o.byJob[name] {
		if !known[r.Due.Unix()] || r.Due.Nanosecond() != 0 {
			o.violate("%s: recorded as %s, and it was never due", told(r), r.State)
		}
	}
	for _, c := range tellers {
		if c.found != c.number && !(c.more && c.found > c.number) {
			o.violate("%s: tells of %d dues since %s, there are %d", told(c.by), c.number, c.since, c.found)
		}
	}
}

// judgeForce goes through the dues of one definition after from, up to to.
func (o *oracle) judgeForce(name string, f Force, from, to time.Time, tellers []*collective, known map[int64]bool) {
	for {
		for _, occurrence := range f.Job.Schedule.Preview(from, 50, true) {
			due := occurrence.Due
			if due.After(to) {
				return
			}
			from = due
			r := o.records[firing{name, due.UnixMicro(), "", 0}]
			if occurrence.ExcludedBy != "" {
				o.Excluded++
				if r != nil && !known[due.Unix()] {
					o.violate("%s: %s, though calendar %s excludes it", told(r), r.State, occurrence.ExcludedBy)
				}
				known[due.Unix()] = true
				continue
			}
			known[due.Unix()] = true
			o.Dues++
			if r == nil && !o.tellOf(tellers, due) {
				o.violate("%s of %s: nothing became of it", name, due)
			}
		}
		if next := f.Job.Schedule.Next(from); next.IsZero() || next.After(to) {
			return
		}
	}
}

// collectives returns what records of the job tell of dues before theirs.
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
			o.violate("%s: tells %q", told(r), found[0])
			continue
		}
		all = append(all, &collective{since: since, until: r.Due, number: number, more: found[1] != "", by: r})
	}
	return all
}

// tellOf counts a due without a record to who tells of it.
func (o *oracle) tellOf(tellers []*collective, due time.Time) bool {
	for _, c := range tellers {
		if due.After(c.since) && due.Before(c.until) {
			c.found++
			o.Told++
			return true
		}
	}
	return false
}

func (o *oracle) lastDue(name string) time.Time {
	if records := o.byJob[name]; len(records) > 0 {
		return records[len(records)-1].Due
	}
	return time.Time{}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
