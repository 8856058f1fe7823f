package locks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/words"
)

// Matrix is the waiting time by waiting job and blocking job, over all resources.
type Matrix struct {
	Holders  []string // the columns, longest blocking time first
	Rows     []MatrixRow
	MoreRows int // jobs that waited, without a row
	MoreCols int // jobs that blocked, without a column
}

type MatrixRow struct {
	Job   string
	Cells []MatrixCell
	Other time.Duration // sum of the jobs without a column
	Total time.Duration
}

// MatrixCell is how long one job waited for another.
type MatrixCell struct {
	Holder string
	Times  int
	NotRun int
	Wait   time.Duration
	Heat   int // 0 to 4, relative to the largest cell
	Title  string
}

func (c *MatrixCell) finished(job string, worst time.Duration) MatrixCell {
	const hottest = 4
	if c.Times > 0 {
		c.Heat = 1
		if worst > 0 {
			c.Heat = 1 + int(float64(c.Wait)/float64(worst)*(hottest-1)+0.5)
		}
		c.Title = fmt.Sprintf("%s waited for %s %s, %s in total", words.Cut(job, 80),
			words.Cut(holderName(c.Holder), 80), words.Figure(c.Times, "time", "times"),
			words.Took(c.Wait))
		if c.NotRun > 0 {
			c.Title += fmt.Sprintf(", %s without a start", words.Figure(c.NotRun, "time", "times"))
		}
	}
	return *c
}

func newMatrix(sums []WaitSum) Matrix {
	waited, blocked := make(map[string]time.Duration), make(map[string]time.Duration)
	cells := make(map[[2]string]*MatrixCell)
	var worst time.Duration
	for _, s := range sums {
		waited[s.Job] += s.Wait()
		blocked[s.Holder] += s.Wait()
		cell := cells[[2]string{s.Job, s.Holder}]
		if cell == nil {
			cell = &MatrixCell{Holder: s.Holder}
			cells[[2]string{s.Job, s.Holder}] = cell
		}
		cell.Times, cell.NotRun, cell.Wait = cell.Times+s.Times, cell.NotRun+s.NotRun,
			cell.Wait+s.Wait()
		worst = max(worst, cell.Wait)
	}
	names, holders := byDuration(waited), byDuration(blocked)
	m := Matrix{Holders: holders[:min(len(holders), matrixColumns)],
		MoreRows: max(0, len(names)-matrixRows), MoreCols: max(0, len(holders)-matrixColumns)}
	for _, name := range names[:min(len(names), matrixRows)] {
		row := MatrixRow{Job: name, Total: waited[name], Other: waited[name]}
		for _, holder := range m.Holders {
			cell := cells[[2]string{name, holder}]
			if cell == nil {
				cell = &MatrixCell{Holder: holder}
			}
			row.Other -= cell.Wait
			row.Cells = append(row.Cells, cell.finished(name, worst))
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}

// byDuration sorts names by their durations, longest first.
func byDuration(durations map[string]time.Duration) []string {
	names := make([]string, 0, len(durations))
	for name := range durations {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(durations[b], durations[a]), strings.Compare(a, b))
	})
	return names
}

func holderName(job string) string { return cmp.Or(job, "a program") }

// The number of sums that the page lists. The JSON lists all of them.
const (
	matrixRows    = 20
	matrixColumns = 10
	shownSums     = 60
)
