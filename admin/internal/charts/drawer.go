package charts

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

type drawer struct {
	Picture
	c      *Chart
	length float64 // of the window
}

func (d *drawer) x(at time.Time) Percent {
	return Percent(min(max(float64(at.Sub(d.From))/d.length, 0), 1) * 100)
}

// lane draws runs below y. The lane has a height in rows; 0: as many as its runs need. If they need
// more, its bars are narrower.
func (d *drawer) lane(runs []storage.RunInterval, y, height int) Lane {
	out := Lane{Y: y, BarsY: y + labelHeight + marksHeight, Rows: height}
	var rows [][]RunBar
	free := make([]time.Time, 0, MaxRows) // end of the last bar of each row
	for _, s := range slices.Backward(runs) {
		begin, end := s.CreatedAt, d.over(s)
		if s.StartedAt == nil && s.State.Final() {
			out.Marks = append(out.Marks, d.mark(s, end))
		}
		bars := d.bars(s)
		if len(bars) == 0 {
			continue
		}
		for i := range bars {
			bars[i].Key, bars[i].Label = keyOf(s, i), words.Cut(s.Job, 60)
		}
		row := slices.IndexFunc(free, func(at time.Time) bool { return !begin.Before(at) })
		switch {
		case row < 0 && len(free) < MaxRows:
			row = len(free)
			free, rows = append(free, end), append(rows, nil)
		case row < 0:
			row = MaxRows - 1
			d.c.Overlapping++
		}
		if end.After(free[row]) {
			free[row] = end
		}
		rows[row] = append(rows[row], bars...)
	}
	if out.Rows = max(out.Rows, minRows); height == 0 {
		out.Rows = max(out.Rows, len(rows))
	}
	for i, row := range rows {
		top, next := i*out.Rows*rowHeight/len(rows), (i+1)*out.Rows*rowHeight/len(rows)
		bars := d.merge(row)
		for j, b := range bars {
			if j+1 < len(bars) && bars[j+1].X < b.X+b.W {
				b.Label = "" // the next bar covers it
			}
			b.Y, b.H = out.BarsY+top, min(next-top-barGap(len(rows), out.Rows), maxBarHeight)
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

// barGap returns the space below each bar of a lane.
func barGap(rows, height int) int {
	if rows > height {
		return 1
	}
	return rowHeight - BarHeight
}

// over returns the end of a run, or the current time if it is active.
func (d *drawer) over(s storage.RunInterval) time.Time {
	switch {
	case s.FinishedAt != nil:
		return *s.FinishedAt
	case s.State.Final(): // recorded without having run
		return s.CreatedAt
	}
	return d.Now
}

// bars returns the wait, the attempts of a run and the waits between them, clipped to the window.
func (d *drawer) bars(s storage.RunInterval) (bars []RunBar) {
	end := d.over(s)
	waited := end
	if s.StartedAt != nil {
		waited = *s.StartedAt
	}
	if b := d.bar(s.CreatedAt, waited); b != nil && b.W >= minBarWidth {
		b.Class, b.Path, b.Title = "wait", param.RunPath(s.Run), waitTitle(s,
			waited.Sub(s.CreatedAt))
		bars = append(bars, *b)
	}
	if s.StartedAt == nil {
		return bars
	}
	attempt := func(begin, until time.Time) {
		if b := d.bar(begin, until); b != nil {
			b.Class, b.Path, b.Title = string(s.State), param.RunPath(s.Run), runTitle(s, waited,
				end)
			b.runs, b.states = 1, map[jobs.State]int{s.State: 1}
			bars = append(bars, *b)
		}
	}
	begin := waited
	for _, wait := range s.RetryWaits {
		until := end
		if wait.Until != nil {
			until = *wait.Until
		}
		b := d.bar(wait.From, until)
		// too short to draw: the attempts around it become one bar
		if b == nil || b.W < minBarWidth {
			continue
		}
		attempt(begin, wait.From)
		b.Class, b.Path, b.Title = "wait", param.RunPath(s.Run), retryWaitTitle(s, wait.From, until)
		bars, begin = append(bars, *b), until
	}
	if begin == waited || begin.Before(end) {
		attempt(begin, end)
	}
	return bars
}

// bar returns a bar for an interval, or nil if it is outside the window.
func (d *drawer) bar(begin, end time.Time) *RunBar {
	if !end.After(d.From) && !begin.After(d.From) || !begin.Before(d.Until) {
		return nil
	}
	b := &RunBar{X: d.x(begin), begin: begin, end: end}
	b.W = d.x(end) - b.X
	return b
}

// keyOf returns a key for a part of a run, by which the script of the page recognizes it after an
// update.
func keyOf(s storage.RunInterval, part int) string {
	const end = 6 // bytes of the id, which are random
	return fmt.Sprintf("%x.%d", s.Run[len(s.Run)-end:], part)
}

// merge joins bars that are too narrow to be distinguished.
func (d *drawer) merge(row []RunBar) (out []RunBar) {
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
			b.Key, b.Label = "", ""
			b.Path = d.Zoom(zoomWindow(b.begin, b.end))
		}
	}
	return out
}

func (d *drawer) mergeable(a, b RunBar) bool {
	return a.runs > 0 && b.runs > 0 && b.W < mergeWidth && (a.W < mergeWidth || a.runs > 1) &&
		b.X-(a.X+a.W) < mergeGap && b.X+b.W-a.X < maxMergedWidth
}

// mark returns the mark of a firing that did not run, at the time of the decision.
func (d *drawer) mark(s storage.RunInterval, at time.Time) RunBar {
	title := fmt.Sprintf("%s %s %s", words.Cut(s.Job, 100), words.State(s.State), words.UTC(at))
	if words := words.WhyOf(s); words != "" {
		title += ": " + words
	}
	return RunBar{X: d.x(at), Class: string(s.State), Path: param.RunPath(s.Run), Title: title,
		Key: keyOf(s, -1), begin: at, end: at, runs: 1, states: map[jobs.State]int{s.State: 1}}
}

// mergeMarks joins marks at the same position.
func (d *drawer) mergeMarks(marks []RunBar, y int) (out []RunBar) {
	slices.SortStableFunc(marks, func(a, b RunBar) int { return a.begin.Compare(b.begin) })
	for _, m := range marks {
		if m.begin.Before(d.From) || !m.begin.Before(d.Until) {
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
			m.Class, m.Title, m.Key = string(worstState(m.states)), severalTitle(m), ""
			m.Path = d.Zoom(zoomWindow(m.begin, m.end))
		}
	}
	return out
}
