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
	// decidingOutcomes is the number of runs that are read first.
	decidingOutcomes = 2
	// maxSuspects bounds the jobs that are checked.
	maxSuspects = 250
	// latestFailures is the number of failed runs of any age whose jobs are checked, beside the
	// jobs with failures in the last 24 h.
	latestFailures = 200
	// maxGivenUp bounds the deliveries that are counted.
	maxGivenUp = 1000
	// maxRemovedChecks bounds the jobs that are checked for their removal.
	maxRemovedChecks = 10
	// factsLifetime is how long facts are cached. Open pages request them every second.
	factsLifetime = 5 * time.Second
)

// Facts are what the status needs of the store, beside sessions.
type Facts struct {
	// Outcomes are the last runs of each job that failed lately, the newest first.
	Outcomes map[string][]storage.Outcome
	// Errors are the errors of the last failed runs, by job, as far as they are among the newest.
	Errors map[string]string
	// Delays are the usual start delays of the jobs that wait.
	Delays  map[string]storage.Typical
	Waiting []storage.Record      // oldest first
	GivenUp []storage.Undelivered // in the last 24 h, newest first
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
	f.Errors = make(map[string]string)
	for _, run := range latest {
		if _, newer := f.Errors[run.Job]; !newer && run.Backfill == uuid.Nil {
			f.Errors[run.Job] = cmp.Or(run.Error, words.Why(run))
		}
	}
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
	if f.Delays, err = r.startDelays(ctx, waiters, now); err != nil {
		return f, err
	}
	f.GivenUp, err = r.givenUp(ctx, now)
	return f, err
}

// failedStates are the states of a run that count as a failure of its job.
func failedStates() []jobs.State { return []jobs.State{jobs.Failed, jobs.TimedOut, jobs.Lost} }

// suspects returns the jobs that may be failing: those with failures in the last 24 h, the most
// failures first, then those of the latest failures before. It returns the latest failures, too.
func (r *Reader) suspects(ctx context.Context, now time.Time) ([]string, []storage.Record,
	error) {
	endCounts, err := r.recentEndCounts(ctx, now)
	if err != nil {
		return nil, nil, err
	}
	failures := make(map[string]int)
	for _, t := range endCounts.endCounts {
		if slices.Contains(failedStates(), t.State) {
			failures[t.Job] += t.Runs
		}
	}
	names := slices.SortedFunc(maps.Keys(failures), func(a, b string) int {
		return cmp.Or(failures[b]-failures[a], strings.Compare(a, b))
	})
	latest, err := r.Runs(ctx, storage.RunFilter{States: failedStates(), Limit: latestFailures})
	if err != nil {
		return nil, nil, err
	}
	for _, run := range latest {
		if failures[run.Job] == 0 {
			failures[run.Job]++
			names = append(names, run.Job)
		}
	}
	return names[:min(len(names), maxSuspects)], latest, nil
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
		found, err := r.Store.Outcomes(ctx, names, n)
		if err != nil {
			return nil, fmt.Errorf("outcomes: %w", err)
		}
		var undecided []string
		for _, job := range names {
			all[job] = found[job]
			if _, decided := decideStreak(found[job], now); !decided && len(found[job]) == n {
				undecided = append(undecided, job)
			}
		}
		names = undecided
	}
	return all, nil
}

// dropRemoved drops jobs that were removed. It checks the first maxRemovedChecks jobs whose last
// run failed, because each check is a query.
func (r *Reader) dropRemoved(ctx context.Context, now time.Time,
	outcomes map[string][]storage.Outcome, suspects []string) error {
	checks := 0
	for _, name := range suspects {
		if newStreak(outcomes[name], now).Failures == 0 {
			continue
		}
		if checks++; checks > maxRemovedChecks {
			return nil
		}
		view, err := r.Store.Job(ctx, name)
		switch {
		case errors.Is(err, storage.ErrNotFound) || err == nil && view.Removed:
			delete(outcomes, name)
		case err != nil:
			return fmt.Errorf("job %q: %w", name, err)
		}
	}
	return nil
}

// givenUp returns the deliveries that were given up in the last 24 h.
func (r *Reader) givenUp(ctx context.Context, now time.Time) ([]storage.Undelivered, error) {
	if r.ops == nil {
		return nil, nil
	}
	found, err := r.ops.Undelivered(ctx, storage.UndeliveredFilter{GivenUp: true,
		Limit: maxGivenUp})
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("deliveries that were given up: %w", err)
	}
	return slices.DeleteFunc(found, func(u storage.Undelivered) bool {
		return u.GaveUpAt == nil || now.Sub(*u.GaveUpAt) > lastDay
	}), nil
}
