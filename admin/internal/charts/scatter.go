package charts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Scatter shows the durations and the start delays of a job's runs over time.
type Scatter struct {
	Job             string
	Now             time.Time
	Duration, Delay ScatterChart
	Rows            []ScatterRow // the same as a table, newest first
}

// ScatterChart is one chart of a Scatter. Firings that did not run are marks on its axis.
type ScatterChart struct {
	Points, Marks []ScatterPoint
	Ticks         []Tick
	Levels        []ScatterLevel
	Median        int // the height of the median
	Words         string
}

// ScatterPoint is a run, with the address of its page.
type ScatterPoint struct {
	X     Percent
	Y     int
	State jobs.State
	Path  string
	Title string
}

// ScatterLevel is a labelled height.
type ScatterLevel struct {
	Y    int
	Text string
}

// ScatterRow is a run.
type ScatterRow struct {
	ScheduledAt     time.Time
	State           jobs.State
	Path            string // of the run
	Explain         string // of the explanation of the firing
	Duration, Delay string // "" if it did not run
}

// The heights of a ScatterChart, in pixels.
const (
	scatterTop    = 8
	scatterBase   = 128 // the axis
	scatterMarks  = 140
	scatterAxis   = 162
	scatterHeight = 168
)

// The heights for templates.
func (ScatterChart) BaseY() int  { return scatterBase }
func (ScatterChart) AxisY() int  { return scatterAxis }
func (ScatterChart) MarksY() int { return scatterMarks }
func (ScatterChart) Height() int { return scatterHeight }

// NewScatter draws outcomes of a job, which are newest first. It returns nil if there are too few
// runs to compare.
func NewScatter(job string, outcomes []storage.Outcome, now time.Time) *Scatter {
	const least = 2
	s := &Scatter{Job: job, Now: now}
	var durations, delays []measured
	var marks []storage.Outcome
	for _, o := range slices.Backward(outcomes) {
		row := ScatterRow{ScheduledAt: o.ScheduledAt, State: o.State, Path: param.RunPath(o.Run),
			Explain: param.ExplainPath(job, o.ScheduledAt)}
		if o.StartedAt == nil && o.State.Final() {
			marks = append(marks, o)
		}
		if o.StartedAt != nil {
			delay := max(0, o.StartedAt.Sub(o.ScheduledAt))
			delays, row.Delay = append(delays, measured{o, delay}), words.Took(delay)
		}
		if duration, ran := o.Took(); ran {
			durations, row.Duration = append(durations, measured{o, duration}), words.Took(duration)
		}
		s.Rows = append(s.Rows, row)
	}
	if len(durations) < least {
		return nil
	}
	slices.Reverse(s.Rows)
	from, until := outcomes[len(outcomes)-1].ScheduledAt, outcomes[0].ScheduledAt
	for _, o := range outcomes { // a trigger may come between older scheduled times
		if o.ScheduledAt.Before(from) {
			from = o.ScheduledAt
		}
		until = maxTime(until, o.ScheduledAt)
	}
	axis := scatterScale{from, max(until.Sub(from), time.Second)}
	s.Duration = axis.chart(durations, marks, func(m measured) string {
		return outcomeTitle(m.Outcome)
	})
	s.Delay = axis.chart(delays, nil, func(m measured) string {
		return fmt.Sprintf("%s started after %s", words.UTC(m.ScheduledAt), words.Took(m.length))
	})
	s.Duration.Words = spreadWords(durations) + markWords(marks)
	s.Delay.Words = spreadWords(delays)
	return s
}

// measured is an outcome with a length: a duration or a delay.
type measured struct {
	storage.Outcome
	length time.Duration
}

// scatterScale is the time from left to right.
type scatterScale struct {
	from   time.Time
	length time.Duration
}

// x returns the position of a time. Points at both ends are not cut.
func (s scatterScale) x(at time.Time) Percent {
	const margin = 1.5
	share := float64(at.Sub(s.from)) / float64(s.length)
	return Percent(margin + share*(100-2*margin))
}

func (s scatterScale) chart(values []measured, marks []storage.Outcome,
	title func(measured) string) (c ScatterChart) {
	top := roundLength(slices.MaxFunc(values, compareMeasured).length)
	y := func(d time.Duration) int {
		return scatterBase - int(float64(d)/float64(top)*(scatterBase-scatterTop))
	}
	c.Levels = []ScatterLevel{{y(top), words.Took(top)}, {y(top / 2), words.Took(top / 2)}}
	c.Median = y(median(values))
	for _, tick := range ticksEvery(scatterStep(s.length), s.from, s.from.Add(s.length)) {
		tick.X = s.x(tick.At)
		c.Ticks = append(c.Ticks, tick)
	}
	for _, m := range values {
		c.Points = append(c.Points, ScatterPoint{s.x(m.ScheduledAt), y(m.length), m.State,
			param.RunPath(m.Run), title(m)})
	}
	for _, o := range marks {
		c.Marks = append(c.Marks, ScatterPoint{s.x(o.ScheduledAt), scatterMarks, o.State,
			param.RunPath(o.Run), outcomeTitle(o)})
	}
	return c
}

// scatterStep returns the time between labels, of which there is room for few.
func scatterStep(length time.Duration) time.Duration {
	const day = 24 * time.Hour
	for _, step := range []time.Duration{10 * time.Second, 30 * time.Second, time.Minute,
		5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
		3 * time.Hour, 6 * time.Hour} {
		if length/step <= 4 {
			return step
		}
	}
	return max(12*time.Hour, (length/(3*day)).Truncate(1)*day)
}

// roundLength returns a round length that is not below d.
func roundLength(d time.Duration) time.Duration {
	for unit := 10 * time.Millisecond; unit <= 10*time.Second; unit *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if d <= n*unit && n*unit < time.Minute {
				return n * unit
			}
		}
	}
	for _, step := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute,
		10 * time.Minute, 20 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
		4 * time.Hour, 6 * time.Hour, 12 * time.Hour} {
		if d <= step {
			return step
		}
	}
	const day = 24 * time.Hour
	return (d + day - 1).Truncate(day)
}

func compareMeasured(a, b measured) int { return cmp.Compare(a.length, b.length) }

// median returns the middle of at least one value.
func median(values []measured) time.Duration {
	sorted := slices.SortedFunc(slices.Values(values), compareMeasured)
	return sorted[len(sorted)/2].length
}

// spreadWords returns "100 runs: 9.0 s at the median, 12 s at the longest".
func spreadWords(values []measured) string {
	return fmt.Sprintf("%s: %s at the median, %s at the longest",
		words.Figure(len(values), "run", "runs"), words.Took(median(values)),
		words.Took(slices.MaxFunc(values, compareMeasured).length))
}

// markWords returns ", 2 skipped, 1 missed" for outcomes that did not run.
func markWords(marks []storage.Outcome) string {
	counts := make(map[jobs.State]int)
	for _, o := range marks {
		counts[o.State]++
	}
	return strings.Join(append([]string{""}, words.CountsByState(counts)...), ", ")
}
