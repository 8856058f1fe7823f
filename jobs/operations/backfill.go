package operations

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/permission"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// BackfillRequest requests a run for each scheduled time of a job from From to To that has no run
// that succeeded.
type BackfillRequest struct {
	Job      string
	From     time.Time
	To       time.Time // not in the future; zero: now
	Parallel int       // the maximum number of its runs that have not ended; 0 means 1
}

// BackfillPlan is what a backfill would do if it began now.
type BackfillPlan struct {
	Job      string    `json:"job"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Parallel int       `json:"parallel"`
	Runs     int       `json:"runs"`     // scheduled times that would get a run
	LeftOut  int       `json:"left_out"` // those of Times that would be left out
	// Times has the scheduled times, the oldest first. For each hundred that no calendar excludes,
	// it has at most five hundred that one excludes.
	Times []PlannedTime `json:"times"`
}

// PlannedTime is a scheduled time of a plan.
type PlannedTime struct {
	ScheduledAt time.Time `json:"scheduled_at"`
	// LeftOut is why the time would get no run: the state of the Run that it has, or the calendar
	// that excludes it. Otherwise it is "".
	LeftOut string    `json:"left_out,omitempty"`
	Run     uuid.UUID `json:"run,omitzero"`
}

// PlanBackfill returns what the backfill would do. It changes nothing, and needs no permission. It
// returns the *storage.BadInputError that Backfill would return, and storage.ErrNotFound.
func (o *Operations) PlanBackfill(ctx context.Context, r BackfillRequest) (BackfillPlan, error) {
	plan, _, err := o.planBackfill(ctx, r)
	if err != nil {
		return BackfillPlan{}, err
	}
	taken, err := o.options.Lookup.BackfillTaken(ctx, r.Job, plan.From, plan.To)
	if err != nil {
		return BackfillPlan{}, of("job "+r.Job, err)
	}
	runs := make(map[int64]storage.Outcome, len(taken))
	for _, t := range taken {
		runs[t.ScheduledAt.UnixMicro()] = t
	}
	for i := range plan.Times {
		t := &plan.Times[i]
		if run, found := runs[t.ScheduledAt.UnixMicro()]; found && t.LeftOut == "" {
			t.LeftOut, t.Run = string(run.State), run.Run
		}
		if t.LeftOut == "" {
			plan.Runs++
		} else {
			plan.LeftOut++
		}
	}
	return plan, nil
}

// Backfill adds a backfill. Replicas add and start its runs, the oldest first. At most r.Parallel
// of them are active at the same time. The caller needs the permission to trigger the job. Backfill
// returns one of these errors:
//   - a *storage.BadInputError, if the job is a dependent
//   - a *storage.BadInputError, if the range ends in the future, has no scheduled time or has more
//     than storage.MaxBackfillTimes
//   - a *storage.BadInputError, if r.Parallel is negative or more than storage.MaxBackfillParallel
//   - a *storage.BadInputError, if r.Parallel is more than 1 and the runs of the job exclude each
//     other
//   - storage.ErrNotFound, if this configuration does not have the job or no replica has registered
//     it
//   - storage.ErrConflict, if the job has an active backfill, or if its active schedule is not that
//     of this configuration
func (o *Operations) Backfill(ctx context.Context, a storage.Action,
	r BackfillRequest) (storage.Backfill, error) {
	a, err := o.action(ctx, a)
	if err != nil {
		return storage.Backfill{}, err
	}
	if err := o.mayOnJob(ctx, permission.Trigger, r.Job); err != nil {
		return storage.Backfill{}, err
	}
	plan, key, err := o.planBackfill(ctx, r)
	if err != nil {
		return storage.Backfill{}, err
	}
	times := 0
	for _, t := range plan.Times {
		if t.LeftOut == "" {
			times++
		}
	}
	b, err := o.options.Control.AddBackfill(ctx, a, storage.BackfillRequest{Job: r.Job,
		From: plan.From, To: plan.To, UntilNow: r.To.IsZero(), Parallel: plan.Parallel,
		Times: times, ScheduleKey: key})
	return b, of("job "+r.Job, notReady(err))
}

// planBackfill returns the plan without the runs of its times, and the key of the schedule.
func (o *Operations) planBackfill(ctx context.Context,
	r BackfillRequest) (plan BackfillPlan, key string, err error) {
	job, err := o.job(ctx, r.Job)
	if err != nil {
		return plan, "", err
	}
	now, err := o.options.Lookup.Now(ctx)
	if err != nil {
		return plan, "", err
	}
	if r.To.IsZero() {
		r.To = now
	}
	plan = BackfillPlan{Job: r.Job, From: r.From.UTC().Truncate(time.Microsecond),
		To: r.To.UTC().Truncate(time.Microsecond), Parallel: cmp.Or(r.Parallel, 1)}
	if after := job.Schedule.After(); len(after) > 0 {
		return plan, "", &storage.BadInputError{Field: "job", Problem: fmt.Sprintf("found %s, "+
			"which runs after %s, expected a job with a schedule of its own", r.Job,
			strings.Join(after, ", "))}
	}
	request := storage.BackfillRequest{Job: r.Job, Parallel: plan.Parallel}
	err = cmp.Or(storage.CheckBackfillRange(plan.From, plan.To, now), request.CheckParallel(),
		request.CheckOverlap(job.Overlap == jobs.OverlapAllow))
	if err == nil {
		plan.Times, err = backfillTimes(job.Schedule, plan.From, plan.To)
	}
	s := job.Schedule
	return plan, storage.Definition{Schedule: s.String(), Zone: s.Zone().String(),
		Fingerprint: s.Fingerprint()}.ScheduleKey(), err
}

// backfillTimes returns the scheduled times of a range, also those that a calendar excludes.
func backfillTimes(s schedule.Schedule, from, to time.Time) ([]PlannedTime, error) {
	const page = 100
	var times []PlannedTime
	counted, at := 0, from.Add(-time.Microsecond)
	for counted <= storage.MaxBackfillTimes {
		occurrences := s.Preview(at, page, true)
		for _, o := range occurrences {
			if o.ScheduledAt.After(to) {
				occurrences = nil
				break
			}
			t := PlannedTime{ScheduledAt: o.ScheduledAt}
			if o.ExcludedBy != "" {
				t.LeftOut = "excluded by calendar " + o.ExcludedBy
			} else {
				counted++
			}
			times, at = append(times, t), o.ScheduledAt
		}
		if len(occurrences) == 0 {
			break
		}
	}
	switch {
	case counted > storage.MaxBackfillTimes:
		return nil, &storage.BadInputError{Field: "from", Problem: fmt.Sprintf("found more than "+
			"%d scheduled times until %s, expected at most that many: request shorter ranges one "+
			"after the other", storage.MaxBackfillTimes, to.Format(time.RFC3339))}
	case counted == 0:
		return nil, &storage.BadInputError{Field: "from", Problem: fmt.Sprintf("found no "+
			"scheduled time from %s to %s", from.Format(time.RFC3339), to.Format(time.RFC3339))}
	}
	return times, nil
}

// CancelBackfill ends a backfill and cancels its waiting runs. Its running runs continue. The
// caller needs the permission to cancel runs of the job. CancelBackfill returns storage.ErrConflict
// if the backfill has ended.
func (o *Operations) CancelBackfill(ctx context.Context, a storage.Action,
	id uuid.UUID) (storage.Backfill, error) {
	a, err := o.action(ctx, a)
	if err != nil {
		return storage.Backfill{}, err
	}
	if err := o.mayOnBackfill(ctx, permission.Cancel, id); err != nil {
		return storage.Backfill{}, err
	}
	b, err := o.options.Control.CancelBackfill(ctx, a, id)
	return b, of("backfill "+id.String(), err)
}

// ReadBackfill returns a backfill with its progress, or storage.ErrNotFound.
func (o *Operations) ReadBackfill(ctx context.Context, id uuid.UUID) (storage.Backfill, error) {
	return o.options.Lookup.Backfill(ctx, id)
}

// Backfills returns backfills, the youngest first.
func (o *Operations) Backfills(ctx context.Context,
	f storage.BackfillFilter) ([]storage.Backfill, error) {
	return o.options.Lookup.Backfills(ctx, f)
}

// BackfillTarget returns the job of a backfill as a target of permissions.
func BackfillTarget(ctx context.Context, l Lookup, id uuid.UUID) (permission.Target, error) {
	b, err := l.Backfill(ctx, id)
	if err != nil {
		return permission.Target{}, err
	}
	return JobTarget(ctx, l, b.Job)
}

// mayOnBackfill checks a permission on the job of a backfill.
func (o *Operations) mayOnBackfill(ctx context.Context, p permission.Permission,
	id uuid.UUID) error {
	return permission.RequireOn(ctx, p, func(ctx context.Context) (permission.Target, error) {
		if o.options.Lookup == nil {
			return everything(), nil
		}
		return BackfillTarget(ctx, o.options.Lookup, id)
	})
}
