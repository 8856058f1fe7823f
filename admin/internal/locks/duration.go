package locks

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Durations of runs change slowly. A page has time to query those of a few hundred jobs, so they
// are cached, and with many jobs all are known only after several requests.
const (
	durationLifetime = 10 * time.Minute
	durationsBatch   = 200 // jobs
	durationsTimeout = time.Second
	// fillTimeout bounds the queries of all durations in the background.
	fillTimeout = 30 * time.Second
)

// durations caches the typical durations of jobs.
type durations struct {
	mu      sync.Mutex
	known   map[string]cachedDuration
	filling atomic.Bool // a goroutine queries durations
}

// get returns the cached durations of a job, unless they are too old.
func (l *durations) get(job string, now time.Time) (storage.Typical, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cached, ok := l.known[job]
	return cached.Typical, ok && now.Sub(cached.at) < durationLifetime
}

// put caches the result of a query, including jobs without runs. It forgets results that are too
// old, so that jobs that were removed do not stay.
func (l *durations) put(names []string, found map[string]storage.Typical, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = make(map[string]cachedDuration)
	}
	maps.DeleteFunc(l.known, func(_ string, c cachedDuration) bool {
		return now.Sub(c.at) >= durationLifetime
	})
	for _, name := range names {
		l.known[name] = cachedDuration{found[name], now}
	}
}

// fill queries the durations of jobs in the background, unless another call does.
func (l *durations) fill(ctx context.Context, store storage.History, names []string,
	now time.Time) {
	if !l.filling.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer l.filling.Store(false)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fillTimeout)
		defer cancel()
		for batch := range slices.Chunk(names, durationsBatch) {
			found, err := store.Typical(ctx, batch)
			if err != nil {
				return // a later request tries again
			}
			l.put(batch, found, now)
		}
	}()
}

type cachedDuration struct {
	storage.Typical
	at time.Time // by the store's clock
}

// loadDurations queries the durations of the contenders, in the order of their firings, for at most
// durationsTimeout and at most that many batches.
func (r *Reader) loadDurations(ctx context.Context, f *UpcomingConflicts, contenders []*contender,
	scheduledTimes []upcomingFiring, batches int) error {
	start := time.Now()
	var open []string
	seen := make([]bool, len(contenders))
	for _, scheduledAt := range scheduledTimes {
		if !seen[scheduledAt.contender] {
			seen[scheduledAt.contender] = true
			if _, known := r.durations.get(contenders[scheduledAt.contender].job, f.From); !known {
				open = append(open, contenders[scheduledAt.contender].job)
			}
		}
	}
	for ; len(open) > 0 && time.Since(start) < durationsTimeout && batches > 0; batches-- {
		batch := open[:min(len(open), durationsBatch)]
		found, err := r.Store.Typical(ctx, batch)
		if err != nil {
			return fmt.Errorf("query durations of runs: %w", err)
		}
		r.durations.put(batch, found, f.From)
		open = open[len(batch):]
	}
	never := 0
	for i, one := range contenders {
		var known bool
		if one.typical, known = r.durations.get(one.job, f.From); known && seen[i] &&
			one.typical.Runs == 0 {
			never++
		}
	}
	if len(open) > 0 {
		f.Cut = append(f.Cut,
			fmt.Sprintf("The durations of %d of %s are known so far: reload "+
				"for the others", f.Jobs-len(open), words.PlainFigure(f.Jobs, "job", "jobs")))
	}
	if never > 0 {
		f.Cut = append(f.Cut,
			fmt.Sprintf("The durations of %s are unknown: no run has ended yet",
				words.PlainFigure(never, "job", "jobs")))
	}
	return nil
}
