package simulation

import (
	"slices"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// acting is a call of a handler while its claim existed.
type acting struct {
	*Execution
	requests []locking.Request
}

// judgeConflicts checks all calls in the order in which they began.
func (o *oracle) judgeConflicts() {
	var calls []acting
	for i := range o.Evidence.Executions {
		x := &o.Evidence.Executions[i]
		if x.Acted.IsZero() {
			continue
		}
		requests, err := requestsOf(x.Definition)
		if err != nil {
			o.violate("%s: %v", x.Job, err)
		}
		calls = append(calls, acting{x, requests})
	}
	slices.SortStableFunc(calls, func(a, b acting) int { return a.Begun.Compare(b.Begun) })
	var under []acting
	newest := map[locking.Resource]jobs.Token{}
	for _, c := range calls {
		under = slices.DeleteFunc(under, func(u acting) bool { return !u.Acted.After(c.Begun) })
		o.judgeBeside(c, under)
		for _, r := range c.requests {
			if r.Mode != locking.Exclusive {
				continue
			}
			if newest[r.Resource] >= c.Token {
				o.violate("%s of %s: acted on %s under token %d, after token %d", c.Job,
					c.ScheduledAt, r.Resource, c.Token, newest[r.Resource])
			}
			newest[r.Resource] = c.Token
		}
		under = append(under, c)
	}
}

// judgeBeside compares a call with the concurrent ones.
func (o *oracle) judgeBeside(c acting, under []acting) {
	for _, mine := range c.requests {
		slots := 1
		for _, u := range under {
			for _, theirs := range u.requests {
				if locking.Conflict(mine, theirs) {
					o.violate("%s of %s on %s and %s of %s on %s act on %s at the same time (%s "+
						"to %s, %s to %s)", c.Job, c.ScheduledAt, c.Replica,
						u.Job, u.ScheduledAt, u.Replica, mine.Resource, c.Begun, c.Acted, u.Begun,
						u.Acted)
				} else if mine == theirs && mine.Mode == locking.Slotted {
					slots++
				}
			}
		}
		if mine.Mode == locking.Slotted && slots > mine.Slots {
			o.violate("%s of %s has slot %d of %d of %s", c.Job, c.ScheduledAt, slots, mine.Slots,
				mine.Resource)
		}
	}
	slots := 1
	for _, u := range under {
		if u.Process == c.Process && u.Definition.Group == c.Definition.Group {
			slots++
		}
	}
	if most := c.Definition.GroupLimits.PerReplica; c.Process != 0 && most > 0 && slots > most {
		o.violate("%s of %s has place %d of %d of group %s on %s", c.Job, c.ScheduledAt, slots,
			most, c.Definition.Group, c.Replica)
	}
}

// requestsOf returns all resources that a run of the job locks.
func requestsOf(job *jobs.Job) ([]locking.Request, error) {
	requests := slices.Clone(job.Resources)
	if n := job.GroupLimits.PerCluster; n > 0 {
		group, err := locking.Group(job.Group)
		if err != nil {
			return nil, err
		}
		requests = append(requests,
			locking.Request{Resource: group, Mode: locking.Slotted, Slots: n})
	}
	if job.Overlap != jobs.OverlapAllow {
		own, err := locking.Job(job.Name)
		if err != nil {
			return nil, err
		}
		requests = append(requests, locking.Request{Resource: own, Mode: locking.Exclusive})
	}
	return requests, nil
}
