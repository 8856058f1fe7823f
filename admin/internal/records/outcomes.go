package records

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

const (
	// settledAge is the age from which ended runs are kept. Replicas commit a run within seconds
	// after its creation. A program may trigger a run in a transaction that takes longer. Then this
	// run can be missing until settledLifetime is over.
	settledAge = time.Minute
	// settledLifetime is how long ended runs are kept. Some of them may be pruned meanwhile.
	settledLifetime = 10 * time.Minute
	// maxSettledJobs bounds the memory: the runs of a job take up to 3 kB.
	maxSettledJobs = 4_000
)

// Outcomes reads the last runs of jobs. It keeps those that have ended, so that lists that are
// shown again read only what is new. It is safe for concurrent use.
type Outcomes struct {
	store storage.Listings

	mu      sync.Mutex
	settled map[string]settledRuns
}

// settledRuns are the last runs of a job, without the newest ones, which may change.
type settledRuns struct {
	runs  []storage.Outcome // the newest first
	asked int               // number of last runs that were asked for
	at    time.Time         // of the query, by the store's clock
}

// NewOutcomes returns a reader of the last runs of jobs.
func NewOutcomes(store storage.Listings) *Outcomes {
	return &Outcomes{store: store, settled: make(map[string]settledRuns)}
}

// Last returns the last n runs of each job at now, the youngest first, without runs of backfills.
// The caller must not change them.
func (o *Outcomes) Last(ctx context.Context, now time.Time, names []string,
	n int) (map[string][]storage.Outcome, error) {
	of, known := storage.AllOutcomesOf(names), make(map[string]settledRuns, len(names))
	o.mu.Lock()
	for i, name := range names {
		one, ok := o.settled[name]
		if age := now.Sub(one.at); ok && one.asked >= n && age >= 0 && age < settledLifetime {
			known[name], of[i].After = one, one.runs[0].CreatedAt
		}
	}
	o.mu.Unlock()
	found, err := o.store.Outcomes(ctx, of, n)
	if err != nil {
		return nil, fmt.Errorf("outcomes: %w", err)
	}
	fresh := make(map[string]settledRuns)
	for _, name := range names {
		one := settledRuns{runs: found[name], asked: n, at: now}
		if before, ok := known[name]; ok && len(one.runs) < n {
			one = settledRuns{asked: before.asked, at: before.at,
				runs: append(one.runs[:len(one.runs):len(one.runs)], before.runs...)}
			one.runs = one.runs[:min(len(one.runs), one.asked)]
		}
		if len(one.runs) > 0 {
			found[name] = one.runs[:min(len(one.runs), n)]
		}
		if one.runs = settledOf(one.runs, now); len(one.runs) > 0 {
			fresh[name] = one
		}
	}
	o.keep(fresh)
	return found, nil
}

// settledOf returns the oldest of the runs: as many as have ended and have the age settledAge. Runs
// that were created at one time are settled together, because the next query asks for younger ones.
func settledOf(runs []storage.Outcome, now time.Time) []storage.Outcome {
	first := len(runs)
	for first > 0 && runs[first-1].State.Final() &&
		now.Sub(runs[first-1].CreatedAt) >= settledAge {
		first--
	}
	for first > 0 && first < len(runs) && runs[first].CreatedAt.Equal(runs[first-1].CreatedAt) {
		first++
	}
	return runs[first:]
}

// keep adds runs to those that are kept. If there would be too many, it forgets the others.
func (o *Outcomes) keep(fresh map[string]settledRuns) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.settled)+len(fresh) > maxSettledJobs {
		clear(o.settled)
	}
	if len(fresh) > maxSettledJobs {
		return
	}
	for name, one := range fresh {
		o.settled[name] = one
	}
}
