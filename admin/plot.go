package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// bar is one run in a picture.
type bar struct {
	X, Y, W, H int
	State      jobs.State
	Title      string
}

// strip is the last outcomes of a job.
type strip struct {
	Bars          []bar
	Width, Height int
	Words         string
}

// The dimensions of a strip, in pixels. Height and position show how a run ended, so that colour is
// not the only signal.
const (
	stripStep   = 7
	stripWidth  = 5
	stripHeight = 20
)

// newStrip draws outcomes, which are newest first, from left to right.
func newStrip(outcomes []storage.Outcome) strip {
	s := strip{Height: stripHeight, Width: max(len(outcomes), stripOutcomes) * stripStep,
		Words: outcomeWords(outcomes)}
	for i, o := range outcomes {
		b := bar{X: s.Width - (i+1)*stripStep, W: stripWidth, State: o.State,
			Title: outcomeTitle(o), Y: 8, H: 12}
		switch o.State {
		case jobs.Failed, jobs.TimedOut, jobs.Lost, jobs.Cancelled:
			b.Y, b.H = 0, stripHeight
		case jobs.Skipped, jobs.Missed:
			b.Y, b.H = 0, 7
		case jobs.Waiting:
			b.Y, b.H = 16, 4
		}
		s.Bars = append(s.Bars, b)
	}
	return s
}

func outcomeTitle(o storage.Outcome) string {
	text := o.ScheduledAt.UTC().Format("2006-01-02 15:04:05 UTC") + " " + words.State(o.State)
	if duration, ran := o.Took(); ran {
		text += " after " + words.Took(duration)
	}
	if o.Reason != "" {
		text += ": " + words.ShortReason(o.Reason)
	}
	return text
}

// outcomeWords counts outcomes: "last 20 runs: 18 succeeded, 2 skipped".
func outcomeWords(outcomes []storage.Outcome) string {
	counts := make(map[jobs.State]int)
	for _, o := range outcomes {
		counts[o.State]++
	}
	var parts []string
	for _, state := range jobs.States() {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, words.State(state)))
		}
	}
	return fmt.Sprintf("last %s: %s", words.Figure(len(outcomes), "run", "runs"),
		strings.Join(parts, ", "))
}

// plot is the durations of a job's runs.
type plot struct {
	Bars                  []bar
	Width, Height, Middle int
	Words, Top            string
	First, Last, Now      time.Time
}

// newPlot draws the durations of outcomes, which are newest first, from left to right. It returns
// nil if there are too few to compare.
func newPlot(outcomes []storage.Outcome, now time.Time) *plot {
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
	p := &plot{
		Width: width, Height: height, Middle: height / 2, Top: words.Took(longest),
		First: *ran[0].StartedAt, Last: *ran[len(ran)-1].StartedAt, Now: now,
		Words: fmt.Sprintf("The last %s that ran: %s at the median, %s at the longest.",
			words.Figure(len(ran), "run", "runs"), words.Took(sorted[len(sorted)/2]),
			words.Took(longest)),
	}
	step := width / max(len(ran), slot/2)
	for i, o := range ran {
		h := max(2, int(float64(durations[i])/float64(longest)*height))
		p.Bars = append(p.Bars, bar{X: i * step, Y: height - h, W: max(1, step*3/4), H: h,
			State: o.State, Title: outcomeTitle(o)})
	}
	return p
}
