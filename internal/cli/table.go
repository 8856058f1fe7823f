package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/internal/runes"
)

// The marks before the names of columns.
const (
	onlyWide = "~" // the column is only in wide tables
	cuttable = "…" // the cells are cut on a terminal that is too narrow
)

const (
	columnGap     = 2
	leastCutWidth = 12 // of a column that is cut
)

// textTable is a table for people.
type textTable struct {
	lines [][]string // the first one has the names of the columns
	cuts  []int      // the columns that may be cut
}

// newTextTable returns a table with the names in header, which are separated by tabs. A wide table
// has all columns, and none may be cut.
func newTextTable(header string, rows [][]string, wide bool) *textTable {
	names := strings.Split(header, "\t")
	shown := func(i int) bool {
		return i >= len(names) || wide || !strings.HasPrefix(names[i], onlyWide)
	}
	t := &textTable{}
	add := func(cells []string, show func(string) string) {
		var line []string
		for i, cell := range cells {
			if shown(i) {
				line = append(line, show(cell))
			}
		}
		t.lines = append(t.lines, line)
	}
	column := 0
	for i, name := range names {
		if !wide && strings.HasPrefix(name, cuttable) {
			t.cuts = append(t.cuts, column)
		}
		if shown(i) {
			column++
		}
	}
	add(names, func(name string) string { return strings.TrimLeft(name, onlyWide+cuttable) })
	for _, row := range rows {
		add(row, printable)
	}
	return t
}

// fit cuts columns so that lines have at most width characters, the last column first. A width of 0
// has no limit. The table may remain wider, because other columns are not cut.
func (t *textTable) fit(width int) {
	if width == 0 {
		return
	}
	for i := len(t.cuts) - 1; i >= 0; i-- {
		widths := t.widths()
		total := columnGap * (len(widths) - 1)
		for _, w := range widths {
			total += w
		}
		if total <= width {
			return
		}
		t.cut(t.cuts[i], max(widths[t.cuts[i]]-(total-width), leastCutWidth))
	}
}

// widths returns the number of characters of the longest cell in each column.
func (t *textTable) widths() (widths []int) {
	for _, line := range t.lines {
		for i, cell := range line {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// cut cuts the cells of a column to a number of characters, and marks cut cells with an ellipsis.
func (t *textTable) cut(column, width int) {
	for _, line := range t.lines {
		if column < len(line) {
			line[column] = ellipsis(line[column], width)
		}
	}
}

// ellipsis returns the first characters of a longer text, with an ellipsis.
func ellipsis(text string, width int) string {
	if all := []rune(text); len(all) > width {
		return strings.TrimRight(string(all[:width-1]), " ") + "…"
	}
	return text
}

// write writes the table.
func (t *textTable) write(out io.Writer) error {
	aligned := tabwriter.NewWriter(out, 0, 0, columnGap, ' ', 0)
	for _, line := range t.lines {
		fmt.Fprintln(aligned, strings.Join(line, "\t"))
	}
	return aligned.Flush()
}

// printable replaces control characters, so that a cell stays on its line and cannot send escape
// sequences to the terminal.
func printable(cell string) string {
	return strings.Map(func(r rune) rune {
		if runes.IsControl(r) {
			return ' '
		}
		return r
	}, cell)
}
