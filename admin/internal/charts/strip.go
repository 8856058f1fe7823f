package charts

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Bar is one run in a picture.
type Bar struct {
	X, Y, W, H int
	State      jobs.State
	Title      string
}

// StripOutcomes is the number of outcomes that a strip has room for.
const StripOutcomes = 20

// Strip is the last outcomes of a job.
type Strip struct {
	Bars          []Bar
	Width, Height int
	Words         string
}

// The dimensions of a strip, in pixels. Height and position show how a run ended, so that colour is
// not the only signal.
const (
	stripStep   = 5
	stripWidth  = 4
	stripHeight = 18
)

// NewStrip draws outcomes, which are newest first, from left to right.
func NewStrip(outcomes []storage.Outcome) Strip {
	s := Strip{Height: stripHeight, Width: max(len(outcomes), StripOutcomes) * stripStep,
		Words: outcomeWords(outcomes)}
	for i, o := range outcomes {
		b := Bar{X: s.Width - (i+1)*stripStep, W: stripWidth, State: o.State,
			Title: outcomeTitle(o), Y: 8, H: 10}
		switch o.State {
		case jobs.Failed, jobs.TimedOut, jobs.Lost:
			b.Y, b.H = 0, stripHeight
		case jobs.Skipped, jobs.Missed: // nothing ran
			b.Y, b.H = 0, 6
		case jobs.Waiting:
			b.Y, b.H = 14, 4
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
