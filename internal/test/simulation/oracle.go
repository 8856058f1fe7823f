package simulation

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// firing identifies a record.
type firing struct {
	job         string
	scheduledAt int64 // in microseconds; 0 where there is a key
	key         string
	recovery    int
}

// oracle is the evidence with its indexes.
type oracle struct {
	*Evidence
	*Report
	records map[firing]*storage.Record
	byRun   map[uuid.UUID]*storage.Record
	byJob   map[string][]*storage.Record // without recoveries, by scheduled time
	calls   map[uuid.UUID][]*Execution
}

// Judge compares the scheduled times with the records and the calls.
func Judge(e *Evidence) *Report {
	o := &oracle{
		Evidence: e, Report: &Report{States: map[jobs.State]int{}, Executions: len(e.Executions)},
		records: map[firing]*storage.Record{},
		byRun:   map[uuid.UUID]*storage.Record{}, byJob: map[string][]*storage.Record{},
		calls: map[uuid.UUID][]*Execution{},
	}
	o.index()
	for name, h := range e.Jobs {
		o.judgeScheduledTimes(name, h)
	}
	o.judgeRecords()
	o.judgeDeadlines()
	o.judgeConflicts()
	o.judgeOrder()
	o.judgeMisfires()
	o.judgeLocksHeld()
	o.judgeBacklog()
	o.judgeOperators()
	return o.Report
}

func (o *oracle) index() {
	for i := range o.Evidence.Records {
		r := &o.Evidence.Records[i]
		f := firing{r.Job, 0, r.Key, r.Recovery}
		if r.Key == "" {
			f.scheduledAt = r.ScheduledAt.UnixMicro()
		}
		if o.records[f] != nil {
			o.violate("%s: two records of one firing: %s and %s", describe(r), r.ID,
				o.records[f].ID)
		}
		o.records[f], o.byRun[r.ID] = r, r
		o.States[r.State]++
		if r.Key == "" && r.Recovery == 0 {
			o.byJob[r.Job] = append(o.byJob[r.Job], r)
		}
		if o.Jobs[r.Job] == nil {
			o.violate("%s: unknown job", describe(r))
		}
	}
	for _, records := range o.byJob {
		slices.SortFunc(records, func(a, b *storage.Record) int {
			return a.ScheduledAt.Compare(b.ScheduledAt)
		})
	}
	for i := range o.Evidence.Executions {
		x := &o.Evidence.Executions[i]
		o.calls[x.Run] = append(o.calls[x.Run], x)
	}
}

// judgeRecords compares each record with the calls of its handler.
func (o *oracle) judgeRecords() {
	for _, x := range o.Evidence.Executions {
		if r := o.byRun[x.Run]; r == nil {
			o.violate("%s of %s: ran as %s, of which there is no record", x.Job, x.ScheduledAt,
				x.Run)
		} else if r.Job != x.Job || !r.ScheduledAt.Equal(
			x.ScheduledAt) || r.Recovery != x.Recovery || r.Key != x.Key {
			o.violate("%s: ran as %s of %s, recovery %d", describe(r), x.Job, x.ScheduledAt,
				x.Recovery)
		}
	}
	for i := range o.Evidence.Records {
		r := &o.Evidence.Records[i]
		if h := o.Jobs[r.Job]; !r.State.Final() && !r.ScheduledAt.After(o.Until) && h != nil &&
			(h.Carried || h.removed()) {
			// otherwise no replica can run it
			o.violate("%s: still %s (%s %s)", describe(r), r.State, r.Reason, r.Detail)
		}
		o.judgeCalls(r)
		o.judgeRecovery(r)
		o.judgeQuiet(r)
		o.judgeStarts(r)
	}
}

// judgeCalls compares a record with the calls of its handler.
func (o *oracle) judgeCalls(r *storage.Record) {
	calls := o.calls[r.ID]
	slices.SortFunc(calls, func(a, b *Execution) int { return cmp.Compare(a.Attempt, b.Attempt) })
	for i, x := range calls {
		switch {
		case x.Attempt != i+1:
			o.violate("%s: call %d of its handler is attempt %d", describe(r), i+1, x.Attempt)
		case i > 0 && (x.Token <= calls[i-1].Token || x.Begun.Before(calls[i-1].Begun)):
			o.violate("%s: attempt %d came before the one before", describe(r), x.Attempt)
		case x.Token > r.Token:
			o.violate("%s: ran under token %d, the record has %d", describe(r), x.Token, r.Token)
		}
	}
	switch r.State {
	case jobs.Skipped, jobs.Missed:
		if len(calls) > 0 {
			o.violate("%s: recorded as %s, and it ran on %s", describe(r), r.State,
				calls[0].Replica)
		}
		if r.Reason == "" {
			o.violate("%s: %s without a reason", describe(r), r.State)
		}
	case jobs.Succeeded:
		if len(calls) == 0 {
			o.violate("%s: recorded as succeeded, and it never ran", describe(r))
		} else if last := calls[len(calls)-1]; last.Err != nil || !last.Ended ||
			last.Token != r.Token {
			o.violate("%s: recorded as succeeded with token %d, its last attempt had %d and "+
				"ended with %v", describe(r), r.Token, last.Token, last.Err)
		}
	case jobs.Failed, jobs.TimedOut:
		if len(calls) == 0 && r.Error == "" {
			o.violate("%s: recorded as %s, and it never ran", describe(r), r.State)
		}
	}
}

// judgeRecovery compares a record with the record that it recovers and with its own recovery.
func (o *oracle) judgeRecovery(r *storage.Record) {
	next := o.records[o.of(r, r.Recovery+1)]
	if r.Recovery > 0 {
		if lost := o.records[o.of(r, r.Recovery-1)]; lost == nil || lost.State != jobs.Lost {
			o.violate("%s: recovers what was not lost: %v", describe(r), lost)
		}
	}
	if r.State != jobs.Lost || r.FinishedAt == nil || r.FinishedAt.After(o.Until) {
		if r.State != jobs.Lost && next != nil {
			o.violate("%s: %s, and recovered", describe(r), r.State)
		}
		return
	}
	h := o.Jobs[r.Job]
	_, cancelled := o.Cancelled[r.ID]
	if h == nil || h.near(*r.FinishedAt, time.Millisecond) || cancelled {
		return
	}
	recovers := func(f *ActivePeriod) bool {
		return f.Job.Recover && !f.Removed && r.Recovery < storage.MaxRecoveries &&
			r.Reason != reasons.Released
	}
	if f := h.at(*r.FinishedAt); f != nil && recovers(f) != (next != nil) {
		o.violate("%s: lost, recovered: %v, recovers: %v", describe(r), next != nil, f.Job.Recover)
	}
}

func (o *oracle) of(r *storage.Record, recovery int) firing {
	f := firing{r.Job, 0, r.Key, recovery}
	if r.Key == "" {
		f.scheduledAt = r.ScheduledAt.UnixMicro()
	}
	return f
}

// judgeQuiet checks what must not happen without faults.
func (o *oracle) judgeQuiet(r *storage.Record) {
	if r.FinishedAt == nil || !o.quietFor(r.Job, r.ScheduledAt, *r.FinishedAt) {
		return
	}
	switch {
	case r.State == jobs.Missed, r.State == jobs.Lost && r.Reason != reasons.Released,
		r.State == jobs.Cancelled && r.Reason != reasons.Cancelled:
		o.violate("%s: %s (%s: %s), without any fault", describe(r), r.State, r.Reason, r.Detail)
	case r.State == jobs.Skipped && r.BlockedBy == nil && r.Reason != reasons.Deadline:
		o.violate("%s: skipped (%s: %s) without a blocker", describe(r), r.Reason, r.Detail)
	}
}

// judgeStarts checks that no run started before its time.
func (o *oracle) judgeStarts(r *storage.Record) {
	h := o.Jobs[r.Job]
	if r.Key != "" || r.StartedAt == nil || h == nil {
		return
	}
	f := h.at(*r.StartedAt)
	if f == nil || h.near(*r.StartedAt, o.Margin+f.Job.Schedule.MaxDelay()) {
		return
	}
	if start := r.ScheduledAt.Add(f.Job.Schedule.Delay(r.Job, r.ScheduledAt)); r.Recovery == 0 &&
		r.StartedAt.Before(start.Add(-o.Margin)) {
		o.violate("%s: started at %s, before its time, %s", describe(r), r.StartedAt, start)
	}
}

// judgeOrder checks that runs that started in time started in the order of their scheduled times,
// if their job does not overlap with itself. Two kinds of jobs are exempt. Runs of dependents start
// in the order in which their dependencies end. If a group is full on one replica, its runs wait
// there while later ones start on another.
func (o *oracle) judgeOrder() {
	for name, records := range o.byJob {
		var before *storage.Record
		for _, r := range records {
			f := o.Jobs[name].at(r.ScheduledAt)
			if r.StartedAt == nil || f == nil || !f.ordered() ||
				r.StartedAt.Sub(r.ScheduledAt) > f.Job.MisfireThreshold {
				continue
			}
			if before != nil && r.StartedAt.Before(*before.StartedAt) &&
				o.quietFor(name, before.ScheduledAt, *before.StartedAt) {
				o.violate("%s: started at %s, before that of %s at %s", describe(r), r.StartedAt,
					before.ScheduledAt, before.StartedAt)
			}
			before = r
		}
	}
}

// ordered reports whether runs of the job that start in time start in the order of their scheduled
// times.
func (f *ActivePeriod) ordered() bool {
	s := f.Job.Schedule
	return !f.Removed && f.Job.Overlap != jobs.OverlapAllow && s.MaxDelay() == 0 &&
		len(s.After()) == 0 && f.Job.GroupLimits.PerReplica == 0
}

// describe returns the name of a record.
func describe(r *storage.Record) string {
	text := r.Job + " of " + r.ScheduledAt.Format("2006-01-02T15:04:05.999999Z07:00")
	if r.Key != "" {
		text += " (key " + r.Key + ")"
	}
	if r.Recovery > 0 {
		text += " (recovery)"
	}
	return text
}
