package admin

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/family"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// jobSection is a part of the list of jobs: one job, a family or a group.
type jobSection struct {
	Jobs   []Job
	Family *jobFamily // nil: the section is no family
	Group  *jobGroup  // nil: the section is no group
	// Sorted says that the section is the whole list, which is sorted by more than the name.
	Sorted bool
}

// Folds reports whether the jobs of the section fold.
func (s jobSection) Folds() bool { return s.Family != nil || s.Group != nil }

// Key identifies the section when the list is updated.
func (s jobSection) Key() string {
	switch {
	case s.Family != nil:
		return "family " + s.Family.Name
	case s.Group != nil:
		return "group " + s.Group.Name
	case s.Sorted:
		return "sorted"
	}
	return "job " + s.Jobs[0].Name
}

// jobFamily is jobs that differ only in the end of their names and their resources, as those of one
// for_each do.
type jobFamily struct {
	Job    // what the jobs have in common; the name is the common part and a star
	Jobs   int
	States []familyState // of active runs, or of the last ones
	Open   bool          // the page lists the jobs at first
}

type familyState struct {
	State jobs.State
	Jobs  int
}

// jobSections folds neighbouring jobs that are a family. A family is open if open is set, or if a
// job needs attention.
func jobSections(list []Job, open bool, now time.Time) (sections []jobSection) {
	for len(list) > 0 {
		n, prefix := familyAtStart(list)
		if n < family.MinJobs {
			sections = append(sections, jobSection{Jobs: list[:1:1]})
			list = list[1:]
			continue
		}
		sections = append(sections, jobSection{Jobs: list[:n:n],
			Family: newJobFamily(list[:n], prefix, open, now)})
		list = list[n:]
	}
	return sections
}

// familyAtStart returns how many jobs at the start of the list are a family, and the common part of
// their names.
func familyAtStart(list []Job) (n int, prefix string) {
	return family.AtStart(len(list), func(i int) string { return list[i].Name },
		func(i int) family.Traits {
			j := &list[i]
			return family.Traits{Schedule: j.Schedule, Timezone: j.Timezone, Handler: j.Handler,
				Description: j.Description, Group: j.Group, Source: j.Source}
		})
}

func newJobFamily(list []Job, prefix string, open bool, now time.Time) *jobFamily {
	f := &jobFamily{Job: list[0], Jobs: len(list), Open: open}
	f.Name, f.Resources, f.Outcomes, f.LastRun, f.NextScheduledAt = prefix+"*", nil, nil, nil, nil
	f.Pauses, f.Removed = nil, false
	counts := make(map[jobs.State]int)
	f.NextScheduledAt = nextOf(list)
	for _, job := range list {
		switch {
		case job.active != nil:
			counts[job.active.State]++
		case job.LastRun != nil:
			counts[job.LastRun.State]++
		}
		f.Open = f.Open || needsAttention(job, now)
	}
	order := append([]jobs.State{jobs.Running, jobs.Waiting}, records.UnsuccessfulStates()...)
	for _, state := range append(order, jobs.Succeeded) {
		if n := counts[state]; n > 0 {
			f.States = append(f.States, familyState{state, n})
		}
	}
	return f
}

// nextOf returns the next scheduled time of a job that is not paused, or nil.
func nextOf(list []Job) (next *time.Time) {
	for _, job := range list {
		if at := job.NextScheduledAt; at != nil && len(job.Pauses) == 0 &&
			(next == nil || at.Before(*next)) {
			next = at
		}
	}
	return next
}

// needsAttention reports whether the last run of a job failed, or whether a run waits. Runs for a
// later time do not count.
func needsAttention(job Job, now time.Time) bool {
	return job.LastRun != nil && storage.Failed(job.LastRun.State) ||
		slices.ContainsFunc(job.Outcomes, func(o storage.Outcome) bool {
			return o.State == jobs.Waiting && !o.ScheduledAt.After(now)
		})
}

// rowOf is what the rows of a list have in common.
type rowOf struct {
	Now  time.Time
	Pick bool // rows can be selected
	Acts bool // rows have a column of actions
}

func (v *jobsView) rowOf(now time.Time) rowOf {
	return rowOf{now, v.Bulk.Pause || v.Bulk.Trigger, v.Bulk.Trigger}
}

// familyRow is a family as a row of the list.
type familyRow struct {
	*jobFamily
	rowOf
}

// FamilyRow returns the row of a family.
func (v *jobsView) FamilyRow(now time.Time, f *jobFamily) familyRow {
	return familyRow{f, v.rowOf(now)}
}
