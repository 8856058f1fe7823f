package charts

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// The dimensions of an agenda, in pixels.
const (
	agendaAxis    = 30
	agendaRow     = 38
	agendaHeading = 26
	agendaBar     = 18
	densityHeight = 52
	densityMargin = 6
)

// AgendaLane is the expected firings of one job.
type AgendaLane struct {
	Job         string
	Times       []ExpectedFiring // none for a job that fires often
	First, Last time.Time
	Firings     int
	Usual, Long time.Duration // of its runs; 0 if unknown
	Paused      bool          // its firings do not start
	Heads       bool          // a heading is above the lane
}

// ExpectedFiring is one firing.
type ExpectedFiring struct {
	ScheduledAt, StartsAt time.Time // StartsAt is zero if the job is paused
	WaitsFor, Resource    string    // "" if it does not wait
	Skipped               bool
}

// Agenda is the picture of what runs when, in the future.
type Agenda struct {
	Rows    []AgendaRow
	Ticks   []Tick
	Height  int
	Density []DensityBar
	Words   string // of the picture
	// DensityWords is the message of the bars of density.
	DensityWords string
	DensityUnit  string // what a bar of density counts, and the largest number
}

// AgendaRow is the bars of one job.
type AgendaRow struct {
	Y int // its upper edge
	// HeadingY is the upper edge of the heading above it; 0: it has none.
	HeadingY int
	Bars     []AgendaBar
}

// AgendaBar is a time of one firing, or of all firings of a job that fires often.
type AgendaBar struct {
	X, W  Percent
	Y     int
	Class string // expect, expect95, waitbar, skipped, hollow if the job is paused
	Path  string
	Title string
}

// DensityBar counts the firings of a part of the time.
type DensityBar struct {
	X, W  Percent
	Y, H  int
	Class string
}

// AxisY returns the lower end of the axis in pixels.
func (Agenda) AxisY() int { return agendaAxis }

// HeadingHeight returns the height of a heading in pixels.
func (Agenda) HeadingHeight() int { return agendaHeading }

// BarHeight returns the height of a bar in pixels.
func (Agenda) BarHeight() int { return agendaBar }

// DensityHeight returns the height of the bars of density in pixels, with a margin above.
func (Agenda) DensityHeight() int { return densityHeight + densityMargin }

// NewAgenda draws the firings of jobs. The numbers of firings and of expected waits are those of
// equal parts of the time.
func NewAgenda(from, until time.Time, lanes []AgendaLane, firings, waits []int) *Agenda {
	a := &Agenda{Height: agendaAxis, Ticks: ticks(from, until),
		Words: fmt.Sprintf("Expected runs from %s to %s", words.UTC(from), words.UTC(until))}
	d := agendaDrawer{from: from, length: float64(until.Sub(from))}
	for _, lane := range lanes {
		row := AgendaRow{Y: a.Height}
		if lane.Heads {
			row.HeadingY = row.Y
			row.Y += agendaHeading
		}
		a.Height = row.Y + agendaRow
		y := row.Y + (agendaRow-agendaBar)/2
		if len(lane.Times) == 0 {
			row.Bars = append(row.Bars, d.frequent(lane, y))
		}
		for _, f := range lane.Times {
			row.Bars = append(row.Bars, d.firing(lane, f, y)...)
		}
		a.Rows = append(a.Rows, row)
	}
	a.draw(until.Sub(from)/time.Duration(max(len(firings), 1)), firings, waits)
	return a
}

// draw adds the bars of density.
func (a *Agenda) draw(part time.Duration, firings, waits []int) {
	most, waiting := 0, 0
	for i, n := range firings {
		most, waiting = max(most, n), waiting+waits[i]
	}
	a.DensityWords = fmt.Sprintf("Firings in each %s: at most %s, %s of all are expected to wait",
		words.Span(part), words.Count(most), words.Count(waiting))
	a.DensityUnit = fmt.Sprintf("per %s, at most %s", words.Span(part), words.Count(most))
	for i := range firings {
		for _, c := range []struct {
			n     int
			class string
		}{{firings[i], "started soft"}, {waits[i], "skipped"}} {
			if c.n == 0 {
				continue
			}
			b := histogramBar(i, len(firings))
			h := barLength(c.n, most, densityHeight)
			a.Density = append(a.Density, DensityBar{b.X, b.W, densityHeight - h, h, c.class})
		}
	}
}

type agendaDrawer struct {
	from   time.Time
	length float64
}

func (d agendaDrawer) x(at time.Time) Percent {
	return Percent(min(max(float64(at.Sub(d.from))/d.length, 0), 1) * 100)
}

func (d agendaDrawer) bar(begin, end time.Time, y int, class, path, title string) AgendaBar {
	b := AgendaBar{X: d.x(begin), Y: y, Class: class, Path: path, Title: title}
	b.W = max(d.x(end)-b.X, minBarWidth)
	b.X = min(b.X, 100-b.W)
	return b
}

// frequent returns one bar for all firings of a job.
func (d agendaDrawer) frequent(l AgendaLane, y int) AgendaBar {
	title := fmt.Sprintf("%s: %s firings from %s to %s", words.Cut(l.Job, 100),
		words.Count(l.Firings), words.UTC(l.First), words.UTC(l.Last))
	if l.Paused {
		return d.bar(l.First, l.Last.Add(l.Usual), y, "hollow", param.JobPath(l.Job),
			title+", none starts because the job is paused")
	}
	return d.bar(l.First, l.Last.Add(l.Usual), y, "expect95", param.JobPath(l.Job), title)
}

// firing returns the bars of a firing: its wait, how long it runs at the 95th percentile, and how
// long it usually runs.
func (d agendaDrawer) firing(l AgendaLane, f ExpectedFiring, y int) []AgendaBar {
	title := fmt.Sprintf("%s scheduled %s", words.Cut(l.Job, 100), words.UTC(f.ScheduledAt))
	path := param.ExplainPath(l.Job, f.ScheduledAt)
	if l.Paused {
		title += ": does not start, because the job is paused"
		return []AgendaBar{d.bar(f.ScheduledAt, f.ScheduledAt.Add(l.Usual), y, "hollow", path,
			title)}
	}
	if f.Skipped {
		title += fmt.Sprintf(": a skip is expected, because %s holds %s",
			words.Cut(f.WaitsFor, 100), words.Cut(f.Resource, 100))
		return []AgendaBar{d.bar(f.ScheduledAt, f.ScheduledAt, y, "skipped", path, title)}
	}
	var bars []AgendaBar
	if wait := f.StartsAt.Sub(f.ScheduledAt); wait > 0 {
		title += fmt.Sprintf(", waits %s for %s", words.Took(wait), words.Cut(f.WaitsFor, 100))
		bars = append(bars, d.bar(f.ScheduledAt, f.StartsAt, y, "waitbar", path, title))
	}
	if l.Usual > 0 {
		title += ", usually runs " + words.Took(l.Usual)
	}
	long := d.bar(f.StartsAt, f.StartsAt.Add(l.Long), y, "expect95", path, title)
	usual := d.bar(f.StartsAt, f.StartsAt.Add(l.Usual), y, "expect", path, title)
	if long.W > usual.W {
		bars = append(bars, long)
	}
	return append(bars, usual)
}

// Skips reports whether a skip is expected.
func (b AgendaBar) Skips() bool { return b.Class == "skipped" }

// Waits reports whether the bar is a wait.
func (b AgendaBar) Waits() bool { return b.Class == "waitbar" }

// Legend reports whether bars of a class are in the picture.
func (a Agenda) Legend(class string) bool {
	return slices.ContainsFunc(a.Rows, func(r AgendaRow) bool {
		return slices.ContainsFunc(r.Bars, func(b AgendaBar) bool { return b.Class == class })
	})
}
