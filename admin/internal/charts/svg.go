package charts

import (
	"strconv"

	"github.com/holdfast-dev/holdfast/admin/internal/markup"
	"github.com/holdfast-dev/holdfast/jobs"
)

// Fragment is a part of an SVG picture, in which everything is escaped. The function svg of the
// templates inserts it.
type Fragment string

// BarElements returns the bars of a lane.
func (l Lane) BarElements() Fragment {
	var out markup.Builder
	for _, b := range l.Bars {
		out.Add(`<a href="`, b.Path, `" class="bar `, b.Class)
		out.AddIf(b.Several() > 0, ` several`)
		if b.Key != "" {
			out.Add(`" data-key="`, b.Key)
		}
		out.Add(`"><title>`, b.Title, `</title><rect`)
		b.addPlace(&out)
		out.AddIf(b.Class == "wait", ` fill="url(#hatch)"`)
		out.Add(`/>`)
		if b.labelled() {
			// a picture of its own cuts the text at the end of the bar
			y := strconv.Itoa((b.H+labelSize)/2 - 1)
			out.Add(`<svg`)
			b.addPlace(&out)
			out.Add(`><text x="5" y="`, y, `">`, b.Label, `</text>`)
			if b.W >= twiceLabelledWidth {
				out.Add(`<text x="100%" dx="-5" text-anchor="end" y="`, y, `">`, b.Label, `</text>`)
			}
			out.Add(`</svg>`)
		}
		out.Add("</a>\n")
	}
	return Fragment(out.String())
}

// addPlace adds the place of a bar as attributes.
func (b RunBar) addPlace(out *markup.Builder) {
	out.Add(` x="`, b.X.String(), `" y="`, strconv.Itoa(b.Y), `" width="`, b.W.String(),
		`" height="`, strconv.Itoa(b.H), `"`)
}

// A bar has a label if it is at least so wide, in percent. A wide bar has one at both ends, because
// a narrow window does not show all of it. The texts have labelSize.
const (
	labelledWidth      = 6
	twiceLabelledWidth = 40
	labelSize          = 11
)

// labelled reports whether the bar has room for the name of its job. The colours of other bars have
// too little contrast with a text.
func (b RunBar) labelled() bool {
	switch b.Class {
	case "wait", string(jobs.Succeeded), string(jobs.Running), string(jobs.Failed),
		string(jobs.TimedOut), string(jobs.Lost):
		return b.Label != "" && b.W >= labelledWidth && b.H > labelSize
	}
	return false
}

// BarElements returns the bars of a histogram.
func (c HistogramChart) BarElements() Fragment {
	var out markup.Builder
	out.Grow(400 * len(c.Bars))
	for _, b := range c.Bars {
		x, width := b.X.String(), b.W.String()
		out.Add(`<a href="`, b.Path, `" class="`, b.Class, `" tabindex="-1"><title>`, b.Title,
			`</title><rect class="reach" x="`, x, `" y="`, strconv.Itoa(b.ReachY), `" width="`,
			width, `" height="`, strconv.Itoa(b.ReachH), `"/><rect x="`, x, `" y="`,
			strconv.Itoa(b.Y), `" width="`, width, `" height="`, strconv.Itoa(b.H), "\"/></a>\n")
	}
	return Fragment(out.String())
}
