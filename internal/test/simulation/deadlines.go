package simulation

import (
	"slices"

	"github.com/holdfast-dev/holdfast/jobs/reasons"
)

// judgeDeadlines checks that no run began after its deadline, and that none was skipped for its
// deadline before it.
func (o *oracle) judgeDeadlines() {
	for _, x := range o.Evidence.Executions {
		if d := x.Definition.Deadline; d > 0 && x.Attempt == 1 &&
			x.Begun.After(x.ScheduledAt.Add(d+o.Margin)) {
			o.violate("%s of %s (key %q): began at %s, its deadline is %s after its scheduled time",
				x.Job, x.ScheduledAt, x.Key, x.Begun, d)
		}
	}
	for i := range o.Evidence.Records {
		r := &o.Evidence.Records[i]
		if r.Reason != reasons.Deadline || r.FinishedAt == nil || o.Jobs[r.Job] == nil {
			continue
		}
		passed := func(f ActivePeriod) bool {
			return f.Job.Deadline > 0 &&
				r.FinishedAt.After(r.ScheduledAt.Add(f.Job.Deadline-o.Margin))
		}
		if !slices.ContainsFunc(o.Jobs[r.Job].between(r.ScheduledAt.Add(-o.Margin), *r.FinishedAt),
			passed) {
			o.violate("%s: skipped for its deadline at %s, before it", describe(r), r.FinishedAt)
		}
	}
}
