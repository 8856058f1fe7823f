package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/internal/suggest"
)

// AfterMistake is one mistake in the dependencies of a job.
type AfterMistake struct {
	Job string // the dependent
	N   int    // its index in After, or -1 if the mistake is in all of it
	// Name is the dependency, or "" for a cycle.
	Name   string
	cycle  []string
	known  []string // for an unknown job: the known ones
	itself bool
}

// Error says what was found and what is expected.
func (m *AfterMistake) Error() string { return m.Text(strconv.Quote(m.Name)) }

// Text returns the text of Error, with the argument instead of the quoted Name.
func (m *AfterMistake) Text(name string) string {
	switch {
	case m.cycle != nil:
		return fmt.Sprintf("found jobs that wait for each other: %s, expected no cycle",
			strings.Join(append(m.cycle, m.cycle[0]), " after "))
	case m.itself:
		return "found the job itself, expected others"
	case m.known != nil:
		return fmt.Sprintf("unknown job %s%s", name, suggest.Hint(m.Name, m.known))
	}
	return fmt.Sprintf("found job %s, which has no schedule: it is only triggered, and has no "+
		"scheduled times for dependents", name)
}

// CheckAfter returns every mistake in the dependencies of the jobs, by job. Dependencies must
// exist, have scheduled times, and form no cycle. Each cycle is reported once.
func CheckAfter(schedules map[string]Schedule) []*AfterMistake {
	var mistakes []*AfterMistake
	names := sync.OnceValue(func() []string { return slices.Sorted(maps.Keys(schedules)) })
	var dependents []string
	for job, s := range schedules {
		if s.After() != nil {
			dependents = append(dependents, job)
		}
	}
	slices.Sort(dependents)
	reported := map[string]bool{}
	for _, job := range dependents {
		for i, name := range schedules[job].After() {
			dependency, known := schedules[name]
			switch m := (&AfterMistake{Job: job, N: i, Name: name}); {
			case name == job:
				m.itself = true
				mistakes = append(mistakes, m)
			case !known:
				m.known = slices.DeleteFunc(slices.Clone(names()), func(other string) bool {
					return other == job
				})
				mistakes = append(mistakes, m)
			case dependency.plan().rule == nil && dependency.After() == nil:
				mistakes = append(mistakes, m)
			}
		}
		cycle := dependencyPath(job, job, schedules, map[string]bool{})
		if len(cycle) < 2 || reported[job] {
			continue
		}
		for _, name := range cycle {
			reported[name] = true
		}
		mistakes = append(mistakes, &AfterMistake{Job: job, N: -1, cycle: cycle})
	}
	return mistakes
}

// dependencyPath returns the names on the path from one job to another that it depends on, directly
// or through others; nil if there is none.
func dependencyPath(from, to string, schedules map[string]Schedule, seen map[string]bool) []string {
	for _, next := range schedules[from].After() {
		if next == to && from != to {
			return []string{from}
		}
		if seen[next] || next == from {
			continue
		}
		seen[next] = true
		if way := dependencyPath(next, to, schedules, seen); way != nil {
			return append([]string{from}, way...)
		}
	}
	return nil
}
