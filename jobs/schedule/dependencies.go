package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/suggest"
)

// AfterMistake is one mistake in the jobs that a job follows.
type AfterMistake struct {
	Job string // the job that follows
	N   int    // its place in After, or -1 where the mistake is in all of it
	// Name is what is there, "" for a circle.
	Name   string
	circle []string
	known  []string // of an unknown job: the others
	itself bool
}

// Error says what was found and what is expected.
func (m *AfterMistake) Error() string { return m.Text(strconv.Quote(m.Name)) }

// Text is Error with the name written otherwise.
func (m *AfterMistake) Text(name string) string {
	switch {
	case m.circle != nil:
		return fmt.Sprintf("found jobs that wait for each other: %s, expected no circle",
			strings.Join(append(m.circle, m.circle[0]), " after "))
	case m.itself:
		return "found the job itself, expected others"
	case m.known != nil:
		return fmt.Sprintf("unknown job %s%s", name, suggest.Hint(m.Name, m.known))
	}
	return fmt.Sprintf("found job %s, which has no schedule: it is only triggered, and has no "+
		"scheduled times that another could follow", name)
}

// CheckAfter looks through the jobs that others follow, by name: they are known,
// have scheduled times, and wait for each other in no circle. It returns every mistake, by
// job; of a circle one.
func CheckAfter(schedules map[string]Schedule) []*AfterMistake {
	var mistakes []*AfterMistake
	names := slices.Sorted(maps.Keys(schedules))
	reported := map[string]bool{}
	for _, job := range names {
		after := schedules[job].after
		for i, name := range after {
			followed, known := schedules[name]
			switch m := (&AfterMistake{Job: job, N: i, Name: name}); {
			case name == job:
				m.itself = true
				mistakes = append(mistakes, m)
			case !known:
				m.known = slices.DeleteFunc(slices.Clone(names), func(other string) bool {
					return other == job
				})
				mistakes = append(mistakes, m)
			case followed.rule == nil && followed.after == nil:
				mistakes = append(mistakes, m)
			}
		}
		circle := wayBack(job, job, schedules, map[string]bool{})
		if len(circle) < 2 || reported[job] {
			continue
		}
		for _, name := range circle {
			reported[name] = true
		}
		mistakes = append(mistakes, &AfterMistake{Job: job, N: -1, circle: circle})
	}
	return mistakes
}

// wayBack returns the names from one job to another that it follows, directly
// or through others; nil if it does not.
func wayBack(from, to string, schedules map[string]Schedule, seen map[string]bool) []string {
	for _, next := range schedules[from].after {
		if next == to && from != to {
			return []string{from}
		}
		if seen[next] || next == from {
			continue
		}
		seen[next] = true
		if way := wayBack(next, to, schedules, seen); way != nil {
			return append([]string{from}, way...)
		}
	}
	return nil
}
