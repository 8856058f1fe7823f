package storage

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Dependent is a job that runs after others: see schedule.Schedule.After. It is due at a scheduled
// time when all its dependencies have succeeded for this time.
type Dependent struct {
	Job     string
	Version int64 // of the caller's definition
	Group   string
	After   []string // its dependencies, at least one
	// Before limits OpenFirings to earlier scheduled times; zero: no limit.
	Before time.Time
}

// OpenFiring is a scheduled time for which a dependent has no run, and can still get one. Each
// dependency has a scheduled run or a recovery for this time that waits, runs or has succeeded.
type OpenFiring struct {
	ScheduledAt time.Time
	// Ready is when the last dependency succeeded; zero if one has not.
	Ready time.Time
}

// OpenFirings is the state of a dependent.
type OpenFirings struct {
	CheckedUntil     time.Time                   // the dependent's own cursor
	ActiveDefinition map[string]ActiveDefinition // of each known dependency
	// after CheckedUntil and before Dependent.Before, sorted; the last MaxBatch
	ScheduledTimes []OpenFiring
	Older          bool // there may be older open firings after CheckedUntil
}

// DependentFiring is a due firing of a dependent.
type DependentFiring struct {
	Firing  Firing
	Run     uuid.UUID // made by the caller
	Version int64     // not added if another definition is active
	Detail  string
}

// Dependents finds and adds the firings of dependents.
type Dependents interface {
	// OpenFirings returns the open firings of each dependent, by name. It leaves out paused
	// dependents, and those with another active definition.
	OpenFirings(ctx context.Context, dependents []Dependent) (map[string]OpenFirings, error)
	// AddDependents adds a waiting run for each firing without a run, with reasons.After.
	AddDependents(ctx context.Context, firings []DependentFiring) error
}

// OpenFiringsOf assembles the result of Dependents.OpenFirings from active definitions and open
// firings, both by job. Dependents without an entry in scheduledTimes are left out.
func OpenFiringsOf(dependents []Dependent, activeDefinitions map[string]ActiveDefinition,
	scheduledTimes map[string][]OpenFiring) map[string]OpenFirings {
	all := make(map[string]OpenFirings, len(scheduledTimes))
	for _, f := range dependents {
		open, reported := scheduledTimes[f.Job]
		if !reported {
			continue
		}
		o := OpenFirings{CheckedUntil: activeDefinitions[f.Job].CheckedUntil,
			ActiveDefinition: map[string]ActiveDefinition{}, ScheduledTimes: open,
			Older: len(open) == MaxBatch}
		for _, name := range f.After {
			if in, known := activeDefinitions[name]; known {
				o.ActiveDefinition[name] = in
			}
		}
		all[f.Job] = o
	}
	return all
}
