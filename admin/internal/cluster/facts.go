package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// outcomesOfJob is the number of runs of a job that are checked for failures in a row.
	outcomesOfJob = 20
	// maxCounted bounds the jobs whose earlier failures are counted, because each count reads up to
	// storage.MaxFailures runs.
	maxCounted = 50
	// decidingOutcomes is the number of runs that are read first.
	decidingOutcomes = 3
	// maxSuspects bounds the jobs that are checked.
	maxSuspects = 250
	// latestFailures is the number of failed runs of any age whose jobs are checked, beside the
	// jobs with failures in the last 24 h.
	latestFailures = 200
	// maxDeliveries bounds the deliveries of each kind that are counted.
	maxDeliveries = 1000
	// failingDelivery is the age from which a delivery that fails is reported.
	failingDelivery = 10 * time.Minute
	// maxRemovedChecks bounds the jobs that are checked for their removal.
	maxRemovedChecks = 10
	// factsLifetime is how long facts are cached. Open pages request them every second.
	factsLifetime = 5 * time.Second
)

// Facts are what the status needs of the store, beside sessions.
type Facts struct {
	// Outcomes are the last runs of each job that failed lately or was skipped repeatedly, the
	// newest first.
	Outcomes map[string][]storage.Outcome
	// Earlier has the failures of a job before its Outcomes, if its Outcomes have failures and no
	// success before them.
	Earlier map[string]storage.FailedRuns
	// ErrorTexts are parts of the errors of the latest failed runs, one for each kind of error, the
	// newest first. A search for a part finds the runs.
	ErrorTexts []string
	// Delays are the usual start delays of the jobs that wait.
	Delays  map[string]storage.Typical
	Waiting []storage.Record      // oldest first
	GivenUp []storage.Undelivered // in the last 24 h, newest first
	// Undelivered are the deliveries that have failed for failingDelivery and have another try,
	// newest first.
	Undelivered []storage.Undelivered
	// Running are the runs that have run for minLongRun, oldest first, and Usual are the usual
	// durations of their jobs.
	Running []storage.Record
	Usual   map[string]storage.Typical
	// Skipped are the last skipped runs of jobs that are skipped repeatedly, by job.
	Skipped map[string]storage.Record
	// Missed counts the misfires of the last 24 h.
	Missed []storage.EndCount

	// errors are those of the last failed runs, by job, as far as they are among the newest.
	errors map[string]errorLine
}

// facts queries the facts at now.
func (r *Reader) facts(ctx context.Context, now time.Time) (f Facts, err error) {
	f.Waiting, err = r.Runs(ctx, storage.RunFilter{States: []jobs.State{jobs.Waiting},
		Later: new(false), Limit: storage.MaxBatch})
	if err != nil {
		return f, err
	}
	slices.SortFunc(f.Waiting, records.OlderFirst)
	suspects, latest, err := r.suspects(ctx, now)
	if err != nil {
		return f, err
	}
	f.errors = make(map[string]errorLine)
	for _, run := range latest {
		if _, newer := f.errors[run.Job]; !newer && run.Backfill == uuid.Nil {
			f.errors[run.Job] = newErrorLine(cmp.Or(run.Error, words.Why(run)))
		}
	}
	f.ErrorTexts = errorTexts(latest)
	waiters := make(map[string]bool)
	for _, run := range f.Waiting {
		if len(waiters) < maxSuspects {
			waiters[run.Job] = true
		}
	}
	if f.Outcomes, err = r.lastOutcomes(ctx, suspects, now); err != nil {
		return f, err
	}
	if err := r.dropRemoved(ctx, now, f.Outcomes, suspects); err != nil {
		return f, err
	}
	if f.Earlier, err = earlierFailures(ctx, r.Store, now, f.Outcomes); err != nil {
		return f, err
	}
	if f.Delays, err = r.startDelays(ctx, waiters, now); err != nil {
		return f, err
	}
	if f.Skipped, err = r.lastSkips(ctx, now, f.Outcomes); err != nil {
		return f, err
	}
	if f.Missed, err = r.missed(ctx, now); err != nil {
		return f, err
	}
	if f.Running, f.Usual, err = r.longRunning(ctx, now); err != nil {
		return f, err
	}
	if f.GivenUp, err = r.givenUp(ctx, now); err != nil {
		return f, err
	}
	maps.DeleteFunc(f.Outcomes, func(_ string, outcomes []storage.Outcome) bool {
		return uneventful(outcomes, now)
	})
	// the deliveries that have failed for failingDelivery and have another try
	f.Undelivered, err = r.deliveries(ctx, storage.UndeliveredFilter{Failing: true,
		Before: &storage.RunCursor{CreatedAt: now.Add(-failingDelivery)}})
	return f, err
}

// uneventful reports whether no rule finds a problem in the outcomes, now or later. Each request
// applies the rules again, so few jobs should be left.
func uneventful(outcomes []storage.Outcome, now time.Time) bool {
	skips, _ := skipsOf(outcomes)
	return newStreak(outcomes, now).Failures == 0 && skips < seldomSkipsInARow
}

// lastSkips returns the last skipped run of at most maxRemovedChecks jobs that are skipped
// repeatedly, because each is a query.
func (r *Reader) lastSkips(ctx context.Context, now time.Time,
	outcomes map[string][]storage.Outcome) (map[string]storage.Record, error) {
	skips := make(map[string]storage.Record)
	for _, job := range slices.Sorted(maps.Keys(outcomes)) {
		if len(skips) == maxRemovedChecks || !skipsRepeatedly(outcomes[job], now) {
			continue
		}
		last, err := r.Runs(ctx, storage.RunFilter{Job: job, States: []jobs.State{jobs.Skipped},
			Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(last) > 0 {
			skips[job] = last[0]
		}
	}
	return skips, nil
}

func (r *Reader) missed(ctx context.Context, now time.Time) (missed []storage.EndCount,
	err error) {
	endCounts, err := r.recentEndCounts(ctx, now)
	if err != nil {
		return nil, err
	}
	for _, t := range endCounts.endCounts {
		if t.State == jobs.Missed {
			missed = append(missed, t)
		}
	}
	return missed, nil
}

// longRunning returns the runs that have run for minLongRun, and the usual durations of their jobs.
func (r *Reader) longRunning(ctx context.Context, now time.Time) ([]storage.Record,
	map[string]storage.Typical, error) {
	running, err := r.Runs(ctx, storage.RunFilter{States: []jobs.State{jobs.Running},
		Limit: storage.MaxBatch})
	if err != nil {
		return nil, nil, err
	}
	running = slices.DeleteFunc(running, func(run storage.Record) bool {
		return now.Sub(records.Since(run)) < minLongRun
	})
	slices.SortFunc(running, records.OlderFirst)
	names := make([]string, len(running))
	for i, run := range running {
		names[i] = run.Job
	}
	if len(names) == 0 {
		return nil, nil, nil
	}
	usual, err := r.lock.Usual(ctx, now, names)
	return running, usual, err
}

// suspects returns the jobs that may be failing or skipped: those with failures in the last 24 h,
// the most failures first, then those of the latest failures before, then those with skipped
// firings in the last 24 h. It returns the latest failures, too.
func (r *Reader) suspects(ctx context.Context, now time.Time) ([]string, []storage.Record,
	error) {
	endCounts, err := r.recentEndCounts(ctx, now)
	if err != nil {
		return nil, nil, err
	}
	failures, skips := make(map[string]int), make(map[string]int)
	for _, t := range endCounts.endCounts {
		switch {
		case storage.Failed(t.State):
			failures[t.Job] += t.Runs
		case t.State == jobs.Skipped && isSkip(t.Reason):
			skips[t.Job] += t.Runs
		}
	}
	names := mostFirst(failures)
	latest, err := r.Runs(ctx, storage.RunFilter{States: storage.FailedStates(),
		Limit: latestFailures})
	if err != nil {
		return nil, nil, err
	}
	for _, run := range latest {
		if failures[run.Job] == 0 {
			failures[run.Job]++
			names = append(names, run.Job)
		}
	}
	for _, job := range mostFirst(skips) {
		if failures[job] == 0 {
			names = append(names, job)
		}
	}
	return names[:min(len(names), maxSuspects)], latest, nil
}

// mostFirst returns the names by their counts, the largest first.
func mostFirst(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
}

// lastOutcomes returns the last runs of each job, as many as decide whether it is failing. The last
// few runs of most jobs decide that already.
func (r *Reader) lastOutcomes(ctx context.Context, names []string,
	now time.Time) (map[string][]storage.Outcome, error) {
	all := make(map[string][]storage.Outcome, len(names))
	for _, n := range []int{decidingOutcomes, outcomesOfJob} {
		if len(names) == 0 {
			break
		}
		found, err := r.Outcomes.Last(ctx, now, names, n)
		if err != nil {
			return nil, err
		}
		var undecided []string
		for _, job := range names {
			all[job] = found[job]
			_, decided := decideStreak(found[job], now)
			if (!decided || !skipsDecided(found[job])) && len(found[job]) == n {
				undecided = append(undecided, job)
			}
		}
		names = undecided
	}
	return all, nil
}

// earlierFailures counts the failures before the outcomes of jobs that may have failed more often
// than the outcomes say.
func earlierFailures(ctx context.Context, store storage.Listings, now time.Time,
	outcomes map[string][]storage.Outcome) (map[string]storage.FailedRuns, error) {
	var of []storage.RunBefore
	for _, job := range slices.Sorted(maps.Keys(outcomes)) {
		s := newStreak(outcomes[job], now)
		if s.Open && s.Failures > 0 && len(of) < maxCounted {
			oldest := outcomes[job][len(outcomes[job])-1]
			of = append(of, storage.RunBefore{Job: job,
				Before: storage.RunCursor{CreatedAt: oldest.CreatedAt, ID: oldest.Run}})
		}
	}
	if len(of) == 0 {
		return nil, nil
	}
	found, err := store.FailuresBefore(ctx, of)
	if err != nil {
		return nil, fmt.Errorf("earlier failures: %w", err)
	}
	return found, nil
}

// dropRemoved drops jobs that were removed, and those that no live replica has. It checks the first
// maxRemovedChecks jobs that failed or are skipped repeatedly, because each check is a query.
func (r *Reader) dropRemoved(ctx context.Context, now time.Time,
	outcomes map[string][]storage.Outcome, suspects []string) error {
	checks := 0
	for _, name := range suspects {
		of := outcomes[name]
		if newStreak(of, now).Failures == 0 && !skipsRepeatedly(of, now) {
			continue
		}
		if checks++; checks > maxRemovedChecks {
			return nil
		}
		view, err := r.Store.Job(ctx, name)
		switch {
		case errors.Is(err, storage.ErrNotFound),
			err == nil && (view.Removed || view.AbsentSince != nil):
			delete(outcomes, name)
		case err != nil:
			return fmt.Errorf("job %q: %w", name, err)
		}
	}
	return nil
}

// givenUp returns the deliveries that were given up in the last 24 h.
func (r *Reader) givenUp(ctx context.Context, now time.Time) ([]storage.Undelivered, error) {
	found, err := r.deliveries(ctx, storage.UndeliveredFilter{GivenUp: true})
	return slices.DeleteFunc(found, func(u storage.Undelivered) bool {
		return u.GaveUpAt == nil || now.Sub(*u.GaveUpAt) > lastDay
	}), err
}

// deliveries returns at most maxDeliveries deliveries, or none if the store records none.
func (r *Reader) deliveries(ctx context.Context, f storage.UndeliveredFilter) (
	[]storage.Undelivered, error) {
	if r.ops == nil {
		return nil, nil
	}
	f.Limit = maxDeliveries
	found, err := r.ops.Undelivered(ctx, f)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("deliveries of webhooks: %w", err)
	}
	return found, nil
}
