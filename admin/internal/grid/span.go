package grid

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Span is a time to show and the length of its columns.
type Span struct {
	Name   string // value of the parameter
	Words  string
	Length time.Duration
	Column time.Duration

	heading time.Duration // of several columns
	layout  string        // of the headings
}

// DefaultSpan is the name of the span without a parameter.
const DefaultSpan = "24h"

// Spans returns the spans to choose.
func Spans() []Span {
	const day = 24 * time.Hour
	return []Span{
		{"6h", "6 h", 6 * time.Hour, 15 * time.Minute, time.Hour, "15"},
		{"24h", "24 h", day, 30 * time.Minute, time.Hour, "15"},
		{"7d", "7 days", 7 * day, 4 * time.Hour, day, "Jan 2"},
		{"30d", "30 days", 30 * day, day, 3 * day, "Jan 2"},
	}
}

// Query is the time that a grid shows, before the current time is known.
type Query struct {
	span  Span
	until time.Time // zero: now
	only  Only
	Open  string // a job whose family is unfolded, or ""
}

// Only selects jobs by the outcomes of their runs.
type Only struct {
	Name   string // value of the parameter
	Words  string
	States []jobs.State // nil: all jobs
}

// Onlys returns the choices of outcomes. The first is that of all jobs.
func Onlys() []Only {
	failed := storage.FailedStates()
	return []Only{{"", "All jobs", nil}, {"failures", "Failed", failed},
		{"failures-or-skips", "Failed or skipped",
			append(slices.Clip(failed), jobs.Skipped, jobs.Missed)}}
}

// Params are the parameters of a grid, without those that select its jobs by name.
func Params() []string { return []string{"span", "until", "only"} }

// ReadQuery parses span, until and only.
func ReadQuery(p param.Set) (q Query, err error) {
	asked := p.Get("span")
	if asked == "" {
		asked = DefaultSpan
	}
	var names []string
	for _, s := range Spans() {
		names = append(names, s.Name)
		if s.Name == asked {
			q.span = s
		}
	}
	if q.span.Length == 0 {
		return q, param.Errorf("span is %q, expected one of %s", words.Cut(asked, 100),
			words.List(names))
	}
	var onlys []string
	for _, o := range Onlys() {
		onlys = append(onlys, o.Name)
	}
	only, err := param.OneOf(p, "only", onlys[1:])
	if err != nil {
		return q, err
	}
	q.only = Onlys()[slices.Index(onlys, only)]
	q.Open = p.Get("open")
	q.until, err = p.Time("until")
	return q, err
}

// Live reports whether the grid ends now.
func (q Query) Live() bool { return q.until.IsZero() }

// at returns the shown time at the time now. It begins and ends with a column, so the last column
// may be in the future in part.
func (q Query) at(now time.Time) (from, until time.Time) {
	if until = q.until; q.Live() {
		until = now
	}
	if end := until.UTC().Truncate(q.span.Column); end.Before(until) {
		until = end.Add(q.span.Column)
	} else {
		until = end
	}
	return until.Add(-q.span.Length), until
}
