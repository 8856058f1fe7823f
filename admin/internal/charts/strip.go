package charts

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/admin/internal/markup"
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

// The dimensions of a strip, in pixels. The width of a bar, its height and its position are in
// the stylesheet. The last two show how a run ended, so that colour is not the only signal.
const (
	stripStep   = 5
	stripHeight = 18
)

// AddStrip draws the last outcomes of a job, which are newest first, from left to right. The label
// has them in words for screen readers. A page has hundreds of bars, so one has only what differs
// from most of them: its position, and its state unless the run succeeded.
func AddStrip(out *markup.Builder, outcomes []storage.Outcome) {
	width := max(len(outcomes), StripOutcomes) * stripStep
	out.Add(`<svg class="spark" viewBox="0 0 `, strconv.Itoa(width), ` `,
		strconv.Itoa(stripHeight), `" role="img" aria-label="`, outcomeWords(outcomes), `">`)
	for i, o := range outcomes {
		out.Add(`<rect`)
		if o.State != jobs.Succeeded {
			out.Add(` class="`, string(o.State), `"`)
		}
		out.Add(` x="`, strconv.Itoa(width-(i+1)*stripStep), `"><title>`, outcomeTitle(o),
			`</title></rect>`)
	}
	out.Add(`</svg>`)
}

// timeAndZone is the format of words.UTC with a blank at its end.
const timeAndZone = "2006-01-02 15:04:05 UTC "

func outcomeTitle(o storage.Outcome) string {
	text := make([]byte, 0, 80)
	text = o.ScheduledAt.UTC().AppendFormat(text, timeAndZone)
	text = append(text, words.State(o.State)...)
	if duration, ran := o.Took(); ran {
		text = append(append(text, " after "...), words.Took(duration)...)
	}
	if o.Reason != "" {
		text = append(append(text, ": "...), words.ShortReason(o.Reason)...)
	}
	return string(text)
}

// outcomeWords counts outcomes: "last 20 runs: 18 succeeded, 2 skipped".
func outcomeWords(outcomes []storage.Outcome) string {
	counts := make(map[jobs.State]int)
	for _, o := range outcomes {
		counts[o.State]++
	}
	return fmt.Sprintf("last %s: %s", words.Figure(len(outcomes), "run", "runs"),
		strings.Join(words.CountsByState(counts), ", "))
}
