package simulation

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// judgeOperators checks that the answers to operators were true.
func (o *oracle) judgeOperators() {
	o.judgePauses()
	o.judgeTriggers()
	o.judgeParams()
	o.judgeCancels()
	o.judgeReleases()
	o.judgeChanges()
	o.judgeDrains()
}

// judgePauses checks that no scheduled run of a paused job started.
func (o *oracle) judgePauses() {
	for i := range o.Evidence.Records {
		r := &o.Evidence.Records[i]
		if r.StartedAt == nil || r.Key != "" {
			continue
		}
		p := o.pausedAt(r.Job, *r.StartedAt)
		if p != nil && r.StartedAt.Sub(p.At) > o.Evidence.PauseTakes {
			o.violate("%s: started at %s, paused since %s", describe(r), r.StartedAt, p.At)
		}
	}
}

// pausedAt returns a pause that covered the job then, or nil.
func (o *oracle) pausedAt(job string, at time.Time) *storage.Pause {
	group := ""
	if h := o.Jobs[job]; h != nil {
		if f := h.at(at); f != nil {
			group = f.Job.Group
		}
	}
	return o.pausedIn(job, group, at)
}

// pausedIn is pausedAt for a job of that group.
func (o *oracle) pausedIn(job, group string, at time.Time) *storage.Pause {
	for i, p := range o.Pauses {
		if p.Covers(job, group) && at.After(p.At) &&
			(p.ResumedAt == nil || at.Before(*p.ResumedAt)) {
			return &o.Pauses[i]
		}
	}
	return nil
}

// judgeTriggers checks that a key is one run for all its triggers, and that no run of a paused job
// was answered unless the trigger permits it.
func (o *oracle) judgeTriggers() {
	type key struct{ job, key string }
	first := map[key]Triggered{}
	for _, t := range o.Triggered {
		k := key{t.Request.Job, t.Request.Key}
		before, again := first[k]
		switch {
		case again && before.Run != t.Run && !o.recovered(t.Run):
			o.violate("key %s of %s: two answers, run %s and run %s", k.key, k.job,
				before.Run, t.Run)
		case again && (!before.Request.At.Equal(t.Request.At) ||
			before.Request.Delay != t.Request.Delay):
			o.violate("key %s of %s: answered for %s and %s, then for %s and %s", k.key, k.job,
				before.Request.At, before.Request.Delay, t.Request.At, t.Request.Delay)
		case again && !bytes.Equal(before.Request.Params, t.Request.Params):
			o.violate("key %s of %s: answered with params %s, then with %s", k.key, k.job,
				before.Request.Params, t.Request.Params)
		case again:
			continue
		}
		first[k] = t
		r := o.byRun[t.Run]
		if r == nil || r.Key != k.key || r.Job != k.job {
			o.violate("run %s was the answer to a trigger of %s with key %s: %v", t.Run, k.job,
				k.key, r)
			continue
		}
		if r.Recovery == 0 && !t.Request.SameBegin(*r) {
			o.violate("%s: triggered at %s for %s and %s", describe(r), r.CreatedAt, t.Request.At,
				t.Request.Delay)
		}
		if r.StartedAt != nil && r.StartedAt.Before(r.ScheduledAt) {
			o.violate("%s: started at %s, triggered for %s", describe(r), r.StartedAt,
				r.ScheduledAt)
		}
		if p := o.pausedAt(k.job, r.CreatedAt); p != nil && !t.Request.EvenPaused {
			o.violate("%s: triggered although paused since %s", describe(r), p.At)
		}
	}
}

// recovered reports whether the run is a recovery: a repeated trigger is answered with the last run
// of its firing.
func (o *oracle) recovered(run uuid.UUID) bool {
	r := o.byRun[run]
	return r != nil && r.Recovery > 0
}

// judgeParams checks that each call had the params of its job, overridden by those of its trigger.
func (o *oracle) judgeParams() {
	moments := map[firing]string{}
	for _, t := range o.Triggered {
		var w Work
		if err := json.Unmarshal(t.Request.Params, &w); err == nil {
			moments[firing{t.Request.Job, 0, t.Request.Key, 0}] = w.Moment
		}
	}
	own := map[*jobs.Job]Work{}
	for _, x := range o.Evidence.Executions {
		if x.Process == 0 {
			continue
		}
		want, known := own[x.Definition]
		if !known {
			if err := json.Unmarshal(x.Definition.Params, &want); err != nil {
				o.violate("%s: params %s: %v", x.Job, x.Definition.Params, err)
			}
			own[x.Definition] = want
		}
		if x.Key != "" {
			want.Moment = moments[firing{x.Job, 0, x.Key, 0}]
		}
		if x.Work != want {
			o.violate("%s of %s (key %q): ran with params %+v, it has %+v", x.Job, x.ScheduledAt,
				x.Key, x.Work, want)
		}
	}
}

// judgeCancels checks that each cancelled run ended within the time that a replica needs to learn
// of the cancel.
func (o *oracle) judgeCancels() {
	for id, at := range o.Cancelled {
		if o.byRun[id] == nil {
			o.violate("run %s was cancelled, and there is none", id)
		}
		for _, x := range o.calls[id] {
			if end := later(at, x.Begun).Add(o.Obeyed); o.Obeyed > 0 && !x.Stubborn &&
				x.Acted.After(end) && o.quiet(at, x.Acted) {
				o.violate("%s of %s: was cancelled at %s, and acted at %s", x.Job, x.ScheduledAt,
					at, x.Acted)
			}
		}
	}
}

// judgeReleases checks that released locks stayed released.
func (o *oracle) judgeReleases() {
	for id, at := range o.Released {
		r := o.byRun[id]
		if r == nil || r.State != jobs.Lost || r.Reason != reasons.Released {
			o.violate("run %s, whose lock was released, is %v", id, r)
			continue
		}
		for _, x := range o.calls[id] {
			if x.Acted.After(at) {
				o.violate("%s: its lock was released at %s, and it acted at %s", describe(r), at,
					x.Acted)
			}
		}
	}
}

// judgeChanges checks that one of several concurrent changes of an added job won, that the winning
// definition became active within the time that replicas need to learn of it, and that nothing of a
// removed job started.
func (o *oracle) judgeChanges() {
	winners := map[int]int{}
	next := map[int]time.Time{} // by index of a change: the time of the job's next change
	last := map[string]time.Time{}
	for i := len(o.Evidence.Changes) - 1; i >= 0; i-- {
		c := o.Evidence.Changes[i]
		if c.Lost {
			winners[c.Round] += 0
			continue
		}
		winners[c.Round]++
		next[i], last[c.Job] = last[c.Job], c.Sent
	}
	for round, n := range winners {
		if n != 1 {
			o.violate("of those who changed a job at once (round %d) %d won", round, n)
		}
	}
	for i, c := range o.Evidence.Changes {
		if c.Lost {
			continue
		}
		over := next[i]
		if over.IsZero() {
			over = o.Until.Add(100 * 365 * 24 * time.Hour)
		}
		if c.Description == "" {
			o.judgeRemoved(c, over)
			continue
		}
		if heard := c.Answered.Add(o.Obeyed); o.Obeyed > 0 && over.After(heard) &&
			o.quiet(c.Sent, heard) && !o.activeDefinitions(c, heard) {
			o.violate("%s: %s was put at %s, and is not active at %s", c.Job, c.Description,
				c.Answered, heard)
		}
	}
}

func (o *oracle) activeDefinitions(c Change, by time.Time) bool {
	h := o.Jobs[c.Job]
	if h == nil {
		return false
	}
	for _, f := range h.between(c.Sent, by) {
		if f.Job.Description == c.Description {
			return true
		}
	}
	return false
}

// judgeRemoved checks that no run of the job started until it was added again.
func (o *oracle) judgeRemoved(c Change, over time.Time) {
	for i := range o.Evidence.Records {
		if r := &o.Evidence.Records[i]; r.Job == c.Job && r.StartedAt != nil &&
			r.StartedAt.After(c.Answered) && r.StartedAt.Before(over) {
			o.violate("%s: started at %s, its job was removed at %s", describe(r), r.StartedAt,
				c.Answered)
		}
	}
}

// judgeDrains checks that no run began in a process while it was drained.
func (o *oracle) judgeDrains() {
	began := map[uint64][]*Execution{}
	for i := range o.Evidence.Executions {
		if x := &o.Evidence.Executions[i]; x.Attempt == 1 {
			began[x.Process] = append(began[x.Process], x)
		}
	}
	for _, d := range o.Drains {
		for _, x := range began[d.Process] {
			if r := o.byRun[x.Run]; r != nil && r.StartedAt != nil && r.StartedAt.After(d.From) &&
				r.StartedAt.Before(d.To) {
				o.violate("%s: started at %s on %s, which was drained from %s to %s", describe(r),
					r.StartedAt, x.Replica, d.From, d.To)
			}
		}
	}
}
