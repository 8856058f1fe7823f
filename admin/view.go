package admin

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// View reads from the store what the API answers, for a program that is no server, such as the
// command line. Times are in UTC, resources have display names, and lists are not nil. Each status
// stands alone: it has every active problem and no ended ones. A View is safe for concurrent use.
type View struct {
	reader *reader
	local  cluster.Local
}

// NewView returns a view. Options.Store is required. The view also uses StoreName, Rules,
// Operations, Advisory, Memcached, Upcoming, ScheduledTimes and Explain.
func NewView(o Options) *View {
	local := o.local()
	local.Hold = nil
	return &View{newReader(o), local}
}

// overviewTimeout bounds the queries of an overview.
const overviewTimeout = 10 * time.Second

// Overview returns the state of the cluster. If the store does not answer, the status of the
// cluster lists this as a problem.
func (v *View) Overview(ctx context.Context) Overview {
	bounded, cancel := context.WithTimeout(ctx, overviewTimeout)
	defer cancel()
	snap, err := v.reader.Snapshot(bounded)
	var o Overview
	if err == nil {
		o, err = v.reader.Overview(bounded, snap)
	}
	if err != nil {
		return unreachable(ctx, v.local, err)
	}
	o.Memcached = v.local.Memcached()
	o.Status = v.local.Status(ctx, snap, "", nil)
	return o
}

// UnreachableOverview returns the overview of a program that could not open the store. Of the
// options it uses StoreName, Memcached and Rules.
func UnreachableOverview(ctx context.Context, o Options, err error) Overview {
	local := o.local()
	local.Hold = nil
	return unreachable(ctx, local, err)
}

func unreachable(ctx context.Context, local cluster.Local, err error) Overview {
	o := cluster.EmptyOverview()
	o.Stale, o.Error, o.Memcached = true, err.Error(), local.Memcached()
	o.Status = local.Status(ctx, cluster.Snapshot{}, o.Error, nil)
	return o
}

// Jobs returns all jobs by name.
func (v *View) Jobs(ctx context.Context) ([]Job, error) {
	now, err := v.reader.Now(ctx)
	if err != nil {
		return nil, err
	}
	all := []Job{}
	filter := storage.JobFilter{Limit: storage.MaxBatch}
	for {
		list, err := v.reader.lists.jobs(ctx, now, filter)
		if err != nil {
			return nil, err
		}
		if all = append(all, list...); len(list) < filter.Limit {
			return all, nil
		}
		filter.After = list[len(list)-1].Name
	}
}

// Job returns one job.
func (v *View) Job(ctx context.Context, name string) (Job, error) {
	now, err := v.reader.Now(ctx)
	if err != nil {
		return Job{}, err
	}
	d, err := v.reader.job(ctx, now, name)
	return d.Job, err
}

// Locks returns all locks by resource, without those on job names, each with the state of its
// advisory lock.
func (v *View) Locks(ctx context.Context) ([]Lock, error) {
	set, err := v.reader.lock.Locks(ctx)
	return set.Locks, err
}

// Replicas returns live replicas and those that ended in the last hour, by name, with their runs.
func (v *View) Replicas(ctx context.Context) ([]Replica, error) {
	snap, err := v.reader.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return v.reader.BusyReplicas(ctx, snap)
}

// Databases returns the databases of jobs as the live replicas see them, by name.
func (v *View) Databases(ctx context.Context) ([]Database, error) {
	snap, err := v.reader.Snapshot(ctx)
	return cluster.DatabasesOf(snap.Replicas), err
}

// Runs returns runs without output, newest first.
func (v *View) Runs(ctx context.Context, f storage.RunFilter) ([]storage.Record, error) {
	return v.reader.Runs(ctx, f)
}

// Run returns a run with its attempts, and the output of the last.
func (v *View) Run(ctx context.Context, id uuid.UUID) (run RunDetail, err error) {
	if run.Record, err = v.reader.Run(ctx, id); err != nil {
		return run, err
	}
	run.Attempts, err = v.reader.Attempts(ctx, run.Record)
	return run, err
}

// Attempt returns an attempt of a run with its output.
func (v *View) Attempt(ctx context.Context, run uuid.UUID, n int) (storage.RunAttempt, error) {
	record, err := v.reader.Run(ctx, run)
	if err != nil {
		return storage.RunAttempt{}, err
	}
	return v.reader.Attempt(ctx, record, n)
}

// Pauses returns the active pauses.
func (v *View) Pauses(ctx context.Context) ([]storage.Pause, error) {
	return v.reader.ActivePauses(ctx)
}

// Audit returns a page of the audit log.
func (v *View) Audit(ctx context.Context, f storage.AuditFilter) ([]storage.Audited, error) {
	return audited(ctx, v.reader.ops, f)
}

// Undelivered returns failed deliveries, newest first; none if the store does not support webhooks
// (storage.Outbox).
func (v *View) Undelivered(ctx context.Context,
	f storage.UndeliveredFilter) ([]storage.Undelivered, error) {
	list, _, err := v.reader.undelivered(ctx, f)
	return list, err
}

// Explain explains a job's firing at a time in the format of schedule.ParseTime. The runs of the
// explanation have no params.
func (v *View) Explain(ctx context.Context, job, at string) (explain.Explanation, error) {
	return v.reader.explanation(ctx, job, at)
}

// PlainRun returns a run in the form that the API returns.
func PlainRun(r storage.Record) storage.Record { return records.Plain(r) }

// PlainTriggered returns the result of a trigger in the form that the API returns.
func PlainTriggered(t storage.Triggered) storage.Triggered { return plainTriggered(t) }

// PlainPause returns a pause in the form that the API returns.
func PlainPause(p storage.Pause) storage.Pause { return cluster.PlainPause(p) }
