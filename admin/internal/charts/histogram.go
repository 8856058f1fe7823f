package charts

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Histogram shows runs by time in three charts. A column is a part of the time: a quarter of an
// hour, or several if the time is long.
type Histogram struct {
	Now                        time.Time
	Title                      string
	Path                       string // of a list with more runs, or ""
	Runs, Unsuccessful, Delays HistogramChart
	// those with runs, the oldest first; parts if they are longer than an hour
	Hours []HistogramHour
}

// HistogramChart has one column for each part of the time.
type HistogramChart struct {
	Bars         []HistogramBar
	Ticks        []Tick // of the first chart; the others show them too
	Height       int    // with the axis
	LineY, AxisY int
	Words        string
}

// HistogramBar is a bar that leads to its runs. It reacts to the pointer in its reach, because the
// bar itself may be small.
type HistogramBar struct {
	X, W           Percent
	Y, H           int
	ReachY, ReachH int

	Class string
	Path  string
	Title string
}

// HistogramHour is a row of the table that has the same numbers.
type HistogramHour struct {
	From                                  time.Time
	Succeeded, Failed, Skipped, Cancelled HistogramCount
	Delay                                 string // "" if no run started
}

// HistogramCount is a number of runs and the address of their list.
type HistogramCount struct {
	Runs int
	Path string
}

// HistogramHeight is the height of the columns of a histogram, in pixels.
const HistogramHeight = 72

const (
	histogramAxis   = 18   // pixels below the columns
	histogramGap    = 0.15 // the share of a column that is empty
	minHistogramBar = 3    // pixels, so that a single run among thousands is visible
	// maxHistogramColumns is 24 hours of quarters.
	maxHistogramColumns = 96
)

// columns are equal parts of the time of a histogram, the oldest first. The last part may be
// shorter.
type columns struct {
	parts  []storage.Quarter // each of the length
	length time.Duration
	until  time.Time // the end of the last part
}

// newColumns joins parts that follow each other, so that there are not too many.
func newColumns(quarters []storage.Quarter, part time.Duration, until time.Time) columns {
	each := (len(quarters) + maxHistogramColumns - 1) / maxHistogramColumns
	c := columns{length: time.Duration(each) * part, until: until}
	if each == 1 {
		c.parts = quarters
		return c
	}
	for ; len(quarters) > 0; quarters = quarters[min(each, len(quarters)):] {
		part := storage.Quarter{From: quarters[0].From, Runs: make(map[jobs.State]int)}
		for _, q := range quarters[:min(each, len(quarters))] {
			for state, n := range q.Runs {
				part.Runs[state] += n
			}
			part.Delays.Add(q.Delays)
		}
		c.parts = append(c.parts, part)
	}
	return c
}

// lengthOf returns the length of the part that begins at from.
func (c columns) lengthOf(from time.Time) time.Duration {
	return min(c.length, c.until.Sub(from))
}

// path returns the address of the runs with the outcome in the part that begins at from.
func (c columns) path(o outcome, from time.Time) string {
	return o.path(from, c.lengthOf(from))
}

// outcome is a group of final states that a histogram shows as one.
type outcome struct {
	class, word string
	states      []jobs.State
}

func succeededOutcome() outcome {
	return outcome{"succeeded", "succeeded", []jobs.State{jobs.Succeeded}}
}

func failedOutcome() outcome {
	return outcome{"failed", "failed", storage.FailedStates()}
}

func skippedOutcome() outcome {
	return outcome{"skipped", "skipped", []jobs.State{jobs.Skipped, jobs.Missed}}
}

func cancelledOutcome() outcome {
	return outcome{"cancelled", "cancelled", []jobs.State{jobs.Cancelled}}
}

func endedOutcome() outcome {
	o := outcome{class: "ended", word: "ended"}
	for _, group := range []outcome{succeededOutcome(), failedOutcome(), skippedOutcome(),
		cancelledOutcome()} {
		o.states = append(o.states, group.states...)
	}
	return o
}

// of returns how many runs of the quarter have the outcome.
func (o outcome) of(q storage.Quarter) (runs int) {
	for _, state := range o.states {
		runs += q.Runs[state]
	}
	return runs
}

// path returns the address of the runs with the outcome that were created within a time.
func (o outcome) path(from time.Time, length time.Duration) string {
	return param.RunsPath(o.states, from, from.Add(length))
}

// NewHistogram draws parts of a time that follow each other without a gap. Each has the length
// part, or it ends earlier with the time, at until. NewHistogram returns nil if there are none.
func NewHistogram(quarters []storage.Quarter, part time.Duration,
	until, now time.Time) *Histogram {
	if len(quarters) == 0 {
		return nil
	}
	from := quarters[0].From
	c := newColumns(quarters, part, until)
	h := &Histogram{
		Now: now, Title: "Last 24 h", Path: "/runs", Runs: runsChart(c),
		Unsuccessful: unsuccessfulChart(c), Delays: delaysChart(c),
		Hours: histogramHours(quarters, part, until),
	}
	h.Runs.Ticks = ticksEvery(histogramStep(until.Sub(from)), from, until)
	for _, c := range []*HistogramChart{&h.Runs, &h.Unsuccessful, &h.Delays} {
		c.Height, c.AxisY = HistogramHeight+histogramAxis, HistogramHeight+histogramAxis-3
	}
	return h
}

// histogramStep returns the time between labels, of which there is room for about five.
func histogramStep(length time.Duration) time.Duration {
	switch {
	case length <= 2*time.Hour:
		return 30 * time.Minute
	case length <= 12*time.Hour:
		return 2 * time.Hour
	case length <= 25*time.Hour:
		return 6 * time.Hour
	case length <= 8*24*time.Hour:
		return 48 * time.Hour
	}
	return 7 * 24 * time.Hour
}

// histogramBar returns the bar of the i-th of n columns, without height.
func histogramBar(i, n int) HistogramBar {
	column := 100 / float64(n)
	return HistogramBar{X: Percent(float64(i) * column), W: Percent(column * (1 - histogramGap))}
}

// barLength returns the height of a number of runs where most of them have the height full.
func barLength(runs, most, full int) int {
	return max(minHistogramBar, (runs*full+most/2)/most)
}

// title begins the description of a column with its time.
func (c columns) title(from time.Time, text string) string {
	return fmt.Sprintf("%s, %s: %s", words.UTC(from), words.Span(c.lengthOf(from)), text)
}

// largest returns the largest number of runs of one part, and of all.
func largest(quarters []storage.Quarter, o outcome) (most, all int) {
	for _, q := range quarters {
		n := o.of(q)
		most, all = max(most, n), all+n
	}
	return most, all
}

func runsChart(cols columns) HistogramChart {
	o := endedOutcome()
	most, all := largest(cols.parts, o)
	c := HistogramChart{LineY: HistogramHeight,
		Words: fmt.Sprintf("%s, at most %s in %s", words.Count(all), words.Count(most),
			words.Span(cols.length))}
	if all == 0 {
		c.Words = "none"
	}
	for i, q := range cols.parts {
		runs := o.of(q)
		if runs == 0 {
			continue
		}
		b := histogramBar(i, len(cols.parts))
		b.Class, b.Path = o.class, cols.path(o, q.From)
		b.Title = cols.title(q.From, outcomeCounts(q))
		b.H = barLength(runs, most, HistogramHeight)
		b.Y, b.ReachH = c.LineY-b.H, HistogramHeight
		c.Bars = append(c.Bars, b)
	}
	return c
}

// outcomeCounts returns "120 succeeded, 2 failed".
func outcomeCounts(q storage.Quarter) string {
	return strings.Join(words.CountsByState(q.Runs), ", ")
}

// unsuccessfulChart draws failed runs above the line and skipped runs below it, so that colour is
// not the only signal.
func unsuccessfulChart(cols columns) HistogramChart {
	failed, skipped := failedOutcome(), skippedOutcome()
	mostFailed, allFailed := largest(cols.parts, failed)
	mostSkipped, allSkipped := largest(cols.parts, skipped)
	c := HistogramChart{LineY: HistogramHeight / 2,
		Words: words.Count(allFailed) + " failed, " + words.Count(allSkipped) + " skipped"}
	if allFailed+allSkipped == 0 {
		c.Words = "none"
	}
	most := max(mostFailed, mostSkipped)
	for i, q := range cols.parts {
		for _, o := range []outcome{failed, skipped} {
			runs := o.of(q)
			if runs == 0 {
				continue
			}
			b := histogramBar(i, len(cols.parts))
			b.Class, b.Path = o.class, cols.path(o, q.From)
			b.Title = cols.title(q.From, words.Count(runs)+" "+o.word)
			b.H = barLength(runs, most, c.LineY)
			b.ReachH = c.LineY
			if b.Y, b.ReachY = c.LineY, c.LineY; o.class == failed.class {
				b.Y, b.ReachY = c.LineY-b.H, 0
			}
			c.Bars = append(c.Bars, b)
		}
	}
	return c
}

// delaysChart draws the start delay that 95% of the runs did not exceed. Each bucket is one step,
// so the scale is about logarithmic.
func delaysChart(cols columns) HistogramChart {
	c := HistogramChart{LineY: HistogramHeight, Words: "no run started"}
	longest, ended := -1, endedOutcome()
	for i, q := range cols.parts {
		text, bucket := delayWords(q.Delays)
		if text == "" {
			continue
		}
		if bucket > longest {
			longest = bucket
			c.Words = "highest: " + text
		}
		b := histogramBar(i, len(cols.parts))
		b.Class, b.Path = "delay", cols.path(ended, q.From)
		b.Title = cols.title(q.From, text)
		b.H = (bucket + 1) * HistogramHeight / len(q.Delays)
		b.Y, b.ReachH = c.LineY-b.H, HistogramHeight
		c.Bars = append(c.Bars, b)
	}
	return c
}

// delayWords returns "at most 2 s" for the start delay that 95% of the runs did not exceed, and the
// bucket of that delay; "" without runs.
func delayWords(d storage.Delays) (text string, bucket int) {
	if d.Runs() == 0 {
		return "", 0
	}
	bound, above := d.Percentile(95)
	if above {
		return "more than " + words.Took(bound), len(d) - 1
	}
	return "at most " + words.Took(bound), storage.DelayBucket(bound) - 1
}

// histogramHours adds up the parts of each hour that has runs.
func histogramHours(quarters []storage.Quarter, part time.Duration,
	until time.Time) (hours []HistogramHour) {
	perHour := max(1, int(time.Hour/part))
	ended, succeeded, failed := endedOutcome(), succeededOutcome(), failedOutcome()
	skipped, cancelled := skippedOutcome(), cancelledOutcome()
	for ; len(quarters) > 0; quarters = quarters[min(perHour, len(quarters)):] {
		hour := quarters[:min(perHour, len(quarters))]
		if _, all := largest(hour, ended); all == 0 {
			continue
		}
		from := hour[0].From
		length := min(time.Duration(len(hour))*part, until.Sub(from))
		count := func(o outcome) HistogramCount {
			_, runs := largest(hour, o)
			return HistogramCount{runs, o.path(from, length)}
		}
		h := HistogramHour{From: from, Succeeded: count(succeeded), Failed: count(failed),
			Skipped: count(skipped), Cancelled: count(cancelled)}
		var delays storage.Delays
		for _, q := range hour {
			delays.Add(q.Delays)
		}
		h.Delay, _ = delayWords(delays)
		hours = append(hours, h)
	}
	return hours
}
