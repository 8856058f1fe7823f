package storage

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Histograms counts ended runs by time.
type Histograms interface {
	// Histogram returns the numbers of ended runs for parts of the time between from and until, the
	// oldest first. The first part begins with the first quarter of an hour that begins at from or
	// later. Each part has the given length, which is a multiple of QuarterLength. The last part
	// has the runs of the quarters that begin before until. Histogram leaves out a part if none of
	// the runs that were created in it has ended. It reads only until HistogramEnd.
	//
	// A run counts for the quarter in which it was created. It counts as soon as the transaction
	// that gives it its final state has committed.
	Histogram(ctx context.Context, from, until time.Time, part time.Duration) ([]Quarter, error)
}

// QuarterLength is the length of a Quarter. Quarters begin at :00, :15, :30 and :45 in UTC.
const QuarterLength = 15 * time.Minute

// MaxHistogram is the longest time that Histogram reads.
const MaxHistogram = 31 * 24 * time.Hour

// HistogramEnd returns the end of the time that Histogram reads: the time until, or MaxHistogram
// after the time from if that is earlier.
func HistogramEnd(from, until time.Time) time.Time {
	if last := from.Add(MaxHistogram); until.After(last) {
		return last
	}
	return until
}

// HistogramStart returns the beginning of the first part that Histogram returns: from, or the
// beginning of the next quarter of an hour.
func HistogramStart(from time.Time) time.Time {
	if start := QuarterOf(from); start.Equal(from) {
		return start
	}
	return QuarterOf(from).Add(QuarterLength)
}

// Quarter counts the ended runs that were created within a quarter of an hour, or within several
// that follow each other.
type Quarter struct {
	From   time.Time          // its beginning, in UTC
	Runs   map[jobs.State]int // by final state; states without runs are not included
	Delays Delays             // of the runs that started
}

// QuarterOf returns the beginning of the quarter that contains the time, in UTC.
func QuarterOf(t time.Time) time.Time { return t.UTC().Truncate(QuarterLength) }

// Delays counts runs by start delay, which is the time from the scheduled time of a run to the
// start of its first attempt. For a run of a backfill it counts from the creation of the run. Each
// run is in one bucket. The bucket with index i has the delays that are shorter than
// DelayBounds()[i] and in no earlier bucket. The last bucket has all longer delays.
type Delays [16]int

// DelayBounds returns the upper bounds of the buckets of Delays. The last bucket has none.
func DelayBounds() [15]time.Duration {
	const ms = time.Millisecond
	return [...]time.Duration{
		10 * ms, 20 * ms, 50 * ms, 100 * ms, 200 * ms, 500 * ms, time.Second, 2 * time.Second,
		5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute,
		15 * time.Minute, time.Hour,
	}
}

// NotStarted is stored instead of the result of DelayBucket for a run that has not started.
const NotStarted = -1

// DelayBucket returns the index of the bucket of a start delay in Delays.
func DelayBucket(delay time.Duration) int {
	bounds := DelayBounds()
	i, at := slices.BinarySearch(bounds[:], delay)
	if at { // a bound belongs to the longer delays
		i++
	}
	return i
}

// Runs returns the number of runs.
func (d Delays) Runs() (runs int) {
	for _, n := range d {
		runs += n
	}
	return runs
}

// Add adds the runs of others.
func (d *Delays) Add(others Delays) {
	for i, n := range others {
		d[i] += n
	}
}

// Percentile returns a bound: the start delays of at least that percentage of the runs are below
// it. The bound is the end of the bucket that has the longest of these delays. The last bucket has
// no upper bound: then Percentile returns its lower bound, and above is true. Without runs the
// bound is 0.
func (d Delays) Percentile(percent int) (bound time.Duration, above bool) {
	bounds := DelayBounds()
	rank, seen := (d.Runs()*percent+99)/100, 0
	if rank == 0 {
		return 0, false
	}
	for i, n := range d[:len(bounds)] {
		if seen += n; seen >= rank {
			return bounds[i], false
		}
	}
	return bounds[len(bounds)-1], true
}

// Tallied is a number of runs of one quarter, state and bucket of start delays, as stores keep it
// in the table tallies. Quarter may also be a part of a histogram. The type Tally is another count.
type Tallied struct {
	Quarter time.Time
	State   jobs.State
	Delay   int // an index in Delays, or NotStarted
	Runs    int
}

// MergeTallied adds up numbers of runs by quarter, and sorts the quarters as Histograms requires.
func MergeTallied(parts []Tallied) []Quarter {
	quarters := make(map[time.Time]*Quarter)
	for _, p := range parts {
		from := p.Quarter.UTC()
		q := quarters[from]
		if q == nil {
			q = &Quarter{From: from, Runs: make(map[jobs.State]int)}
			quarters[from] = q
		}
		q.Runs[p.State] += p.Runs
		if p.Delay >= 0 && p.Delay < len(q.Delays) {
			q.Delays[p.Delay] += p.Runs
		}
	}
	sorted := make([]Quarter, 0, len(quarters))
	for _, q := range quarters {
		sorted = append(sorted, *q)
	}
	slices.SortFunc(sorted, func(a, b Quarter) int { return a.From.Compare(b.From) })
	return sorted
}
