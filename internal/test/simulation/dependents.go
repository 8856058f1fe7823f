package simulation

import (
	"slices"

	"github.com/holdfast-dev/holdfast/jobs"
)

// judgeDependent asks that a job that follows others has a record of each scheduled time for
// which all of them succeeded, but for those that a calendar excludes, and none
// of others.
func (o *oracle) judgeDependent(name string, h *History) {
	tellers := o.collectives(name)
	schedule, from := h.Forces[0].Job.Schedule, h.Forces[0].Counted
	names := schedule.After()
	for _, first := range o.byJob[names[0]] {
		scheduledAt := first.ScheduledAt
		r := o.records[firing{name, scheduledAt.UnixMicro(), "", 0}]
		if !scheduledAt.After(from) || scheduledAt.After(o.Until) {
			continue
		}
		_, excluded := schedule.ExcludedAt(scheduledAt)
		isScheduled := !slices.ContainsFunc(names, func(p string) bool {
			return !o.succeeded(p, scheduledAt.UnixMicro())
		})
		switch {
		case excluded && isScheduled:
			o.Excluded++
			if r != nil {
				o.violate("%s: %s, though a calendar excludes it", told(r), r.State)
			}
		case excluded:
		case isScheduled:
			o.ScheduledTimes++
			if r == nil && !o.tellOf(tellers, scheduledAt) {
				o.violate("%s of %s: nothing became of it, though %q succeeded", name, scheduledAt,
					names)
			}
		}
	}
	for _, r := range o.byJob[name] {
		if slices.ContainsFunc(names, func(p string) bool {
			return !o.succeeded(p, r.ScheduledAt.UnixMicro())
		}) {
			o.violate("%s: %s, though not all of %q succeeded", told(r), r.State, names)
		}
	}
	for _, c := range tellers {
		if c.found != c.number {
			o.violate("%s: tells of %d scheduled times since %s, there are %d", told(c.by),
				c.number, c.since, c.found)
		}
	}
}

// succeeded reports whether a run of the job for the scheduled time has.
func (o *oracle) succeeded(name string, scheduledAt int64) bool {
	for recovery := range jobs.MaxRecoveries + 1 {
		if r := o.records[firing{name, scheduledAt, "", recovery}]; r != nil &&
			r.State == jobs.Succeeded {
			return true
		}
	}
	return false
}
