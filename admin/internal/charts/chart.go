package charts

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The dimensions of a chart. Widths are percentages of the window, so that the chart fills the page
// and its text is not stretched. Heights are in pixels.
const (
	AxisHeight   = 26
	labelHeight  = 22 // of a lane's name, above its rows
	marksHeight  = 12 // of the marks between name and rows
	rowHeight    = 17
	BarHeight    = 14 // of a bar in a row
	maxBarHeight = 24 // of the bars of a lane with room
	laneGap      = 6
	minRows      = 2 // the least height of a lane, in rows
	// MaxRows is the largest height of a lane, in rows.
	MaxRows = 5

	// percent, about 1.5 pixels in the narrowest chart
	minBarWidth     = 0.15
	mergeWidth      = 0.3 // a narrower bar may be merged with the bar beside it
	mergeGap        = 0.15
	maxMergedWidth  = 1.2 // maximum width of a merged bar
	minMarkDistance = 1.0 // marks that are closer are merged
)

// Percent is a position or a width.
type Percent float64

// String returns the value of an SVG attribute.
func (p Percent) String() string {
	return strconv.FormatFloat(math.Round(float64(p)*1000)/1000, 'f', -1, 64) + "%"
}

// Chart is a timeline with its layout.
type Chart struct {
	Lanes       []Lane
	Ticks       []Tick
	Restarts    []Line
	Losses      []Line // of replicas
	Now         *Percent
	Height      int
	Merged      int // runs that are drawn as part of a merged bar
	Overlapping int // runs that overlap more others than there are rows
	Words       string
}

// Lane is the runs of a resource.
type Lane struct {
	Y         int
	Rows      int // its height: from minRows to MaxRows
	BarsY     int
	LineY     int
	Bars      []RunBar
	Marks     []RunBar
	Statement string // of a lane without runs
}

// RunBar is a run, a wait, several merged runs, or a mark.
type RunBar struct {
	X, W  Percent
	Y, H  int
	Class string // a state, or "wait"
	Path  string
	Title string
	Label string // the job of a single run
	Key   string // of the part of a run; "" for merged bars

	begin, end time.Time
	runs       int
	states     map[jobs.State]int
}

// Several returns the number of merged runs, or 0 for a single run.
func (b RunBar) Several() int {
	if b.runs > 1 {
		return b.runs
	}
	return 0
}

type Line struct {
	X     Percent
	Title string
}

// Picture is what a chart shows.
type Picture struct {
	Now, From, Until time.Time
	Lanes            [][]storage.RunInterval // of each lane, newest first
	// Heights are those of the lanes, in rows. A lane without one is as high as its runs need.
	Heights  []int
	Restarts []storage.Restart // of the memcached servers
	Losses   []Loss
	// zoom returns the address of a section of the window.
	Zoom func(from, until time.Time) string
}

// New lays out a picture. The chart has the lanes of the picture in their order.
func New(p Picture) *Chart {
	c := &Chart{Height: AxisHeight, Ticks: ticks(p.From, p.Until)}
	d := drawer{Picture: p, c: c, length: float64(p.Until.Sub(p.From))}
	for i, runs := range p.Lanes {
		height := 0
		if i < len(p.Heights) {
			height = p.Heights[i]
		}
		lane := d.lane(runs, c.Height, height)
		c.Lanes = append(c.Lanes, lane)
		c.Height += laneHeight(lane.Rows)
	}
	for _, l := range p.Losses {
		c.Losses = append(c.Losses, Line{d.x(l.At), l.title()})
	}
	for _, r := range p.Restarts {
		c.Restarts = append(c.Restarts,
			Line{d.x(r.NoticedAt),
				fmt.Sprintf("memcached %s restarted and lost its locks, noticed by %s %s",
					words.Cut(r.Server, 100), words.Cut(r.NoticedBy, 60), words.UTC(r.NoticedAt))})
	}
	if !p.Now.After(p.Until) && !p.Now.Before(p.From) {
		now := d.x(p.Now)
		c.Now = &now
	}
	c.Words = fmt.Sprintf("%s from %s to %s", words.Figure(len(p.Lanes), "resource", "resources"),
		words.UTC(p.From), words.UTC(p.Until))
	return c
}

func laneHeight(rows int) int { return labelHeight + marksHeight + rows*rowHeight + laneGap }
