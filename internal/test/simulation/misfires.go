package simulation

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// checked is what one misfire check wrote of one job, by due.
type checked struct {
	*oracle
	job       *jobs.Job
	at        time.Time
	decisions []Decision
}

// judgeMisfires asks that each scheduled time that was not started in time was decided by
// the policy for what kept it.
func (o *oracle) judgeMisfires() {
	type check struct {
		job string
		at  int64
	}
	checks := map[check][]Decision{}
	for _, d := range o.Decisions {
		c := check{d.Firing.Job, d.At.UnixMicro()}
		checks[c] = append(checks[c], d)
	}
	for c, decisions := range checks {
		h := o.Jobs[c.job]
		at := decisions[0].At
		if h == nil || h.near(at, o.Margin) {
			continue
		}
		f := h.at(at)
		if f == nil || f.Removed {
			o.violate("%s: misfires recorded at %s, it was not in force", c.job, at)
			continue
		}
		slices.SortFunc(decisions, func(a, b Decision) int {
			return a.Firing.ScheduledAt.Compare(b.Firing.ScheduledAt)
		})
		(&checked{oracle: o, job: &f.Job, at: at, decisions: decisions}).judge()
	}
}

func (c *checked) judge() {
	once, all := 0, 0                                // how many are run late, by policy
	for _, d := range slices.Backward(c.decisions) { // the latest come first
		cause := c.cause(d)
		policy := policyOf(c.job, cause)
		age := c.at.Sub(d.Firing.ScheduledAt)
		tooOld := c.job.MisfireBy.MaxAge > 0 && age > c.job.MisfireBy.MaxAge-c.Margin
		switch {
		case d.State == jobs.Waiting && policy == jobs.MisfireSkip:
			c.violateOf(d, "is run late, and what is %s is to be skipped", cause)
		case d.State == jobs.Waiting && c.job.MisfireBy.MaxAge > 0 &&
			age > c.job.MisfireBy.MaxAge+c.Margin:
			c.violateOf(d, "is run %s late, at most %s are allowed", age, c.job.MisfireBy.MaxAge)
		case d.State == jobs.Waiting && policy == jobs.MisfireRunOnce:
			if once++; once > 1 {
				c.violateOf(d, "is run late, and another is by run_once")
			}
		case d.State == jobs.Waiting:
			if all++; all > limitOf(c.job) {
				c.violateOf(d, "is run late, after %d others", all-1)
			}
		case d.Reason == jobs.ReasonSuperseded &&
			(policy != jobs.MisfireRunOnce || once == 0 && !c.waits(d)):
			c.violateOf(d, "is superseded (%s) by nothing: %s", cause, d.Detail)
		case d.State == jobs.Missed && d.Reason != jobs.ReasonSuperseded && !tooOld &&
			!together.MatchString(d.Detail) &&
			(policy == jobs.MisfireRunOnce || policy == jobs.MisfireRunAll && all < limitOf(c.job)):
			c.violateOf(d, "is not run late by %s (%s), though it may be: %s", policy, cause,
				d.Detail)
		}
	}
}

func (c *checked) violateOf(d Decision, format string, args ...any) {
	c.violate("%s of %s, decided at %s: "+format,
		append([]any{d.Firing.Job, d.Firing.ScheduledAt, d.At}, args...)...)
}

// cause is what kept a scheduled time, as the store was told of it, but where that is what
// became of it; and it holds what was told against what is known.
func (c *checked) cause(d Decision) jobs.Reason {
	if len(c.job.Schedule.After()) > 0 { // it depends on when others had succeeded
		if strings.Contains(d.Detail, " was paused by ") {
			return jobs.ReasonPaused
		}
		return jobs.ReasonMisfire
	}
	start := d.Firing.ScheduledAt.Add(c.job.Schedule.Delay(d.Firing.Job, d.Firing.ScheduledAt))
	paused := false // as a job of the group that it belongs to as that is decided
	for _, at := range []time.Time{d.Firing.ScheduledAt, start} {
		paused = paused || c.pausedIn(d.Firing.Job, c.job.Group, at.Add(time.Microsecond)) != nil
	}
	switch up := c.upThrough(d.Firing.Job, start, start.Add(c.job.MisfireThreshold)); {
	case d.Reason == jobs.ReasonDeadline, d.Reason == jobs.ReasonSuperseded:
	case (d.Reason == jobs.ReasonPaused) != paused:
		c.violateOf(d, "is told of as %s, it was paused: %v", d.Reason, paused)
	case d.Reason == jobs.ReasonMisfire && up == yes, d.Reason == jobs.ReasonNoWorker && up == no:
		c.violateOf(d, "is told of as %s, a replica was up from then on: %v", d.Reason, up == yes)
	case d.Reason == jobs.ReasonNoWorker:
		if idle := c.idleThrough(d.Firing.Job, start, start.Add(c.job.MisfireThreshold)); idle != "" {
			c.violateOf(d, "is told of as %s, and %s had workers free all the time", d.Reason, idle)
		}
	}
	switch {
	case paused:
		return jobs.ReasonPaused
	case strings.Contains(d.Detail, "replicas were up"):
		return jobs.ReasonNoWorker
	default:
		return jobs.ReasonMisfire
	}
}

// The answers of what can't always be known.
type answer int

const (
	perhaps answer = iota
	yes
	no
)

// upThrough says whether the store knew at the check of a replica that lived
// from the one instant to the other, and had the job. Of one that did not have
// it the store may know no better.
func (c *checked) upThrough(job string, from, until time.Time) answer {
	found := no
	for _, l := range c.Lives {
		took, has := l.Took[job]
		switch {
		case l.From.After(from):
		case (!has || took.After(from)) && l.Beat.Add(l.TTL).After(from):
			found = perhaps
		case !l.Beat.Before(until) && (l.Gone.IsZero() || l.Gone.After(c.at)):
			return yes
		case !l.Beat.Add(l.TTL).Before(until):
			found = perhaps // it lives by its last heartbeat, or it does not
		}
	}
	return found
}

// idleThrough returns the name of a replica that could have started a firing of the job
// from the one instant to the other and had workers free, or "". It names none where
// something hindered replicas, the job was paused for a part of the time, its group has
// a limit on each replica, or another definition came into force.
func (c *checked) idleThrough(job string, from, until time.Time) string {
	wide, end := from.Add(-c.Margin), until.Add(c.Margin)
	if c.Workers == 0 || c.job.GroupLimits.PerReplica > 0 ||
		len(c.Jobs[job].between(wide, end)) != 1 ||
		anyMeets(c.Hindered, wide, end) || c.pausedWithin(job, c.job.Group, wide, end) {
		return ""
	}
	for _, l := range c.Lives {
		took, has := l.Took[job]
		if has && !took.After(wide) && !l.From.After(wide) && !l.Beat.Before(until) &&
			c.atWork(l.Replica, from, until) < c.Workers {
			return l.Replica
		}
	}
	return ""
}

// atWork returns how many handlers of a replica were at work at one instant of that time,
// at the most. An end at the instant of another's begin counts as beside it.
func (c *checked) atWork(replica string, from, until time.Time) (most int) {
	var at []Execution
	for _, x := range c.Evidence.Executions {
		if x.Replica == replica && !x.Begun.After(until) && (!x.Ended || !x.EndedAt.Before(from)) {
			at = append(at, x)
		}
	}
	for _, x := range at {
		n := 0
		for _, o := range at {
			if !o.Begun.After(x.Begun) && (!o.Ended || !o.EndedAt.Before(x.Begun)) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// waits reports whether another scheduled run of the job, or the recovery of one,
// may have waited at the check.
func (c *checked) waits(d Decision) bool {
	return slices.ContainsFunc(c.Evidence.Records, func(r jobs.Record) bool {
		return r.Job == d.Firing.Job && r.Key == "" && !r.ScheduledAt.Equal(d.Firing.ScheduledAt) &&
			!r.CreatedAt.After(c.at) &&
			(r.FinishedAt == nil || !r.FinishedAt.Before(c.at.Add(-c.Margin)))
	})
}

// policyOf is the job's policy for a cause, by what the documentation says.
func policyOf(job *jobs.Job, cause jobs.Reason) jobs.Misfire {
	policy, otherwise := job.Misfire, jobs.MisfireRunOnce
	switch cause {
	case jobs.ReasonNoWorker:
		policy = job.MisfireBy.NoWorker
	case jobs.ReasonPaused:
		policy, otherwise = job.MisfireBy.Paused, jobs.MisfireSkip
	case jobs.ReasonLockHeld:
		policy, otherwise = job.MisfireBy.LockHeld, jobs.MisfireSkip
	}
	if policy == "" {
		return otherwise
	}
	return policy
}

func limitOf(job *jobs.Job) int {
	if job.MisfireBy.Limit == 0 {
		return 100
	}
	return job.MisfireBy.Limit
}

// judgeLocksHeld asks that a firing whose wait for a lock ran out gave up as the
// job's policy for that says.
func (o *oracle) judgeLocksHeld() {
	for i := range o.Evidence.Records {
		r := &o.Evidence.Records[i]
		h := o.Jobs[r.Job]
		if r.State != jobs.Skipped || r.Key != "" || r.Recovery > 0 || h == nil {
			continue
		}
		forces := h.between(r.ScheduledAt.Add(-o.Margin), *r.FinishedAt)
		if len(forces) != 1 || len(forces[0].Job.Schedule.After()) > 0 {
			// it may have waited by another definition; a dependent's due says when others began
			continue
		}
		job := &forces[0].Job
		policy := policyOf(job, jobs.ReasonLockHeld)
		switch r.Reason {
		case jobs.ReasonSuperseded:
			if policy == jobs.MisfireSkip {
				o.violate("%s: waited on for a lock until it was superseded, and is to be skipped",
					told(r))
			}
		case jobs.ReasonLockHeld, jobs.ReasonOlderWaiter:
			if until := o.waitsUntil(job, r, policy); policy != jobs.MisfireSkip &&
				r.FinishedAt.Before(until) {
				o.violate("%s: skipped at %s for a lock, and by %s is to wait until %s", told(r),
					r.FinishedAt, policy, until)
			}
		}
	}
}

// waitsUntil is when a firing gives way at the earliest, by a policy that has it
// wait on for a lock.
func (o *oracle) waitsUntil(job *jobs.Job, r *jobs.Record, policy jobs.Misfire) time.Time {
	n := 1
	if policy == jobs.MisfireRunAll {
		n = limitOf(job)
	}
	_, until := job.Schedule.NextStart(r.Job,
		r.ScheduledAt.Add(job.Schedule.Delay(r.Job, r.ScheduledAt)))
	for ; n > 1 && !until.IsZero(); n-- {
		_, until = job.Schedule.NextStart(r.Job, until)
	}
	old := r.ScheduledAt.Add(job.MisfireBy.MaxAge)
	if job.MisfireBy.MaxAge > 0 && (until.IsZero() || old.Before(until)) {
		until = old
	}
	return until.Add(-o.Margin)
}

// judgeBacklog asks that firings don't pile up: of a job no more wait in the end
// than one in its queue and one behind it, and what it has run late.
func (o *oracle) judgeBacklog() {
	for name, records := range o.byJob {
		waiting, most := 0, 2
		for _, r := range records {
			if r.State == jobs.Waiting && r.Attempt <= 1 {
				waiting++
			}
		}
		job := &o.Jobs[name].Forces[len(o.Jobs[name].Forces)-1].Job
		for _, cause := range []jobs.Reason{jobs.ReasonMisfire, jobs.ReasonNoWorker,
			jobs.ReasonPaused, jobs.ReasonLockHeld} {
			if policyOf(job, cause) == jobs.MisfireRunAll {
				most = 2 + limitOf(job)
			}
		}
		if waiting > most {
			o.violate("%s: %d of its firings wait in the end, at most %d should", name, waiting,
				most)
		}
	}
}
