package cluster

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Histogram counts the ended runs of the last 24 hours by quarter of an hour. The last quarter
// contains the current time.
type Histogram struct {
	From     time.Time `json:"from"`
	Until    time.Time `json:"until"`
	Quarters []Quarter `json:"quarters"` // all 96, the oldest first

	part time.Duration // the length of each of the quarters
}

// Quarter counts the ended runs that were created in a quarter of an hour.
type Quarter struct {
	From time.Time          `json:"from"`
	Runs map[jobs.State]int `json:"runs"` // by final state; states without runs are not included
	// 95% of the runs that started did so at most this long after their scheduled time; or later,
	// if start_delay_p95_above is true. Fixed buckets of delays determine it.
	StartDelay *float64 `json:"start_delay_p95_seconds,omitempty"`
	// the delay is above the longest bucket with a limit
	StartDelayAbove bool `json:"start_delay_p95_above,omitempty"`

	delays storage.Delays
}

// usualDelay is the percentile of start delays that the overview shows.
const usualDelay = 95

// newHistogram returns a histogram, in which quarters that the store has not are empty.
func newHistogram(from, until time.Time, part time.Duration,
	stored []storage.Quarter) Histogram {
	h := Histogram{From: from, Until: until, Quarters: []Quarter{}, part: part}
	byTime := make(map[time.Time]storage.Quarter, len(stored))
	for _, q := range stored {
		byTime[q.From] = q
	}
	for at := h.From; at.Before(h.Until); at = at.Add(part) {
		q := Quarter{From: at, Runs: map[jobs.State]int{}}
		if found, ok := byTime[at]; ok {
			maps.Copy(q.Runs, found.Runs)
			q.delays = found.Delays
		}
		if q.delays.Runs() > 0 {
			bound, above := q.delays.Percentile(usualDelay)
			seconds := bound.Seconds()
			q.StartDelay, q.StartDelayAbove = &seconds, above
		}
		h.Quarters = append(h.Quarters, q)
	}
	return h
}

// Stored returns the quarters as the store has them.
func (h Histogram) Stored() []storage.Quarter {
	stored := make([]storage.Quarter, len(h.Quarters))
	for i, q := range h.Quarters {
		stored[i] = storage.Quarter{From: q.From, Runs: q.Runs, Delays: q.delays}
	}
	return stored
}

// histogram counts the runs of the last 24 h.
func (r *Reader) histogram(ctx context.Context, now time.Time) (Histogram, error) {
	until := storage.QuarterOf(now).Add(storage.QuarterLength)
	return r.Histogram(ctx, now, until.Add(-lastDay), until)
}

// histogramSpan is the time of a histogram.
type histogramSpan struct{ from, until time.Time }

// Histogram counts the runs between two times, which are the beginnings of quarters of an hour. The
// numbers are at most factsLifetime old.
func (r *Reader) Histogram(ctx context.Context, now, from, until time.Time) (Histogram, error) {
	part := partOf(until.Sub(from))
	stored, err := r.counted.Get(ctx, histogramSpan{from, until}, now)
	if err != nil {
		return newHistogram(from, until, part, nil), fmt.Errorf("histogram: %w", err)
	}
	return newHistogram(from, until, part, stored), nil
}

// partOf returns the length of the parts of a histogram, so that there are at most about a hundred
// of them.
func partOf(length time.Duration) time.Duration {
	switch {
	case length <= 25*time.Hour:
		return storage.QuarterLength
	case length <= 8*24*time.Hour:
		return 2 * time.Hour
	}
	return 8 * time.Hour
}

// Part is the length of each part of the histogram.
func (h Histogram) Part() time.Duration { return h.part }
