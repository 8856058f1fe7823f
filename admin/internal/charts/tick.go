package charts

import (
	"cmp"
	"slices"
	"time"
)

type Tick struct {
	X    Percent
	At   time.Time
	Text string
	Day  bool // the text contains the day
}

// ticks returns the labelled times of the axis: at most nine, at round times.
func ticks(from, until time.Time) []Tick { return ticksUpTo(9, 0, from, until) }

// ticksUpTo returns about as many labelled times as most, at round times. Their distance from the
// edges is at least margin.
func ticksUpTo(most int, margin Percent, from, until time.Time) []Tick {
	steps := []time.Duration{
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second,
		30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
		10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
		3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	}
	length := until.Sub(from)
	index := slices.IndexFunc(steps, func(step time.Duration) bool {
		return int(length/step) <= most
	})
	step := steps[len(steps)-1]
	if index >= 0 {
		step = steps[index]
	} else {
		step *= time.Duration(cmp.Or(int(length/step)/most, 1) + 1)
	}
	return slices.DeleteFunc(ticksEvery(step, from, until), func(t Tick) bool {
		return t.X < margin || t.X > 100-margin
	})
}

// ticksEvery returns the labelled times of the axis at multiples of step.
func ticksEvery(step time.Duration, from, until time.Time) []Tick {
	layout, days := "15:04", step >= 12*time.Hour
	length := until.Sub(from)
	margin := Percent(2) // half of a text, whose middle is at X
	switch {
	case days:
		layout, margin = "Jan 2 15:04", 5
	case step < time.Minute:
		layout, margin = "15:04:05", 4
	}
	var all []Tick
	for at := from.Truncate(step); !at.After(until); at = at.Add(step) {
		x := Percent(float64(at.Sub(from)) / float64(length) * 100)
		if x >= margin && x <= 100-margin {
			all = append(all, Tick{x, at, at.UTC().Format(layout), days})
		}
	}
	return all
}
