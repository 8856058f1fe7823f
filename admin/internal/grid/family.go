package grid

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/family"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// Kin is all jobs of a family, such as those of one for_each.
type Kin struct {
	Name string // the common part of their names and a star
	Jobs int
}

// FamiliesOf returns the families of the jobs, which are sorted by ByGroup, by the names of their
// members.
func FamiliesOf(list []storage.JobState) map[string]*Kin {
	families := make(map[string]*Kin)
	for len(list) > 0 {
		n, prefix := family.AtStart(len(list), func(i int) string { return list[i].Job },
			func(i int) family.Traits {
				j := &list[i]
				return family.Traits{Schedule: j.Schedule, Timezone: j.Zone, Handler: j.Handler,
					Description: j.Description, Group: j.Group, Source: j.Source}
			})
		if n >= family.MinJobs {
			kin := &Kin{Name: prefix + "*", Jobs: n}
			for _, job := range list[:n] {
				families[job.Job] = kin
			}
		}
		list = list[n:]
	}
	return families
}

// Family is the jobs of a for_each, as one row. Each of its cells adds up those of the jobs.
type Family struct {
	Name  string   `json:"family"` // the common part of the names and a star
	Group string   `json:"group,omitempty"`
	Jobs  []string `json:"jobs"` // of this row
	// Total also counts jobs of the family that are on another page, or that the filter leaves out.
	Total int `json:"total"`
	// KnownFrom is the latest KnownFrom of the jobs.
	KnownFrom time.Time `json:"known_from"`
	Cells     []*Cell   `json:"cells"` // those with runs, the oldest first

	row JobRow
}

// Count returns the number of jobs of the row in words.
func (f *Family) Count() string {
	if len(f.Jobs) < f.Total {
		return words.Count(len(f.Jobs)) + " of " + words.Figure(f.Total, "job", "jobs")
	}
	return words.Figure(f.Total, "job", "jobs")
}

// newFamily adds up the rows of the jobs of a family.
func newFamily(kin *Kin, rows []JobRow, g *Grid) *Family {
	f := &Family{Name: kin.Name, Group: rows[0].Group, Total: kin.Jobs, KnownFrom: g.From,
		Cells: []*Cell{}}
	byColumn := make(map[time.Time]*Cell)
	paused := true
	for _, row := range rows {
		f.Jobs = append(f.Jobs, row.Job)
		paused = paused && row.Paused
		if row.KnownFrom.After(f.KnownFrom) {
			f.KnownFrom = row.KnownFrom
		}
		for _, cell := range row.Cells {
			sum := byColumn[cell.From]
			if sum == nil {
				sum = &Cell{From: cell.From, job: kin.Name, length: cell.length}
				byColumn[cell.From] = sum
				f.Cells = append(f.Cells, sum)
			}
			sum.join(cell)
		}
	}
	for _, sum := range f.Cells {
		sum.setWorst()
	}
	for _, row := range rows {
		for _, cell := range row.Cells {
			if sum := byColumn[cell.From]; cell.shown == sum.shown {
				sum.worst = append(sum.worst, cell.job)
			}
		}
	}
	slices.SortFunc(f.Cells, func(a, b *Cell) int { return a.From.Compare(b.From) })
	f.row = JobRow{Job: kin.Name, Group: f.Group, Paused: paused, KnownFrom: f.KnownFrom,
		Cells: f.Cells, columns: rows[0].columns, heading: rows[0].heading}
	return f
}

// Row is a row of the page: a job, or a family.
type Row struct {
	JobRow
	Family *Family // nil: the row is a job
	Open   bool    // the jobs of the family follow as rows
	Toggle string  // address of the page with the family unfolded, or folded
	Member bool    // the row is a job of the family above
}

// Key identifies the row when the page is updated.
func (r Row) Key() string {
	if r.Family != nil {
		return "family " + r.Family.Jobs[0]
	}
	return "job " + r.Job
}

// AllRows returns the rows of the page: those of jobs and of families.
func (g *Grid) AllRows() (all []Row) {
	rows := g.Rows
	for i := range g.sections {
		s := &g.sections[i]
		members := rows[:len(s.jobs)]
		rows = rows[len(s.jobs):]
		if s.family == nil {
			all = append(all, Row{JobRow: members[0]})
			continue
		}
		r := Row{JobRow: s.family.row, Family: s.family,
			Open: slices.Contains(s.family.Jobs, g.open), Toggle: g.Links.Toggles[s.family.Jobs[0]]}
		all = append(all, r)
		for _, member := range members {
			if r.Open {
				all = append(all, Row{JobRow: member, Member: true})
			}
		}
	}
	return all
}

// foldRows makes the families of the page, and names them in the rows of their jobs.
func (g *Grid) foldRows() {
	at := 0
	for i := range g.sections {
		s := &g.sections[i]
		members := g.Rows[at : at+len(s.jobs)]
		if at += len(s.jobs); s.kin == nil {
			continue
		}
		for j := range members {
			members[j].Family = s.kin.Name
		}
		s.family = newFamily(s.kin, members, g)
		g.Families = append(g.Families, s.family)
	}
}

// join adds the runs of another job's cell of the same column.
func (c *Cell) join(other *Cell) {
	for state, n := range other.Runs {
		c.count(state, n)
	}
	c.missed += other.missed
	c.More, c.counted = c.More || other.More, c.counted || other.counted
	c.Paused = c.Paused || other.Paused
	if c.heldJob == "" {
		c.heldJob, c.heldAt = other.heldJob, other.heldAt
	}
	if other.all() == 0 {
		return
	}
	if c.first.IsZero() || other.first.Before(c.first) {
		c.first = other.first
	}
	if other.last.After(c.last) {
		c.last, c.run = other.last, other.run
	}
}

// section is one or several jobs that a page shows as one row.
type section struct {
	jobs   []storage.JobState
	kin    *Kin    // nil: it is one job
	family *Family // nil: it is one job, or its runs are not read yet
}

// sections divides a part of the selected jobs. A section has at most MaxJobs jobs, so a larger
// family has several.
func (s *Selection) sections(list []storage.JobState) (all []section) {
	for len(list) > 0 {
		kin, n := s.Families[list[0].Job], 1
		for kin != nil && n < min(len(list), MaxJobs) && s.Families[list[n].Job] == kin {
			n++
		}
		if n < family.MinJobs {
			kin, n = nil, 1
		}
		all = append(all, section{jobs: list[:n:n], kin: kin})
		list = list[n:]
	}
	return all
}

// firstPage returns how many sections at the start of a list fit on a page.
func firstPage(all []section) (n int) {
	jobs := 0
	for n < min(len(all), MaxRows) && (n == 0 || jobs+len(all[n].jobs) <= MaxJobs) {
		jobs += len(all[n].jobs)
		n++
	}
	return n
}

// lastPage returns where the last page of a list begins.
func lastPage(all []section) int {
	backwards := slices.Clone(all)
	slices.Reverse(backwards)
	return len(all) - firstPage(backwards)
}

// runsOfEach returns how many runs of each job are read for a page with so many jobs.
func runsOfEach(jobs int) int {
	const most = 2_500 // of a page
	return min(RunsOfEach, most/cmp.Or(jobs, 1)-storage.RunIntervalsBefore)
}
