package admin

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// The dimensions of a chart. Widths are percentages of the window, so that the chart fills the page
// and its text is not stretched. Heights are in pixels.
const (
	axisHeight  = 26
	labelHeight = 22 // of a lane's name, above its rows
	marksHeight = 12 // of the marks between name and rows
	rowHeight   = 17
	barHeight   = 14
	laneGap     = 6
	maxRows     = 5

	// percent, about 1.5 pixels in the narrowest chart
	minBarWidth     = 0.15
	mergeWidth      = 0.3 // a narrower bar may be merged with the bar beside it
	mergeGap        = 0.15
	maxMergedWidth  = 1.2 // maximum width of a merged bar
	minMarkDistance = 1.0 // marks that are closer are merged
)

// percent is a position or a width.
type percent float64

// String returns the value of an SVG attribute.
func (p percent) String() string {
	return strconv.FormatFloat(math.Round(float64(p)*1000)/1000, 'f', -1, 64) + "%"
}

// chart is a timeline with its layout.
type chart struct {
	Lanes       []chartLane
	Ticks       []chartTick
	Restarts    []chartLine
	Now         *percent
	Height      int
	Merged      int // runs that are drawn as part of a merged bar
	Overlapping int // runs that overlap more others than there are rows
	Words       string
}

type chartLane struct {
	*lane
	Y, Rows   int
	BarsY     int
	LineY     int
	Bars      []chartBar
	Marks     []chartBar
	Statement string // of a lane without runs
}

// chartBar is a run, a wait, several merged runs, or a mark.
type chartBar struct {
	X, W  percent
	Y     int
	Class string // a state, or "wait"
	Path  string
	Title string

	begin, end time.Time
	runs       int
	states     map[jobs.State]int
}

// Several returns the number of merged runs, or 0 for a single run.
func (b chartBar) Several() int {
	if b.runs > 1 {
		return b.runs
	}
	return 0
}

type chartTick struct {
	X    percent
	At   time.Time
	Text string
	Day  bool // the text contains the day
}

type chartLine struct {
	X     percent
	Title string
}

// newChart lays out a timeline. zoom returns the address of a section of it.
func newChart(t *timeline, zoom func(from, until time.Time) string) *chart {
	c := &chart{Height: axisHeight, Ticks: ticks(t.From, t.Until)}
	d := drawer{t: t, c: c, zoom: zoom, length: float64(t.Until.Sub(t.From))}
	for i := range t.Lanes {
		lane := d.lane(&t.Lanes[i], c.Height)
		c.Lanes = append(c.Lanes, lane)
		c.Height += laneHeight(lane.Rows)
	}
	for _, r := range t.Restarts {
		c.Restarts = append(c.Restarts,
			chartLine{d.x(r.NoticedAt),
				fmt.Sprintf("memcached %s restarted and lost its locks, noticed by %s %s",
					words.Cut(r.Server, 100), words.Cut(r.NoticedBy, 60), words.UTC(r.NoticedAt))})
	}
	if !t.Now.After(t.Until) && !t.Now.Before(t.From) {
		now := d.x(t.Now)
		c.Now = &now
	}
	c.Words = fmt.Sprintf("%s from %s to %s", words.Figure(len(t.Lanes), "resource", "resources"),
		words.UTC(t.From), words.UTC(t.Until))
	return c
}

func laneHeight(rows int) int { return labelHeight + marksHeight + rows*rowHeight + laneGap }

type drawer struct {
	t      *timeline
	c      *chart
	zoom   func(from, until time.Time) string
	length float64 // of the window
}

func (d *drawer) x(at time.Time) percent {
	return percent(min(max(float64(at.Sub(d.t.From))/d.length, 0), 1) * 100)
}

func (d *drawer) lane(l *lane, y int) chartLane {
	out := chartLane{lane: l, Y: y, BarsY: y + labelHeight + marksHeight, Rows: 1}
	var rows [][]chartBar
	free := make([]time.Time, 0, maxRows) // end of the last bar of each row
	for _, s := range slices.Backward(l.Runs) {
		begin, end := s.CreatedAt, d.over(s)
		if s.StartedAt == nil && s.State.Final() {
			out.Marks = append(out.Marks, d.mark(s, end))
		}
		bars := d.bars(s)
		if len(bars) == 0 {
			continue
		}
		row := slices.IndexFunc(free, func(at time.Time) bool { return !begin.Before(at) })
		switch {
		case row < 0 && len(free) < maxRows:
			row = len(free)
			free, rows = append(free, end), append(rows, nil)
		case row < 0:
			row = maxRows - 1
			d.c.Overlapping++
		}
		if end.After(free[row]) {
			free[row] = end
		}
		rows[row] = append(rows[row], bars...)
	}
	out.Rows = max(1, len(rows))
	for i, row := range rows {
		for _, b := range d.merge(row) {
			b.Y = out.BarsY + i*rowHeight
			out.Bars = append(out.Bars, b)
		}
	}
	out.Marks = d.mergeMarks(out.Marks, y+labelHeight)
	out.LineY = y + laneHeight(out.Rows) - laneGap/2
	if len(out.Bars)+len(out.Marks) == 0 {
		out.Statement = "nothing ran or waited"
	}
	return out
}

// over returns the end of a run, or the current time if it is active.
func (d *drawer) over(s storage.RunInterval) time.Time {
	switch {
	case s.FinishedAt != nil:
		return *s.FinishedAt
	case s.State.Final(): // recorded without having run
		return s.CreatedAt
	}
	return d.t.Now
}

// bars returns the wait, the attempts of a run and the waits between them, clipped to the window.
func (d *drawer) bars(s storage.RunInterval) (bars []chartBar) {
	end := d.over(s)
	waited := end
	if s.StartedAt != nil {
		waited = *s.StartedAt
	}
	if b := d.bar(s.CreatedAt, waited); b != nil && b.W >= minBarWidth {
		b.Class, b.Path, b.Title = "wait", runPath(s.Run), waitTitle(s, waited.Sub(s.CreatedAt))
		bars = append(bars, *b)
	}
	if s.StartedAt == nil {
		return bars
	}
	attempt := func(begin, until time.Time) {
		if b := d.bar(begin, until); b != nil {
			b.Class, b.Path, b.Title = string(s.State), runPath(s.Run), runTitle(s, waited, end)
			b.runs, b.states = 1, map[jobs.State]int{s.State: 1}
			bars = append(bars, *b)
		}
	}
	begin := waited
	for _, rest := range s.Rests {
		until := end
		if rest.Until != nil {
			until = *rest.Until
		}
		b := d.bar(rest.From, until)
		// too short to draw: the attempts around it become one bar
		if b == nil || b.W < minBarWidth {
			continue
		}
		attempt(begin, rest.From)
		b.Class, b.Path, b.Title = "wait", runPath(s.Run), retryWaitTitle(s, rest.From, until)
		bars, begin = append(bars, *b), until
	}
	if begin == waited || begin.Before(end) {
		attempt(begin, end)
	}
	return bars
}

// bar returns a bar for an interval, or nil if it is outside the window.
func (d *drawer) bar(begin, end time.Time) *chartBar {
	if !end.After(d.t.From) && !begin.After(d.t.From) || !begin.Before(d.t.Until) {
		return nil
	}
	b := &chartBar{X: d.x(begin), begin: begin, end: end}
	b.W = d.x(end) - b.X
	return b
}

// merge joins bars that are too narrow to be distinguished.
func (d *drawer) merge(row []chartBar) (out []chartBar) {
	for _, b := range row {
		last := len(out) - 1
		if last >= 0 && d.mergeable(out[last], b) {
			into := &out[last]
			into.end = maxTime(into.end, b.end)
			into.W = max(into.X+into.W, b.X+b.W) - into.X
			into.runs += b.runs
			for state, n := range b.states {
				into.states[state] += n
			}
			continue
		}
		out = append(out, b)
	}
	for i := range out {
		b := &out[i]
		b.W = max(b.W, minBarWidth)
		if b.X+b.W > 100 {
			b.X = 100 - b.W
		}
		if b.runs > 1 {
			d.c.Merged += b.runs
			b.Class, b.Title = string(worstState(b.states)), severalTitle(b)
			b.Path = d.zoom(zoomWindow(b.begin, b.end))
		}
	}
	return out
}

func (d *drawer) mergeable(a, b chartBar) bool {
	return a.runs > 0 && b.runs > 0 && b.W < mergeWidth && (a.W < mergeWidth || a.runs > 1) &&
		b.X-(a.X+a.W) < mergeGap && b.X+b.W-a.X < maxMergedWidth
}

// mark returns the mark of a firing that did not run, at the time of the decision.
func (d *drawer) mark(s storage.RunInterval, at time.Time) chartBar {
	title := fmt.Sprintf("%s %s %s", words.Cut(s.Job, 100), words.State(s.State), words.UTC(at))
	if words := whyOf(s); words != "" {
		title += ": " + words
	}
	return chartBar{X: d.x(at), Class: string(s.State), Path: runPath(s.Run), Title: title,
		begin: at, end: at, runs: 1, states: map[jobs.State]int{s.State: 1}}
}

// mergeMarks joins marks at the same position.
func (d *drawer) mergeMarks(marks []chartBar, y int) (out []chartBar) {
	slices.SortStableFunc(marks, func(a, b chartBar) int { return a.begin.Compare(b.begin) })
	for _, m := range marks {
		if m.begin.Before(d.t.From) || !m.begin.Before(d.t.Until) {
			continue
		}
		m.Y = y
		if last := len(out) - 1; last >= 0 && m.X-out[last].X < minMarkDistance {
			into := &out[last]
			into.end = m.end
			into.runs++
			for state, n := range m.states {
				into.states[state] += n
			}
			continue
		}
		out = append(out, m)
	}
	for i := range out {
		if m := &out[i]; m.runs > 1 {
			d.c.Merged += m.runs
			m.Class, m.Title = string(worstState(m.states)), severalTitle(m)
			m.Path = d.zoom(zoomWindow(m.begin, m.end))
		}
	}
	return out
}

// zoomWindow returns a window three times as long as the interval, centred on it.
func zoomWindow(begin, end time.Time) (from, until time.Time) {
	margin := max(end.Sub(begin), minWindow)
	return begin.Add(-margin).Truncate(time.Second), end.Add(margin).Truncate(time.Second).
		Add(time.Second)
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// worstState returns the state that colours a merged bar.
func worstState(states map[jobs.State]int) jobs.State {
	for _, s := range []jobs.State{
		jobs.Failed, jobs.TimedOut, jobs.Lost, jobs.Cancelled, jobs.Missed, jobs.Skipped,
		jobs.Running, jobs.Waiting,
	} {
		if states[s] > 0 {
			return s
		}
	}
	return jobs.Succeeded
}

func severalTitle(b *chartBar) string {
	var parts []string
	for _, state := range jobs.States() {
		if n := b.states[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, words.State(state)))
		}
	}
	return fmt.Sprintf("%d runs: %s, from %s to %s. Select to zoom in.", b.runs,
		strings.Join(parts, ", "), words.UTC(b.begin), words.UTC(b.end))
}

func runTitle(s storage.RunInterval, begin, end time.Time) string {
	text := fmt.Sprintf("%s %s", words.Cut(s.Job, 100), words.State(s.State))
	length := jobs.Executed(begin, end, s.Rests)
	switch {
	case s.State.Final():
		text += fmt.Sprintf(" after %s, from %s to %s", words.Took(length), words.UTC(begin),
			words.UTC(end))
	case s.State == jobs.Waiting:
		text += fmt.Sprintf(" for another attempt, ran %s since %s", words.Took(length),
			words.UTC(begin))
	default:
		text += fmt.Sprintf(" for %s, since %s", words.Took(length), words.UTC(begin))
	}
	if rested := end.Sub(begin) - length; rested > 0 {
		text += fmt.Sprintf(", plus %s between attempts", words.Took(rested))
	}
	text += " on " + words.Cut(s.Replica, 60)
	if words := whyOf(s); words != "" {
		text += ": " + words
	}
	return text
}

func waitTitle(s storage.RunInterval, length time.Duration) string {
	text := fmt.Sprintf("%s waited %s, from %s", words.Cut(s.Job, 100), words.Took(length),
		words.UTC(s.CreatedAt))
	if s.State == jobs.Waiting {
		text = fmt.Sprintf("%s waits for %s, since %s", words.Cut(s.Job, 100), words.Took(length),
			words.UTC(s.CreatedAt))
	}
	if s.StartedAt == nil {
		if words := whyOf(s); words != "" {
			text += ": " + words
		}
	}
	return text
}

func retryWaitTitle(s storage.RunInterval, begin, end time.Time) string {
	return fmt.Sprintf("%s waited %s between attempts, from %s",
		words.Cut(s.Job, 100), words.Took(end.Sub(begin)), words.UTC(begin))
}

// whyOf returns the reason of a run in words.
func whyOf(s storage.RunInterval) string {
	return words.Why(jobs.Record{Reason: s.Reason, BlockedBy: s.BlockedBy})
}

// ticks returns the labelled times of the axis: at most nine, at round times.
func ticks(from, until time.Time) []chartTick {
	const most = 9
	steps := []time.Duration{
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second,
		30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
		10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
		3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	}
	length := until.Sub(from)
	index := slices.IndexFunc(steps, func(step time.Duration) bool { return length/step <= most })
	step := steps[len(steps)-1]
	if index >= 0 {
		step = steps[index]
	} else {
		step *= time.Duration(cmp.Or(int(length/step)/most, 1) + 1)
	}
	layout, days := "15:04", step >= 12*time.Hour
	switch {
	case days:
		layout = "Jan 2 15:04"
	case step < time.Minute:
		layout = "15:04:05"
	}
	var all []chartTick
	for at := from.Truncate(step); !at.After(until); at = at.Add(step) {
		x := percent(float64(at.Sub(from)) / float64(length) * 100)
		if x >= 2 && x <= 98 {
			all = append(all, chartTick{x, at, at.UTC().Format(layout), days})
		}
	}
	return all
}
