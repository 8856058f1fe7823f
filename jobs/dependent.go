package jobs

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Dependent is a job that is due when others have succeeded for a scheduled time of theirs
// (schedule.Schedule.After).
type Dependent struct {
	Job     string
	Version int64    // nothing is told where another definition is active
	Group   string   // nothing is told while it is paused
	After   []string // at least one
}

// OpenFiring is a scheduled time of the jobs that a dependent follows, for which it has no
// run: each of them has a scheduled run for it, a recovery's included, that has
// succeeded, runs or waits.
type OpenFiring struct {
	ScheduledAt time.Time
	// Ready is when the last of them succeeded; zero where one of them has yet to.
	Ready time.Time
}

// OpenFirings is what the store knows of a dependent, as of one moment: what is
// told of cursors may be older than what is told of scheduled times, but not younger.
type OpenFirings struct {
	CheckedUntil     time.Time                   // the dependent's own cursor
	ActiveDefinition map[string]ActiveDefinition // of each job that it follows and that is known
	// behind the dependent's cursor, sorted; the last MaxBatch
	ScheduledTimes []OpenFiring
}

// DependentFiring is a firing of a dependent, whose time has come.
type DependentFiring struct {
	Firing  Firing
	Run     uuid.UUID // made by the caller
	Version int64     // nothing is added where another definition is active
	Detail  string
}

// Dependents makes jobs due that follow others.
type Dependents interface {
	// OpenFirings returns the openings of each dependent, by its name: those left
	// out of which another definition is active, and those that are paused,
	// by themselves, with their group or with everything. It changes nothing.
	OpenFirings(ctx context.Context, dependents []Dependent) (map[string]OpenFirings, error)
	// AddDependents adds a waiting run, that any replica may adopt, for each of at most
	// MaxBatch firings that has no run, with ReasonAfter.
	AddDependents(ctx context.Context, followed []DependentFiring) error
}

// OpenFiringsOf returns what a store found: what is active of jobs, by name, and
// scheduled times of the dependents that are told of. It is for stores.
func OpenFiringsOf(dependents []Dependent, activeDefinitions map[string]ActiveDefinition,
	scheduledTimes map[string][]OpenFiring) map[string]OpenFirings {
	all := make(map[string]OpenFirings, len(scheduledTimes))
	for _, f := range dependents {
		open, told := scheduledTimes[f.Job]
		if !told {
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
