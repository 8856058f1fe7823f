package storage

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Histograms counts ended runs by time.
type Histograms interface {
	// Histogram returns the numbers of ended runs between HistogramStart and HistogramEnd, the
	// oldest first. It divides the time into parts of the given length, a multiple of
	// QuarterLength. It leaves out empty parts. The last part ends with the last quarter that
	// begins before until.
	//
	// A run counts in the quarter in which it was created, as soon as its end is committed.
	Histogram(ctx context.Context, from, until time.Time, part time.Duration) ([]Quarter, error)
	// EndedRuns counts the ended runs of the history. It is exact if the history has at most
	// exactly runs. Otherwise it is an estimate, which reads no runs.
	EndedRuns(ctx context.Context, exactly int) (EndedRuns, error)
}

// EndedRuns is the number of ended runs in the history.
type EndedRuns struct {
	Runs int
	// ByState has the numbers by final state, without zeros. It is nil if the states are not known.
	ByState map[jobs.State]int
	// Estimated says that the history may have more or fewer runs, because pruning does not keep
	// all runs for the same time.
	Estimated bool
}

// NewEndedRuns adds up numbers of runs by state. It ignores waiting and running runs.
func NewEndedRuns(byState map[jobs.State]int, estimated bool) EndedRuns {
	e := EndedRuns{ByState: make(map[jobs.State]int), Estimated: estimated}
	for state, n := range byState {
		if n > 0 && state.Final() {
			e.ByState[state] = n
			e.Runs += n
		}
	}
	return e
}

// QuarterLength is the length of a quarter. Quarters begin at :00, :15, :30 and :45 in UTC.
const QuarterLength = 15 * time.Minute

// MaxHistogram is the longest time that Histogram reads.
const MaxHistogram = 31 * 24 * time.Hour

// HistogramEnd returns until, but at most MaxHistogram after from.
func HistogramEnd(from, until time.Time) time.Time {
	if last := from.Add(MaxHistogram); until.After(last) {
		return last
	}
	return until
}

// HistogramStart returns from, or the beginning of the next quarter if from is within one.
func HistogramStart(from time.Time) time.Time {
	if start := QuarterOf(from); start.Equal(from) {
		return start
	}
	return QuarterOf(from).Add(QuarterLength)
}

// Quarter counts the ended runs that were created within a quarter, or within a part of a
// histogram.
type Quarter struct {
	From   time.Time          // beginning, in UTC
	Runs   map[jobs.State]int // by final state, without zeros
	Delays Delays             // of the runs that started
}

// QuarterOf returns the beginning of the quarter that contains the time, in UTC.
func QuarterOf(t time.Time) time.Time { return t.UTC().Truncate(QuarterLength) }

// Delays counts runs by start delay: the time from the scheduled time of a run to the start of its
// first attempt. For a run of a backfill it counts from its creation. Bucket i counts delays of
// less than DelayBounds()[i] that are in no earlier bucket. The last bucket has no upper bound.
type Delays [16]int

// DelayBounds returns the upper bounds of the buckets of Delays.
func DelayBounds() [15]time.Duration {
	const ms = time.Millisecond
	return [...]time.Duration{
		10 * ms, 20 * ms, 50 * ms, 100 * ms, 200 * ms, 500 * ms, time.Second, 2 * time.Second,
		5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute,
		15 * time.Minute, time.Hour,
	}
}

// NotStarted is the Delay of Tally for runs that have not started.
const NotStarted = -1

// DelayBucket returns the index in Delays of a start delay.
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

// Percentile returns an upper bound for the start delays of that percentage of the runs. If such a
// delay is in the last bucket, it returns the lower bound of this bucket, and above is true.
// Without runs it returns 0.
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

// Tally is a number of runs of one quarter, state and bucket of start delays. Quarter may also be
// a part of a histogram.
type Tally struct {
	Quarter time.Time
	State   jobs.State
	Delay   int // index in Delays, or NotStarted
	Runs    int
}

// MergeTallies adds up numbers of runs by quarter, the oldest first.
func MergeTallies(parts []Tally) []Quarter {
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
