package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// bulkItem is a job or a run that a bulk action is about.
type bulkItem struct {
	ID  uuid.UUID       // of the run; Nil: the item is a job
	Run *storage.Record // without params; nil: the store does not have the run
	// Job is the job, or that of the run. If the store does not know it, only its name is set.
	Job       storage.JobView
	Known     bool       // the store knows the job
	OwnParams bool       // the run has params of its own
	Next      *time.Time // scheduled time of the job
	Active    int        // waiting and running runs of the job; 0 if they are not counted
	Reason    string     // why the action leaves it alone, in a sentence
}

// bulkView describes the effect of a bulk action on each item.
type bulkView struct {
	Name       string // of the action
	Matching   bool   // the items match a filter
	Items      []bulkItem
	Acts, Left []bulkItem // items on which the sender of the request acts, and the others
}

// name is the item as an address has it.
func (i bulkItem) name() string {
	if i.ID != uuid.Nil {
		return i.ID.String()
	}
	return i.Job.Name
}

// ItemRun is the id of the run, or "".
func (i bulkItem) ItemRun() string {
	if i.ID == uuid.Nil {
		return ""
	}
	return i.ID.String()
}

func (i bulkItem) target() storage.Target {
	return storage.Target{Kind: storage.TargetJob, Name: i.Job.Name}
}

// Own returns the pause of the job itself, or nil.
func (i bulkItem) Own() *storage.Pause {
	for n := range i.Job.Pauses {
		if i.Job.Pauses[n].Target == i.target() {
			return &i.Job.Pauses[n]
		}
	}
	return nil
}

// needs returns the permissions that an action on the item needs. Params that a run had are hidden
// from people without the permission to view them, so they cannot repeat them unseen.
func (i bulkItem) needs(p permission.Permission) []permission.Permission {
	if i.OwnParams {
		return []permission.Permission{p, permission.ViewParams}
	}
	return []permission.Permission{p}
}

// judge divides the items by what the sender of the request may do. The items are shared with other
// requests and do not change.
func (v *bulkView) judge(ctx context.Context, b bulkAction) {
	for _, item := range v.Items {
		if item.Reason = b.reason(ctx, item); item.Reason == "" {
			v.Acts = append(v.Acts, item)
		} else {
			v.Left = append(v.Left, item)
		}
	}
}

// reason says why the action leaves an item alone, or "". A missing permission comes before all
// that the store knows of a job.
func (b bulkAction) reason(ctx context.Context, i bulkItem) string {
	if b.runs && i.Run == nil {
		return "There is no such run."
	}
	for _, p := range i.needs(b.permission) {
		err := permission.RequireOn(ctx, p, func(context.Context) (permission.Target, error) {
			return permission.Target{Kind: permission.Job, Name: i.Job.Name,
				Group: i.Job.Group}, nil
		})
		if denied := new(permission.DeniedError); errors.As(err, &denied) {
			return fmt.Sprintf("You do not have the permission %s on this job.", denied.Permission)
		}
		if err != nil {
			return words.Sentence(words.Title(words.OneLine(err.Error(), 300)))
		}
	}
	return b.left(i)
}

func leftByPause(i bulkItem) string {
	switch own := i.Own(); {
	case !i.Known:
		return "There is no such job."
	case own != nil:
		return fmt.Sprintf("The job is paused already, by %s.", words.Cut(own.By, 100))
	}
	return ""
}

func leftByResume(i bulkItem) string {
	switch {
	case !i.Known:
		return "There is no such job."
	case i.Own() == nil && len(i.Job.Pauses) > 0:
		return fmt.Sprintf("The job itself is not paused, but %s is.",
			words.Cut(i.Job.Pauses[0].Target.String(), 100))
	case i.Own() == nil:
		return "The job is not paused."
	}
	return ""
}

func leftByTrigger(i bulkItem) string {
	switch {
	case !i.Known:
		return "There is no such job."
	case i.Job.Removed:
		return "The job was removed."
	case len(i.Job.Pauses) > 0:
		return fmt.Sprintf("Paused: %s. The page of the job can start a run despite a pause.",
			words.Cut(i.Job.Pauses[0].Target.String(), 100))
	}
	return ""
}

func leftByAgain(i bulkItem) string {
	if !i.Run.State.Final() {
		return fmt.Sprintf("The run has not ended, it is %s.", i.Run.State)
	}
	return leftByTrigger(i)
}

func leftByCancel(i bulkItem) string {
	if i.Run.State.Final() {
		return fmt.Sprintf("The run has ended, it is %s.", words.State(i.Run.State))
	}
	return ""
}

// view queries what a bulk action would affect. It does not depend on who asks.
func (s bulkPages) view(ctx context.Context, now time.Time, b bulkAction,
	chosen *bulkSelection) (v bulkView, err error) {
	v = bulkView{Name: b.name, Matching: chosen.filter != nil, Items: slices.Clone(chosen.items)}
	switch {
	case v.Matching && chosen.items == nil:
		v.Items, err = s.matching(ctx, b, *chosen.filter)
	case b.runs:
		err = s.findRuns(ctx, v.Items)
	}
	if err != nil {
		return v, err
	}
	if err := s.findJobs(ctx, v.Items); err != nil || b.runs {
		return v, err
	}
	active, err := s.reader.Runs(ctx, storage.RunFilter{Later: new(false),
		States: []jobs.State{jobs.Waiting, jobs.Running}, Limit: storage.MaxBatch})
	if err != nil {
		return v, err
	}
	counts := make(map[string]int)
	if len(active) < storage.MaxBatch { // or the numbers are not known
		for _, run := range active {
			counts[run.Job]++
		}
	}
	for n := range v.Items {
		item := &v.Items[n]
		item.Active = counts[item.Job.Name]
		if next := s.reader.scheduledTimesOf(item.Job.Name, now, 1); len(next) > 0 {
			item.Next = &next[0]
		}
	}
	return v, nil
}

// findRuns completes runs by their ids.
func (s bulkPages) findRuns(ctx context.Context, items []bulkItem) error {
	for n := range items {
		item := &items[n]
		found, err := s.reader.Store.RunsBetween(ctx, item.ID, item.ID, 1)
		if err != nil {
			return fmt.Errorf("run %s: %w", item.ID, err)
		}
		if len(found) == 0 {
			continue
		}
		*item = itemOfRun(records.Plain(found[0]))
	}
	return nil
}

// findJobs completes jobs by their names.
func (s bulkPages) findJobs(ctx context.Context, items []bulkItem) error {
	wanted := make(map[string]*storage.JobView)
	for _, item := range items {
		if !item.Known && storable(item.Job.Name) {
			wanted[item.Job.Name] = nil
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	views, err := s.reader.Store.ListJobs(ctx, storage.JobFilter{
		Names: slices.Sorted(maps.Keys(wanted)), Limit: maxMatching})
	if err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	for n := range views {
		wanted[views[n].Name] = &views[n]
	}
	for n := range items {
		if view := wanted[items[n].Job.Name]; view != nil {
			items[n].Job, items[n].Known = *view, true
		}
	}
	return nil
}
