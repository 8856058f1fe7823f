package charts

import (
	"html"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/jobs"
)

// Fragment is a part of an SVG picture, in which everything is escaped. The function svg of the
// templates inserts it. Its type is not template.HTML, because html/template would then be part of
// every program that reads the status of a cluster.
type Fragment string

// svg builds the hundreds of equal elements of a picture. A template would call several functions
// by reflection for each of their attributes.
type svg struct{ strings.Builder }

// add appends texts that are SVG, and texts that are not and are escaped: the second, the fourth
// and so on.
func (s *svg) add(parts ...string) {
	for i, part := range parts {
		if i%2 == 1 {
			part = html.EscapeString(part)
		}
		s.WriteString(part)
	}
}

// fragment returns what was added.
func (s *svg) fragment() Fragment { return Fragment(s.String()) }

// BarElements returns the bars of a lane.
func (l Lane) BarElements() Fragment {
	var out svg
	for _, b := range l.Bars {
		class, fill, key := b.Class, "", ""
		if b.Several() > 0 {
			class = strings.Join([]string{class, "several"}, " ")
		}
		if b.Class == "wait" {
			fill = ` fill="url(#hatch)"`
		}
		if b.Key != "" {
			key = ` data-key="` + b.Key + `"`
		}
		out.add(`<a href="`, b.Path, `" class="bar `, class, `"`+key+`><title>`, b.Title,
			`</title><rect x="`, b.X.String(), `" y="`, strconv.Itoa(b.Y), `" width="`,
			b.W.String(), `" height="`, strconv.Itoa(b.H), `"`+fill+"/>")
		if b.labelled() {
			// a picture of its own cuts the text at the end of the bar
			out.add(`<svg x="`, b.X.String(), `" y="`, strconv.Itoa(b.Y), `" width="`,
				b.W.String(), `" height="`, strconv.Itoa(b.H), `"><text x="5" y="`,
				strconv.Itoa((b.H+labelSize)/2-1), `">`, b.Label, "</text>")
			if b.W >= twiceLabelledWidth {
				out.add(`<text x="100%" dx="-5" text-anchor="end" y="`,
					strconv.Itoa((b.H+labelSize)/2-1), `">`, b.Label, "</text>")
			}
			out.add("</svg>")
		}
		out.add("</a>\n")
	}
	return out.fragment()
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
	var out svg
	for _, b := range c.Bars {
		x, width := b.X.String(), b.W.String()
		out.add(`<a href="`, b.Path, `" class="`, b.Class, `" tabindex="-1"><title>`, b.Title,
			`</title><rect class="reach" x="`, x, `" y="`, strconv.Itoa(b.ReachY), `" width="`,
			width, `" height="`, strconv.Itoa(b.ReachH), `"/><rect x="`, x, `" y="`,
			strconv.Itoa(b.Y), `" width="`, width, `" height="`, strconv.Itoa(b.H), "\"/></a>\n")
	}
	return out.fragment()
}
