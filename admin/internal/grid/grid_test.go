package grid

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

var noon = time.Date(2026, 3, 14, 12, 7, 30, 0, time.UTC)

// queryOf returns the query of parameters that are valid.
func queryOf(t *testing.T, text string) Query {
	t.Helper()
	values, err := url.ParseQuery(text)
	if err != nil {
		t.Fatal(err)
	}
	q, err := ReadQuery(param.Set{Values: values})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func gridAt(t *testing.T, query string) *Grid {
	t.Helper()
	q := queryOf(t, query)
	g := &Grid{span: q.span}
	g.From, g.Until = q.at(noon)
	return g
}

func ranAt(scheduledAt time.Time, state jobs.State) storage.RunInterval {
	return storage.RunInterval{Run: uuid.New(), Job: "load", ScheduledAt: scheduledAt,
		CreatedAt: scheduledAt.Add(time.Second), State: state}
}

func TestGridBeginsAndEndsWithAColumn(t *testing.T) {
	for query, want := range map[string]string{
		"span=6h":  "2026-03-14T06:15:00Z 2026-03-14T12:15:00Z 24 columns",
		"span=24h": "2026-03-13T12:30:00Z 2026-03-14T12:30:00Z 48 columns",
		"span=7d":  "2026-03-07T16:00:00Z 2026-03-14T16:00:00Z 42 columns",
		"span=6h&until=2026-03-14T06:00:00Z": "2026-03-14T00:00:00Z 2026-03-14T06:00:00Z " +
			"24 columns",
	} {
		g := gridAt(t, query)
		if got := fmt.Sprintf("%s %s %d columns", g.From.Format(time.RFC3339),
			g.Until.Format(time.RFC3339), len(g.columns())); got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
		columns := 0
		for _, h := range g.Headings() {
			columns += h.Columns
		}
		if columns != len(g.columns()) {
			t.Errorf("%s: the headings have %d columns, want %d", query, columns, len(g.columns()))
		}
	}
}

func TestCellHasTheWorstOutcome(t *testing.T) {
	g := gridAt(t, "span=6h")
	at := time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)
	first := ranAt(at, jobs.Succeeded)
	last := ranAt(at.Add(14*time.Minute), jobs.Failed)
	row := newJobRow(storage.JobView{}, []storage.RunInterval{
		ranAt(at.Add(15*time.Minute), jobs.Succeeded), last,
		ranAt(at.Add(5*time.Minute), jobs.Failed), ranAt(at.Add(4*time.Minute), jobs.Skipped),
		first,
		ranAt(g.From.Add(-time.Minute), jobs.Lost), // before the grid
	}, g)
	if len(row.Cells) != 2 || row.Summary() != "2 of 5" || !row.KnownFrom.Equal(g.From) {
		t.Fatalf("%d cells, %s, known from %s; want 2, 2 of 5, %s", len(row.Cells), row.Summary(),
			row.KnownFrom, g.From)
	}
	cell := row.Cells[0]
	if !cell.From.Equal(at) || cell.State != jobs.Failed || cell.Text() != "2" {
		t.Errorf("cell of %s: %s %q, want two failures at %s", cell.From, cell.State, cell.Text(),
			at)
	}
	const path = "/runs?from=2026-03-14T10%3A00%3A01Z&job=&until=2026-03-14T10%3A14%3A01.000001Z"
	if cell.Path() != path {
		t.Errorf("path %s, want %s", cell.Path(), path)
	}
	if got, want := row.Cells[1].Path(), "/runs/"; got[:6] != want {
		t.Errorf("path of a single run: %s, want that of the run", got)
	}
	slots := row.Slots()
	const tenOClock = 15 // columns of 15 min after 06:15
	if len(slots) != 24 || slots[tenOClock].Cell != cell || !slots[tenOClock].Heads ||
		slots[tenOClock+1].Heads {
		t.Errorf("slot of 10:00: %+v, want the cell below a heading", slots[tenOClock])
	}
}

// TestColumnsWithUnreadRunsAreUnknown checks a job with more runs than a page reads.
func TestColumnsWithUnreadRunsAreUnknown(t *testing.T) {
	g := gridAt(t, "span=6h")
	var runs []storage.RunInterval
	for i := range RunsOfEach { // a run a minute until 12:05
		runs = append(runs, ranAt(noon.Truncate(time.Minute).Add(
			-time.Duration(i+2)*time.Minute), jobs.Succeeded))
	}
	oldest := runs[len(runs)-1].ScheduledAt // 08:49
	row := newJobRow(storage.JobView{}, runs, g)
	if want := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC); !row.KnownFrom.Equal(want) {
		t.Fatalf("runs are read since %s, known from %s, want %s", oldest, row.KnownFrom, want)
	}
	g.Rows = []JobRow{row}
	slots := row.Slots()
	if !slots[10].Unknown || slots[10].Cell != nil || slots[11].Unknown ||
		slots[11].Cell == nil || !g.Incomplete() {
		t.Errorf("slots of 08:45 and 09:00: %+v, %+v; want the first unknown", slots[10], slots[11])
	}
	row = newJobRow(storage.JobView{}, runs[:RunsOfEach-1], g)
	if g.Rows = []JobRow{row}; g.Incomplete() {
		t.Errorf("all %d runs are read, known from %s", RunsOfEach-1, row.KnownFrom)
	}
}

// TestGridReadsAtMost5000Runs checks the bound of the queries of pages: decision 80.
func TestGridReadsAtMost5000Runs(t *testing.T) {
	if most := Jobs * (RunsOfEach + storage.RunIntervalsBefore); most > 5000 {
		t.Errorf("a page reads %d runs, want at most 5000", most)
	}
}
