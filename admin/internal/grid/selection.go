package grid

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Selection is the jobs of which a grid shows one page.
type Selection struct {
	All      []storage.JobState // sorted by name; a cursor may name a job that is not selected
	Selected []storage.JobState // sorted by ByGroup
	Families map[string]*Kin    // of all jobs, by the names of their members
	// After and Before are the cursors of the page: names of jobs, or "".
	After, Before string
	Open          string   // a job whose family is unfolded, or ""
	HeldBack      HeldBack // nil: not known
}

// Band is the jobs of one group on a page.
type Band struct {
	Group string // "": the jobs without a group
	Rows  []Row
}

// ByGroup compares jobs in the order of the grid: by group, then by name. Jobs without a group are
// the last.
func ByGroup(a, b storage.JobState) int {
	last := func(s storage.JobState) int {
		if s.Group == "" {
			return 1
		}
		return 0
	}
	return cmp.Or(last(a)-last(b), strings.Compare(a.Group, b.Group), strings.Compare(a.Job, b.Job))
}

// keep removes the jobs that are not among the names.
func (s *Selection) keep(names map[string]bool) {
	s.Selected = slices.DeleteFunc(slices.Clone(s.Selected),
		func(j storage.JobState) bool { return !names[j.Job] })
}

// page returns the sections of the page, and whether there are a next and a previous page.
func (s *Selection) page() (list []section, next, previous bool) {
	from, to := 0, len(s.Selected)
	if s.After != "" {
		from = s.place(s.After)
		if from < to && s.Selected[from].Job == s.After {
			from++
		}
	}
	if s.Before != "" {
		to = max(from, s.place(s.Before))
	}
	list = s.sections(s.Selected[from:to])
	if s.After == "" && s.Before != "" {
		first := lastPage(list)
		return list[first:], to < len(s.Selected), first > 0
	}
	last := firstPage(list)
	return list[:last], last < len(list) || to < len(s.Selected), from > 0
}

// place returns the place of a job among the selected ones, or that of the first one after it. A
// job that does not exist counts as one without a group.
func (s *Selection) place(name string) int {
	job := storage.JobState{Job: name}
	i, known := slices.BinarySearchFunc(s.All, name,
		func(j storage.JobState, name string) int { return strings.Compare(j.Job, name) })
	if known {
		job = s.All[i]
	}
	place, _ := slices.BinarySearchFunc(s.Selected, job, ByGroup)
	return place
}

// Bands returns the rows by group. If no job of the page has a group, there is one band.
func (g *Grid) Bands() (bands []Band) {
	for _, row := range g.AllRows() {
		if n := len(bands); n == 0 || bands[n-1].Group != row.Group {
			bands = append(bands, Band{Group: row.Group})
		}
		band := &bands[len(bands)-1]
		band.Rows = append(band.Rows, row)
	}
	return bands
}

// Grouped reports whether the page names groups.
func (g *Grid) Grouped() bool {
	return slices.ContainsFunc(g.Rows, func(r JobRow) bool { return r.Group != "" })
}

// Columns returns the number of columns with times.
func (g *Grid) Columns() int { return len(g.columns()) }
