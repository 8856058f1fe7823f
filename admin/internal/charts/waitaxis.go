package charts

import "time"

// WaitAxis is the time axis of wait chains. It begins at the oldest hold or wait. It ends at the
// last time at which a run gives up, but the past has at least half of the axis.
type WaitAxis struct{ from, now, until time.Time }

const (
	minAxis   = 10 * time.Second
	axisTicks = 4
	// the narrowest bar, in percent
	minWaitWidth = 0.5
)

// NewWaitAxis returns an axis from the oldest time. The times ends are those at which runs give up.
func NewWaitAxis(now, oldest time.Time, ends []time.Time) WaitAxis {
	a := WaitAxis{from: oldest, now: now, until: now}
	if now.Sub(oldest) < minAxis {
		a.from = now.Add(-minAxis)
	}
	for _, end := range ends {
		a.until = maxTime(a.until, end)
	}
	if most := now.Add(now.Sub(a.from)); a.until.After(most) {
		a.until = most
	}
	return a
}

func (a WaitAxis) x(at time.Time) Percent {
	length := float64(a.until.Sub(a.from))
	return Percent(min(max(float64(at.Sub(a.from))/length, 0), 1) * 100)
}

// Ticks returns the labelled times of the axis.
func (a WaitAxis) Ticks() []Tick { return ticksUpTo(axisTicks, axisMargin, a.from, a.until) }

// axisMargin is half of the width of a label, in percent: the axis is narrow.
const axisMargin = 9

// NowX returns the position of the current time.
func (a WaitAxis) NowX() Percent { return a.x(a.now) }

// WaitBar is the bar of a hold or a wait on a WaitAxis.
type WaitBar struct {
	X, W Percent // from the beginning until now
	// from now until the run gives up; zero if that is not known or past
	RestX, RestW Percent
	// Ends reports whether the axis has the time at which the run gives up, EndX.
	Ends bool
	EndX Percent
}

// Bar returns the bar of a hold or a wait since a time. The time end is when it gives up; zero:
// there is none.
func (a WaitAxis) Bar(since, end time.Time) WaitBar {
	b := WaitBar{X: a.x(since), RestX: a.NowX()}
	b.W = max(a.NowX()-b.X, minWaitWidth)
	if b.X+b.W > a.NowX() {
		b.X = max(0, a.NowX()-b.W)
	}
	if end.After(a.now) {
		b.RestW = a.x(end) - b.RestX
		b.Ends, b.EndX = !end.After(a.until), a.x(end)
	}
	return b
}
