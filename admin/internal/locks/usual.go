package locks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// A lock is held for an unusual time if that is longer than most runs of the job take, and more
// than unusualFactor times as long as half of them.
const (
	unusualFactor = 2
	unusualRuns   = 5 // with fewer ended runs the usual duration is not known
)

// AddUsual sets the usual durations of the jobs that hold the locks.
func AddUsual(ctx context.Context, r *Reader, now time.Time, locks []Lock) error {
	names := make([]string, len(locks))
	for i, lock := range locks {
		names[i] = lock.Holder.Job
	}
	usual, err := r.Usual(ctx, now, names)
	if err != nil {
		return err
	}
	for i := range locks {
		locks[i].typical = usual[locks[i].Holder.Job]
	}
	return nil
}

// Usual returns the usual durations of jobs, by name. With very many names it queries only some
// that are not cached. The empty name is no job.
func (r *Reader) Usual(ctx context.Context, now time.Time,
	names []string) (map[string]storage.Typical, error) {
	var open []string
	for _, job := range names {
		_, known := r.durations.get(job, now)
		if job != "" && !known && len(open) < durationsBatch {
			open = append(open, job)
		}
	}
	slices.Sort(open)
	if open = slices.Compact(open); len(open) > 0 {
		found, err := r.Store.Typical(ctx, open)
		if err != nil {
			return nil, fmt.Errorf("query durations of runs: %w", err)
		}
		r.durations.put(open, found, now)
	}
	usual := make(map[string]storage.Typical, len(names))
	for _, job := range names {
		usual[job], _ = r.durations.get(job, now)
	}
	return usual, nil
}

// UsualOfMany returns the usual durations of jobs, by name. It queries some of those that are not
// cached, and the others in the background. It also returns the number of the latter.
func UsualOfMany(ctx context.Context, r *Reader, now time.Time,
	names []string) (usual map[string]storage.Typical, unknown int, err error) {
	usual = make(map[string]storage.Typical, len(names))
	var open []string
	for _, job := range names {
		known, ok := r.durations.get(job, now)
		if usual[job] = known; !ok {
			open = append(open, job)
		}
	}
	first := open[:min(len(open), durationsBatch)]
	if len(first) > 0 {
		found, err := r.Store.Typical(ctx, first)
		if err != nil {
			return nil, 0, fmt.Errorf("query durations of runs: %w", err)
		}
		r.durations.put(first, found, now)
		for _, job := range first {
			usual[job] = found[job]
		}
	}
	if rest := open[len(first):]; len(rest) > 0 {
		unknown = len(rest)
		r.durations.fill(ctx, r.Store, rest, now)
	}
	return usual, unknown, nil
}

// Usual returns the usual duration of the holder's job, if the lock has been held for much longer.
// Otherwise it returns "".
func (l Lock) Usual(now time.Time) string {
	if !IsUnusual(now.Sub(l.Since), l.typical) {
		return ""
	}
	return words.Took(l.typical.Median)
}

// CompareWithUsual compares the time of a run with the last runs of its job. It returns
// "usually 9 min", or "7× usual" if the run takes much longer, or "" if too few runs have ended.
func CompareWithUsual(took time.Duration, usual storage.Typical) string {
	switch {
	case usual.Runs < unusualRuns:
		return ""
	case IsUnusual(took, usual):
		return words.Count(int(took/max(usual.Median, time.Millisecond))) + "× usual"
	}
	return "usually " + words.Took(usual.Median)
}

// IsUnusual reports whether a run that has taken so long takes much longer than usual.
func IsUnusual(took time.Duration, usual storage.Typical) bool {
	return usual.Runs >= unusualRuns && took > usual.Long && took > unusualFactor*usual.Median
}
