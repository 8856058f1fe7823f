package simulation

import (
	"slices"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// judgeDependent checks that a dependent has a record at each scheduled time at which all its
// dependencies succeeded, except at times that a calendar excludes, and none at other times.
func (o *oracle) judgeDependent(name string, h *History) {
	collectives := o.collectives(name)
	schedule, from := h.Periods[0].Job.Schedule, h.Periods[0].Counted
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
				o.violate("%s: %s, though a calendar excludes it", describe(r), r.State)
			}
		case excluded:
		case isScheduled:
			o.ScheduledTimes++
			if r == nil && !o.countIn(collectives, scheduledAt) {
				o.violate("%s of %s: nothing became of it, though %q succeeded", name, scheduledAt,
					names)
			}
		}
	}
	for _, r := range o.byJob[name] {
		if slices.ContainsFunc(names, func(p string) bool {
			return !o.succeeded(p, r.ScheduledAt.UnixMicro())
		}) {
			o.violate("%s: %s, though not all of %q succeeded", describe(r), r.State, names)
		}
	}
	for _, c := range collectives {
		if c.found != c.number && !(c.more && c.found > c.number) {
			o.violate("%s: covers %d scheduled times since %s, there are %d", describe(c.by),
				c.number, c.since, c.found)
		}
	}
}

// succeeded reports whether a run of the job at the scheduled time succeeded.
func (o *oracle) succeeded(name string, scheduledAt int64) bool {
	for recovery := range storage.MaxRecoveries + 1 {
		if r := o.records[firing{name, scheduledAt, "", recovery}]; r != nil &&
			r.State == jobs.Succeeded {
			return true
		}
	}
	return false
}
