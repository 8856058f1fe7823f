package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// dependentCursorEvery is how far a dependent's cursor may lag behind its decisions. The cursor is
// written no more often, unless there is something to record.
const dependentCursorEvery = time.Minute

// dependents starts the runs of jobs that run after others.
type dependents struct {
	store    storage.Dependents
	table    *cronTable
	clock    *clusterClock
	misfires *misfireChecker
	wakes    *wakes
	log      zerolog.Logger
}

// add adds the runs of dependents whose dependencies have succeeded. The runs are added
// as waiting, once in the cluster, and replicas adopt them. The misfire policy decides on those
// that are overdue.
func (d *dependents) add(ctx context.Context) {
	fired, entries := d.table.dependents()
	d.wakes.dependsOn(fired)
	if len(fired) == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	openings, failed, err := d.openFirings(bounded, fired)
	if err != nil {
		if ctx.Err() == nil {
			d.log.Warn().Err(err).Msg("read open firings of dependents failed")
		}
		return
	}
	now := d.clock.now()
	decisions := make(map[string]dependentDecision, len(openings))
	var begin []storage.DependentFiring
	for _, f := range fired {
		open, reported := openings[f.Job]
		if !reported {
			continue
		}
		e := entries[f.Job]
		decision := e.decideDependent(open, !failed, d.table.settled(e, open, now), now)
		decisions[f.Job] = decision
		for _, scheduledAt := range decision.begin {
			begin = append(begin, storage.DependentFiring{
				Firing:  storage.Firing{Job: f.Job, ScheduledAt: scheduledAt},
				Run:     uuid.Must(uuid.NewV7()),
				Version: f.Version,
				Detail:  strings.Join(f.After, ", ") + " succeeded",
			})
		}
	}
	for page := range slices.Chunk(begin, storage.MaxBatch) {
		if err := d.store.AddDependents(bounded, page); err != nil {
			if ctx.Err() == nil {
				d.log.Warn().Err(err).Int("runs", len(page)).
					Msg("add runs of dependents failed, retrying")
			}
			return
		}
	}
	d.decide(bounded, fired, entries, decisions)
}

// openFirings returns the open firings of the dependents, by name. The store returns a page of the
// newest ones. openFirings asks for older pages for at most half of batchTimeout, so that time is
// left to decide. It returns what it has read until then, or until an older page has failed.
func (d *dependents) openFirings(ctx context.Context,
	fired []storage.Dependent) (all map[string]storage.OpenFirings, failed bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, batchTimeout/2)
	defer cancel()
	all, err = d.store.OpenFirings(ctx, fired)
	for page := all; err == nil && bounded.Err() == nil; {
		var rest []storage.Dependent
		for _, f := range fired {
			if open := page[f.Job]; open.Older {
				f.Before = open.ScheduledTimes[0].ScheduledAt
				rest = append(rest, f)
			}
		}
		if len(rest) == 0 {
			break
		}
		var noOlder error
		if page, noOlder = d.store.OpenFirings(bounded, rest); noOlder != nil {
			if failed = bounded.Err() == nil; failed {
				d.log.Warn().Err(noOlder).Int("jobs", len(rest)).
					Msg("read older open firings of dependents failed")
			}
			break
		}
		for name, older := range page {
			open := all[name]
			open.ScheduledTimes = append(older.ScheduledTimes, open.ScheduledTimes...)
			open.Older = older.Older
			all[name] = open
		}
	}
	return all, failed, err
}

// dependents returns the dependents that this replica fires, by name, and their entries.
func (t *cronTable) dependents() ([]storage.Dependent, map[string]*entry) {
	var dependents []storage.Dependent
	entries := map[string]*entry{}
	for _, e := range t.allAfter() {
		if !e.activeVersion.stale() {
			dependents = append(dependents,
				storage.Dependent{Job: e.Name, Version: e.activeVersion.own(),
					Group: e.Group,
					After: e.Schedule.After()})
			entries[e.Name] = e
		}
	}
	return dependents, entries
}

// allAfter returns the entries that start after other jobs, by name. The caller must not change the
// list.
func (t *cronTable) allAfter() []*entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byName()
	return t.after
}

// settled returns the time up to which all scheduled times of the dependencies of e have a run or a
// record. A dependency gets no further scheduled time up to then, so e is not due at a time for
// which a dependency has neither. After its cursor a job has no scheduled time until the next one
// of its active schedule. This replica knows that schedule only if it has the active definition.
func (t *cronTable) settled(e *entry, open storage.OpenFirings, now time.Time) time.Time {
	until := now.Truncate(time.Microsecond)
	for _, name := range e.Schedule.After() {
		activeDefinitions, known := open.ActiveDefinition[name]
		if !known {
			// it was never registered, or was deleted from the history: nothing is settled
			return open.CheckedUntil
		}
		settled := activeDefinitions.CheckedUntil
		if p := t.get(name); p != nil && len(p.Schedule.After()) == 0 &&
			p.activeVersion.own() == activeDefinitions.Version {
			if next := p.Schedule.Next(settled); next.IsZero() {
				settled = until
			} else {
				settled = next.Add(-time.Microsecond)
			}
		}
		if settled.Before(until) {
			until = settled
		}
	}
	return until
}

// dependentDecision is the decision on the open firings of a dependent.
type dependentDecision struct {
	begin   []time.Time             // to start now
	overdue []time.Time             // left to the misfire policy, sorted
	ready   map[time.Time]time.Time // by scheduled time: since when the overdue ones could start
	// the cursor: with these, all scheduled times up to here are decided
	until  time.Time
	jumped bool // the cursor passes older open firings that were not read, late or not
}

// decideDependent decides on the open firings at now. A firing starts when the last dependency of e
// has succeeded, or later by its jitter. If mayJump is false, the cursor stays before firings that
// were not read, because the next round may read them.
func (e *entry) decideDependent(open storage.OpenFirings, mayJump bool, settled,
	now time.Time) dependentDecision {
	f := dependentDecision{until: settled, ready: map[time.Time]time.Time{}}
	for _, o := range open.ScheduledTimes {
		if _, excluded := e.Schedule.ExcludedAt(o.ScheduledAt); excluded {
			continue
		}
		delay := e.Schedule.Delay(e.Name, o.ScheduledAt)
		start := o.Ready.Add(delay)
		if late := now.Sub(start); !o.Ready.IsZero() && late > e.MisfireThreshold {
			f.overdue, f.ready[o.ScheduledAt] = append(f.overdue, o.ScheduledAt), start
			continue
		}
		if !o.Ready.IsZero() && (delay == 0 || !start.After(now)) {
			f.begin = append(f.begin, o.ScheduledAt)
		}
		if !f.until.Before(o.ScheduledAt) {
			f.until = o.ScheduledAt.Add(-time.Microsecond)
		}
	}
	if open.Older && !mayJump {
		f.until = open.CheckedUntil
	}
	f.leaveLater(e.misfireRecords())
	f.jumped = open.Older && mayJump && len(f.overdue) > e.misfireRecords()
	if open.Older && !f.jumped {
		f.until = open.CheckedUntil // otherwise no record would count the firings not read
	}
	return f
}

// leaveLater removes the overdue firings that the cursor does not pass, if more firings are overdue
// than get a record. Otherwise the next round would find them again, and apply the policy twice.
// They are decided when the open firing that stops the cursor has ended.
func (f *dependentDecision) leaveLater(records int) {
	extra := len(f.overdue) - records
	if extra > 0 && f.until.Before(f.overdue[extra-1]) {
		f.overdue = slices.DeleteFunc(f.overdue, f.until.Before)
	}
}

// decide applies the misfire policies to the overdue firings, and moves cursors.
func (d *dependents) decide(ctx context.Context, fired []storage.Dependent,
	entries map[string]*entry, decisions map[string]dependentDecision) {
	var checks []storage.MisfireCheck
	for _, f := range fired {
		decision, reported := decisions[f.Job]
		cursor := entries[f.Job].activeVersion.decidedUntil()
		check := storage.MisfireCheck{Job: f.Job, Group: f.Group, Version: f.Version,
			ScheduledAt: decision.until,
			Until:       decision.until}
		if n := len(decision.overdue); n > 0 {
			check.ScheduledAt, check.Last = decision.overdue[0], decision.overdue[n-1]
		} else if !reported || decision.until.Sub(cursor) < dependentCursorEvery {
			continue
		}
		checks = append(checks, check)
	}
	for page := range slices.Chunk(checks, maxMisfirePage/maxMisfireWeight) {
		_, err := d.misfires.record(ctx, page, entries,
			func(e *entry, c storage.Cursor) []storage.Misfired {
				return e.missedDependents(decisions[e.Name], c, d.clock.now())
			})
		if err != nil {
			if ctx.Err() == nil {
				d.log.Warn().Err(err).Int("jobs", len(page)).
					Msg("check misfires of dependents failed")
			}
			return
		}
	}
}

// missedDependents returns the records of the overdue firings.
func (e *entry) missedDependents(f dependentDecision, c storage.Cursor,
	now time.Time) []storage.Misfired {
	unstarted := slices.DeleteFunc(slices.Clone(f.overdue), func(scheduledAt time.Time) bool {
		_, started := slices.BinarySearchFunc(c.Started, scheduledAt, time.Time.Compare)
		return started || c.Decided(scheduledAt)
	})
	dropped := droppedFirings{jumped: f.jumped}
	if extra := len(unstarted) - e.misfireRecords(); extra > 0 {
		unstarted, dropped.number = unstarted[extra:], extra
	}
	return e.misfired(unstarted, dropped, c, now, f.ready)
}
