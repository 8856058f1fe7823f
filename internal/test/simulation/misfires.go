package simulation

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// checked is the result of one misfire check of one job, by scheduled time.
type checked struct {
	*oracle
	job       *jobs.Job
	at        time.Time
	decisions []Decision
}

// judgeMisfires checks that the policy for the true cause decided each scheduled time that was not
// started in time.
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
	once, all := 0, 0                                // late runs by policy
	for _, d := range slices.Backward(c.decisions) { // the latest first
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
		case d.Reason == reasons.Superseded &&
			(policy != jobs.MisfireRunOnce || once == 0 && !c.waits(d)):
			c.violateOf(d, "is superseded (%s) by nothing: %s", cause, d.Detail)
		case d.State == jobs.Missed && d.Reason != reasons.Superseded && !tooOld &&
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

// cause returns why a scheduled time was not started, as the store recorded it. It compares the
// record with the evidence.
func (c *checked) cause(d Decision) jobs.Reason {
	if len(c.job.Schedule.After()) > 0 { // its causes depend on the ends of its dependencies
		if strings.Contains(d.Detail, " was paused by ") {
			return reasons.Paused
		}
		return reasons.Misfire
	}
	start := d.Firing.ScheduledAt.Add(c.job.Schedule.Delay(d.Firing.Job, d.Firing.ScheduledAt))
	paused := false // including pauses of the group that it had at the check
	for _, at := range []time.Time{d.Firing.ScheduledAt, start} {
		paused = paused || c.pausedIn(d.Firing.Job, c.job.Group, at.Add(time.Microsecond)) != nil
	}
	switch up := c.upThrough(d.Firing.Job, start, start.Add(c.job.MisfireThreshold)); {
	case d.Reason == reasons.Deadline, d.Reason == reasons.Superseded:
	case (d.Reason == reasons.Paused) != paused:
		c.violateOf(d, "is recorded as %s, it was paused: %v", d.Reason, paused)
	case d.Reason == reasons.Misfire && up == yes, d.Reason == reasons.NoWorker && up == no:
		c.violateOf(d, "is recorded as %s, a replica was up from then on: %v", d.Reason, up == yes)
	case d.Reason == reasons.NoWorker:
		if idle := c.idleThrough(d.Firing.Job, start,
			start.Add(c.job.MisfireThreshold)); idle != "" {
			c.violateOf(d, "is recorded as %s, and %s had workers free all the time", d.Reason,
				idle)
		}
	}
	switch {
	case paused:
		return reasons.Paused
	case strings.Contains(d.Detail, "replicas were up"):
		return reasons.NoWorker
	default:
		return reasons.Misfire
	}
}

// The answers to questions about facts that may be unknown.
type answer int

const (
	perhaps answer = iota
	yes
	no
)

// upThrough reports whether the store knew, at the check, of a replica that had the job and was
// live during the whole interval. For a replica without the job the store may not know.
func (c *checked) upThrough(job string, from, until time.Time) answer {
	found := no
	for _, l := range c.Sessions {
		took, has := l.Took[job]
		switch {
		case l.From.After(from):
		case (!has || took.After(from)) && l.LastHeartbeat.Add(l.TTL).After(from):
			found = perhaps
		case !l.LastHeartbeat.Before(until) && (l.Gone.IsZero() || l.Gone.After(c.at)):
			return yes
		case !l.LastHeartbeat.Add(l.TTL).Before(until):
			found = perhaps // the session may have ended after its last heartbeat
		}
	}
	return found
}

// idleThrough returns the name of a replica that could have started a firing of the job and had
// free workers during the whole interval, or "". It returns "" if a fault hindered replicas, the
// job was paused for a part of the interval, its group has a limit per replica, or the active
// definition changed.
func (c *checked) idleThrough(job string, from, until time.Time) string {
	wide, end := from.Add(-c.Margin), until.Add(c.Margin)
	if c.Workers == 0 || c.job.GroupLimits.PerReplica > 0 ||
		len(c.Jobs[job].between(wide, end)) != 1 ||
		anyMeets(c.Hindered, wide, end) || c.pausedWithin(job, c.job.Group, wide, end) {
		return ""
	}
	for _, l := range c.Sessions {
		took, has := l.Took[job]
		if has && !took.After(wide) && !l.From.After(wide) && !l.LastHeartbeat.Before(until) &&
			c.atWork(l.Replica, from, until) < c.Workers {
			return l.Replica
		}
	}
	return ""
}

// atWork returns the largest number of concurrent handlers of a replica in the interval. An end at
// the same time as a begin counts as concurrent.
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

// waits reports whether another scheduled run of the job, or the recovery of one, may have waited
// at the check.
func (c *checked) waits(d Decision) bool {
	return slices.ContainsFunc(c.Evidence.Records, func(r storage.Record) bool {
		return r.Job == d.Firing.Job && r.Key == "" && !r.ScheduledAt.Equal(d.Firing.ScheduledAt) &&
			!r.CreatedAt.After(c.at) &&
			(r.FinishedAt == nil || !r.FinishedAt.Before(c.at.Add(-c.Margin)))
	})
}

// policyOf returns the job's policy for a cause according to the documentation.
func policyOf(job *jobs.Job, cause jobs.Reason) jobs.Misfire {
	policy, otherwise := job.Misfire, jobs.MisfireRunOnce
	switch cause {
	case reasons.NoWorker:
		policy = job.MisfireBy.NoWorker
	case reasons.Paused:
		policy, otherwise = job.MisfireBy.Paused, jobs.MisfireSkip
	case reasons.LockHeld:
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

// judgeLocksHeld checks that a firing gave up its wait for a lock as the job's policy says.
func (o *oracle) judgeLocksHeld() {
	for i := range o.Evidence.Records {
		r := &o.Evidence.Records[i]
		h := o.Jobs[r.Job]
		if r.State != jobs.Skipped || r.Key != "" || r.Recovery > 0 || h == nil {
			continue
		}
		periods := h.between(r.ScheduledAt.Add(-o.Margin), *r.FinishedAt)
		if len(periods) != 1 || len(periods[0].Job.Schedule.After()) > 0 {
			// it may have waited under another definition; a dependent's scheduled time is that of
			// its dependencies
			continue
		}
		job := &periods[0].Job
		policy := policyOf(job, reasons.LockHeld)
		switch r.Reason {
		case reasons.Superseded:
			if policy == jobs.MisfireSkip {
				o.violate("%s: waited on for a lock until it was superseded, and is to be skipped",
					describe(r))
			}
		case reasons.LockHeld, reasons.OlderWaiter:
			if until := o.waitsUntil(job, r, policy); policy != jobs.MisfireSkip &&
				r.FinishedAt.Before(until) {
				o.violate("%s: skipped at %s for a lock, and by %s is to wait until %s",
					describe(r), r.FinishedAt, policy, until)
			}
		}
	}
}

// waitsUntil returns the earliest time at which a firing may give up under a policy that makes it
// wait for a lock.
func (o *oracle) waitsUntil(job *jobs.Job, r *storage.Record, policy jobs.Misfire) time.Time {
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

// judgeBacklog checks that firings do not accumulate: at most two runs of a job wait in the end,
// and it has run few of them late.
func (o *oracle) judgeBacklog() {
	for name, records := range o.byJob {
		waiting, most := 0, 2
		for _, r := range records {
			if r.State == jobs.Waiting && r.Attempt <= 1 {
				waiting++
			}
		}
		job := &o.Jobs[name].Periods[len(o.Jobs[name].Periods)-1].Job
		for _, cause := range []jobs.Reason{reasons.Misfire, reasons.NoWorker,
			reasons.Paused, reasons.LockHeld} {
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
