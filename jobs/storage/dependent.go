package storage

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Dependent is a job that runs after others: it is due when all of them have succeeded for one of
// their scheduled times (schedule.Schedule.After).
type Dependent struct {
	Job     string
	Version int64    // while another version is active, OpenFirings leaves out the dependent
	Group   string   // while the group is paused, OpenFirings leaves out the dependent
	After   []string // its dependencies, at least one
}

// OpenFiring is a scheduled time for which a dependent has no run yet, but can still get one: each
// dependency has a run for this time that waits, runs or has succeeded. That run may be a recovery,
// but not a triggered run.
type OpenFiring struct {
	ScheduledAt time.Time
	// Ready is when the last dependency succeeded; zero if not all have.
	Ready time.Time
}

// OpenFirings is the state of a dependent. The store reads the cursors and the scheduled times at
// one point in time, or the cursors first.
type OpenFirings struct {
	CheckedUntil     time.Time                   // the dependent's own cursor
	ActiveDefinition map[string]ActiveDefinition // of each known dependency
	// after the dependent's cursor, sorted; the last MaxBatch
	ScheduledTimes []OpenFiring
}

// DependentFiring is a firing of a dependent that is due.
type DependentFiring struct {
	Firing  Firing
	Run     uuid.UUID // made by the caller
	Version int64     // not added if another definition is active
	Detail  string
}

// Dependents finds and adds the firings of jobs that run after others.
type Dependents interface {
	// OpenFirings returns the open firings of each dependent, by name. It leaves out dependents
	// with another active definition, and those that are paused, by themselves, with their group or
	// with everything. It changes nothing.
	OpenFirings(ctx context.Context, dependents []Dependent) (map[string]OpenFirings, error)
	// AddDependents adds a waiting run with reasons.After for each of at most MaxBatch firings
	// without a run. Any replica may adopt it.
	AddDependents(ctx context.Context, firings []DependentFiring) error
}

// OpenFiringsOf returns the result of OpenFirings. The argument activeDefinitions has the active
// definitions of the dependents and of their dependencies. The argument scheduledTimes has the open
// firings of each dependent, except the dependents that OpenFirings leaves out (see Dependents).
// The keys of both are names of jobs. The function is for stores.
func OpenFiringsOf(dependents []Dependent, activeDefinitions map[string]ActiveDefinition,
	scheduledTimes map[string][]OpenFiring) map[string]OpenFirings {
	all := make(map[string]OpenFirings, len(scheduledTimes))
	for _, f := range dependents {
		open, reported := scheduledTimes[f.Job]
		if !reported {
			continue
		}
		o := OpenFirings{CheckedUntil: activeDefinitions[f.Job].CheckedUntil,
			ActiveDefinition: map[string]ActiveDefinition{}, ScheduledTimes: open}
		for _, name := range f.After {
			if in, known := activeDefinitions[name]; known {
				o.ActiveDefinition[name] = in
			}
		}
		all[f.Job] = o
	}
	return all
}
