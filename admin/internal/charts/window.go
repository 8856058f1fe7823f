package charts

import (
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// Window is the time that a page shows.
type Window struct {
	From, Until time.Time
	Live        bool // it ends now and moves with the clock
}

// The lengths that a window may have.
const (
	minWindow = 10 * time.Second
	maxWindow = 31 * 24 * time.Hour
)

// WindowSpan is a length to choose.
type WindowSpan struct {
	Name   string // value of the parameter
	Words  string
	Length time.Duration
}

// WindowSpans returns the lengths to choose.
func WindowSpans() []WindowSpan {
	return []WindowSpan{
		{"15m", "15 min", 15 * time.Minute}, {"1h", "1 hour", time.Hour},
		{"6h", "6 hours", 6 * time.Hour},
		{"24h", "1 day", 24 * time.Hour}, {"7d", "7 days", 7 * 24 * time.Hour},
	}
}

// WindowQuery are the parsed parameters of a window, before the current time is known.
type WindowQuery struct {
	from, until time.Time
	span        WindowSpan
}

// ReadWindow parses from, until and span. If both ends are given, span is ignored. If none is
// given, the window ends now.
func ReadWindow(p param.Set, byDefault string) (w WindowQuery, err error) {
	var names []string
	asked := p.Get("span")
	if asked == "" {
		asked = byDefault
	}
	for _, s := range WindowSpans() {
		names = append(names, s.Name)
		if s.Name == asked {
			w.span = s
		}
	}
	if w.span.Length == 0 {
		return w, param.Errorf("span is %q, expected one of %s", words.Cut(asked, 100),
			words.List(names))
	}
	if w.from, err = p.Time("from"); err != nil {
		return w, err
	}
	if w.until, err = p.Time("until"); err != nil {
		return w, err
	}
	if !w.from.IsZero() && !w.until.IsZero() {
		length := w.until.Sub(w.from)
		if length < minWindow || length > maxWindow {
			return w, param.Errorf("until is %s after from, expected between %s and %s",
				words.Span(length), words.Span(minWindow), words.Span(maxWindow))
		}
	}
	return w, nil
}

// Live reports whether the window ends now.
func (w WindowQuery) Live() bool { return w.from.IsZero() && w.until.IsZero() }

// At returns the window at the time now.
func (w WindowQuery) At(now time.Time) Window {
	switch {
	case w.Live():
		return Window{now.Add(-w.span.Length), now, true}
	case w.from.IsZero():
		return Window{w.until.Add(-w.span.Length), w.until, false}
	case w.until.IsZero():
		return Window{w.from, w.from.Add(w.span.Length), false}
	}
	return Window{w.from, w.until, false}
}

// WindowLinks are links to other windows.
type WindowLinks struct {
	Spans                []WindowLink
	Earlier, Later       string
	In, Out              string // "" if there is no such length
	FieldFrom, FieldTill string // values of form fields
	Live                 bool
}

// WindowLink is a link to another window.
type WindowLink struct {
	Words, Path string
	Here        bool
	Night       bool // the last night, which the script moves into the zone of the viewer
}

// NewWindowLinks returns the links of a window.
func NewWindowLinks(p param.Set, path string, asked WindowQuery, now time.Time) WindowLinks {
	w := asked.At(now)
	to := func(from, until time.Time) string {
		return p.With(path, "from", from.Format(time.RFC3339), "until", until.Format(time.RFC3339),
			"span", "", "skip", "")
	}
	length := w.Until.Sub(w.From)
	l := WindowLinks{
		Earlier:   to(w.From.Add(-length/2), w.Until.Add(-length/2)),
		Later:     to(w.From.Add(length/2), w.Until.Add(length/2)),
		FieldFrom: param.FieldTime(w.From.Truncate(time.Second)),
		FieldTill: param.FieldTime(w.Until.Truncate(time.Second)), Live: w.Live,
	}
	if length/2 >= minWindow+2*time.Second {
		l.In = to(w.From.Add(length/4), w.Until.Add(-length/4))
		if w.Live { // a live window ends now, so zooming keeps the end
			l.In = to(w.Until.Add(-length/2), w.Until)
		}
	}
	if length*2 <= maxWindow {
		l.Out = to(w.From.Add(-length/2), w.Until.Add(length/2))
	}
	for _, s := range WindowSpans() {
		l.Spans = append(l.Spans, WindowLink{Words: s.Words,
			Path: p.With(path, "from", "", "until", "", "span", s.Name, "skip", ""),
			Here: w.Live && asked.span.Name == s.Name})
	}
	begin, end := LastNight(now)
	l.Spans = append(l.Spans, WindowLink{Words: "Last night", Night: true, Path: to(begin, end),
		Here: w.From.Equal(begin) && w.Until.Equal(end)})
	return l
}

// LastNight returns the last night in UTC: from 20:00 to 06:00.
func LastNight(now time.Time) (begin, end time.Time) {
	const evening, morning = -4 * time.Hour, 6 * time.Hour // from midnight
	midnight := now.UTC().Truncate(24 * time.Hour)
	return midnight.Add(evening), midnight.Add(morning)
}
