package charts

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Plot is the durations of a job's runs.
type Plot struct {
	Bars                  []Bar
	Width, Height, Middle int
	Words, Top            string
	First, Last, Now      time.Time
}

// NewPlot draws the durations of outcomes, which are newest first, from left to right. It returns
// nil if there are too few to compare.
func NewPlot(outcomes []storage.Outcome, now time.Time) *Plot {
	const least, width, height, slot = 2, 1000, 120, 100
	var ran []storage.Outcome
	for _, o := range slices.Backward(outcomes) {
		if _, ok := o.Took(); ok {
			ran = append(ran, o)
		}
	}
	if len(ran) < least {
		return nil
	}
	durations := make([]time.Duration, len(ran))
	for i, o := range ran {
		durations[i], _ = o.Took()
	}
	sorted := slices.Sorted(slices.Values(durations))
	longest := max(sorted[len(sorted)-1], time.Millisecond)
	p := &Plot{
		Width: width, Height: height, Middle: height / 2, Top: words.Took(longest),
		First: *ran[0].StartedAt, Last: *ran[len(ran)-1].StartedAt, Now: now,
		Words: fmt.Sprintf("The last %s that ran: %s at the median, %s at the longest.",
			words.Figure(len(ran), "run", "runs"), words.Took(sorted[len(sorted)/2]),
			words.Took(longest)),
	}
	step := width / max(len(ran), slot/2)
	for i, o := range ran {
		h := max(2, int(float64(durations[i])/float64(longest)*height))
		p.Bars = append(p.Bars, Bar{X: i * step, Y: height - h, W: max(1, step*3/4), H: h,
			State: o.State, Title: outcomeTitle(o)})
	}
	return p
}
