package grid

import (
	"html/template"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/markup"
	"github.com/holdfast-dev/holdfast/admin/internal/words"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// JobRow is one job and its runs.
type JobRow struct {
	Job   string `json:"job"`
	Group string `json:"group,omitempty"`
	// Family is the name of the family in whose row the page shows the job.
	Family string `json:"family,omitempty"`
	// Paused says that a pause covers the job now.
	Paused bool `json:"paused,omitempty"`
	// KnownFrom is the beginning of the first column with runs by their scheduled times. It is
	// later than the beginning of the grid for a job with very many runs. Cells before it count the
	// runs that were created within their columns.
	KnownFrom time.Time `json:"known_from"`
	Cells     []*Cell   `json:"cells"` // those with runs, the oldest first

	columns []time.Time // beginnings of all columns
	heading time.Duration
}

// Slot is the place of a cell in a row.
type Slot struct {
	Cell  *Cell // nil: no runs
	Heads bool  // a heading begins here
}

// newJobRow puts the runs of a job into the columns of the grid.
func newJobRow(job storage.JobState, runs []storage.RunInterval, g *Grid) JobRow {
	row := JobRow{Job: job.Job, Group: job.Group, Paused: job.Paused,
		KnownFrom: g.knownFrom(runs), Cells: []*Cell{}, columns: g.columns(),
		heading: g.span.heading}
	byColumn := make(map[time.Time]*Cell)
	for _, run := range runs {
		at := run.ScheduledAt.UTC().Truncate(g.span.Column)
		if at.Before(row.KnownFrom) || !at.Before(g.Until) {
			continue
		}
		cell := byColumn[at]
		if cell == nil {
			cell = &Cell{From: at, job: job.Job, length: g.span.Column}
			byColumn[at] = cell
			row.Cells = append(row.Cells, cell)
		}
		cell.add(run)
	}
	row.addHeld(g.held[job.Job], runs, byColumn, g)
	for _, cell := range row.Cells {
		cell.setWorst()
	}
	slices.SortFunc(row.Cells, func(a, b *Cell) int { return a.From.Compare(b.From) })
	return row
}

// older returns the beginnings of the columns whose runs were not all read.
func (r *JobRow) older() []time.Time {
	n := 0
	for n < len(r.columns) && r.columns[n].Before(r.KnownFrom) {
		n++
	}
	return r.columns[:n]
}

// addCounts adds a cell for each part with runs. Active runs are not among the counts by state.
func (r *JobRow) addCounts(parts []storage.JobPart, counts []storage.JobPartCount,
	active []storage.Record) {
	var cells []*Cell
	for i, part := range parts {
		if counts[i].Runs == 0 {
			continue
		}
		cell := &Cell{From: part.From, job: r.Job, length: part.Until.Sub(part.From),
			Runs: make(map[jobs.State]int), More: counts[i].More, counted: true,
			first: part.From, last: part.Until.Add(-time.Microsecond)}
		succeeded := counts[i].Runs
		for state, n := range counts[i].Unsuccessful {
			cell.Runs[state] = n
			succeeded -= n
		}
		for _, run := range active {
			if run.Job == r.Job && !run.CreatedAt.Before(part.From) &&
				run.CreatedAt.Before(part.Until) {
				cell.Runs[run.State]++
				succeeded--
			}
		}
		if succeeded > 0 {
			cell.Runs[jobs.Succeeded] = succeeded
		}
		cell.setWorst()
		cells = append(cells, cell)
	}
	r.Cells = slices.Insert(r.Cells, 0, cells...)
}

// knownFrom returns the beginning of the first column whose runs were all read. The column of the
// oldest run that was read may have had more.
func (g *Grid) knownFrom(runs []storage.RunInterval) time.Time {
	var oldest time.Time
	created := 0 // within the time of the grid; others were still active then
	for _, run := range runs {
		if run.CreatedAt.Before(g.From) {
			continue
		}
		if created++; oldest.IsZero() || run.CreatedAt.Before(oldest) {
			oldest = run.CreatedAt
		}
	}
	if created < g.each {
		return g.From
	}
	return oldest.UTC().Truncate(g.span.Column).Add(g.span.Column)
}

// Slots returns the places of all columns.
func (r JobRow) Slots() []Slot {
	slots := make([]Slot, len(r.columns))
	cells := r.Cells
	for i, at := range r.columns {
		slots[i].Heads = at.Truncate(r.heading).Equal(at)
		if len(cells) > 0 && cells[0].From.Equal(at) {
			slots[i].Cell, cells = cells[0], cells[1:]
		}
	}
	return slots
}

// SlotElements returns the cells of the row as HTML.
func (r JobRow) SlotElements() template.HTML {
	var out markup.Builder
	for _, slot := range r.Slots() {
		out.Add(`<td class="`)
		out.AddIf(slot.Heads, `hour`)
		out.Add(`">`)
		if c := slot.Cell; c != nil {
			title := c.Title()
			out.Add(`<a class="cell `, string(c.shown), `" href="`, c.Path(),
				`" data-titled title="`, title, `" aria-label="`, title, `">`, c.Text(), `</a>`)
		}
		out.Add("</td>\n")
	}
	return template.HTML(out.String())
}

// Summary returns how many of the ended runs succeeded, or else the state of the job. Runs that
// were missed because of a pause do not count. It returns a dash if not all runs are counted.
func (r JobRow) Summary() string {
	counts := make(map[jobs.State]int)
	ended, held := 0, false
	for _, cell := range r.Cells {
		if cell.More {
			return "–"
		}
		for state, n := range cell.Runs {
			if counts[state] += n; state.Final() {
				ended += n
			}
		}
		ended -= cell.missed
		held = held || cell.Paused
	}
	switch {
	case ended > 0:
		return words.Count(counts[jobs.Succeeded]) + " of " + words.Count(ended)
	case counts[jobs.Running] > 0:
		return "running"
	case counts[jobs.Waiting] > 0:
		return "waiting"
	case r.Paused, held:
		return "paused"
	}
	return "–"
}
