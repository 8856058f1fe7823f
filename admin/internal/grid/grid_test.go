package grid

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
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
	g := &Grid{span: q.span, each: RunsOfEach}
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
		"span=30d": "2026-02-13T00:00:00Z 2026-03-15T00:00:00Z 30 columns",
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
	row := newJobRow(storage.JobState{}, []storage.RunInterval{
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

// counter is a store whose runs are counted: one skipped run in each part, one run more that has
// succeeded, and one that is running.
type counter struct {
	storage.History
	parts []storage.JobPart
	most  int
}

func (c *counter) CountRuns(_ context.Context, parts []storage.JobPart,
	most int) ([]storage.JobPartCount, error) {
	c.parts, c.most = parts, most
	counts := make([]storage.JobPartCount, len(parts))
	for i := range counts {
		counts[i].Runs = 2
		counts[i].Add(jobs.Skipped, 1, parts[i].From)
	}
	counts[1].Runs, counts[2] = 3, storage.JobPartCount{Runs: 1}
	return counts, nil
}

func (c *counter) Runs(context.Context, storage.RunFilter) ([]storage.Record, error) {
	at := c.parts[1].From
	return []storage.Record{
		{Job: "other", State: jobs.Running, CreatedAt: at},
		{Job: "load", State: jobs.Running, CreatedAt: at},
		{Job: "load", State: jobs.Waiting, CreatedAt: c.parts[2].Until},
	}, nil
}

// TestOlderColumnsAreCounted checks a job with more runs than a page reads.
func TestOlderColumnsAreCounted(t *testing.T) {
	g := gridAt(t, "span=6h")
	var runs []storage.RunInterval
	for i := range RunsOfEach { // a run a minute until 12:05
		runs = append(runs, ranAt(noon.Truncate(time.Minute).Add(
			-time.Duration(i+2)*time.Minute), jobs.Succeeded))
	}
	oldest := runs[len(runs)-1].ScheduledAt // 10:29
	load := storage.JobState{Job: "load"}
	row := newJobRow(load, runs, g)
	if want := time.Date(2026, 3, 14, 10, 30, 0, 0, time.UTC); !row.KnownFrom.Equal(want) {
		t.Fatalf("runs are read since %s, known from %s, want %s", oldest, row.KnownFrom, want)
	}
	g.Rows = []JobRow{newJobRow(storage.JobState{}, nil, g), row}
	store := &counter{}
	if err := g.count(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	const older = 17 // columns from 06:15 to 10:30
	if len(store.parts) != older || store.most != maxCounted/older || !g.Counted() ||
		!store.parts[older-1].Until.Equal(row.KnownFrom) || len(g.Rows[0].Cells) != 0 {
		t.Fatalf("counts %d parts with at most %d runs, want %d", len(store.parts), store.most,
			older)
	}
	row = g.Rows[1]
	for i, want := range []string{"map[skipped:1 succeeded:1] skipped",
		"map[running:1 skipped:1 succeeded:1] skipped", "map[succeeded:1] succeeded",
		"map[skipped:1 waiting:1] skipped", "map[skipped:1 succeeded:1] skipped"} {
		if got := fmt.Sprint(row.Cells[i].Runs, " ", row.Cells[i].State); got != want {
			t.Errorf("cell %d has %s, want %s", i, got, want)
		}
	}
	const path = "/runs?from=2026-03-14T06%3A45%3A00Z&job=load&until=2026-03-14T07%3A00%3A00Z"
	if got := row.Cells[2].Path(); got != path {
		t.Errorf("a counted cell leads to %s, want %s", got, path)
	}
	if got := row.Slots()[older]; got.Cell == nil || got.Cell.counted {
		t.Errorf("slot of 10:30: %+v, want the read runs", got)
	}
	if got, want := row.Summary(), "112 of 128"; got != want {
		t.Errorf("summary %s, want %s", got, want)
	}
	row.Cells[0].More = true
	if got := row.Summary(); got != "–" || !strings.HasSuffix(row.Cells[0].Title(), ", and more") {
		t.Errorf("summary %s and title %s of a cell with more runs", got, row.Cells[0].Title())
	}
	row = newJobRow(load, runs[:RunsOfEach-1], g)
	if g.Rows = []JobRow{row}; g.Counted() || g.count(t.Context(), nil) != nil {
		t.Errorf("all %d runs are read, known from %s", RunsOfEach-1, row.KnownFrom)
	}
}

func TestRowsWithoutEndedRunsHaveTheStateOfTheJob(t *testing.T) {
	g := gridAt(t, "span=6h")
	waiting, running := ranAt(noon, jobs.Waiting), ranAt(noon, jobs.Running)
	for want, c := range map[string]struct {
		paused bool
		runs   []storage.RunInterval
	}{
		"–": {}, "paused": {paused: true}, "waiting": {true, []storage.RunInterval{waiting}},
		"running": {true, []storage.RunInterval{waiting, running}},
		"1 of 1":  {true, []storage.RunInterval{ranAt(noon, jobs.Succeeded)}},
	} {
		row := newJobRow(storage.JobState{Job: "load", Paused: c.paused}, c.runs, g)
		if got := row.Summary(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestGridCountsAtMost divides the runs that a page counts among its cells.
func TestGridCountsAtMost(t *testing.T) {
	g := gridAt(t, "span=30d")
	for range MaxJobs {
		row := newJobRow(storage.JobState{Job: "load"}, nil, g)
		row.KnownFrom = g.Until
		g.Rows = append(g.Rows, row)
	}
	store := &counter{}
	if err := g.count(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if n := len(store.parts) * store.most; n > maxCounted || n < maxCounted/2 {
		t.Errorf("%d parts of at most %d runs are %d, want at most %d", len(store.parts),
			store.most, n, maxCounted)
	}
}

// TestGridReadsAtMost2500Runs checks the bound of the queries of pages: decision 80.
func TestGridReadsAtMost2500Runs(t *testing.T) {
	for jobs := range MaxJobs + 1 {
		each := runsOfEach(jobs)
		if most := jobs * (each + storage.RunIntervalsBefore); most > 2500 || each < 47 {
			t.Errorf("a page of %d jobs reads %d runs, %d of each, want at most 2500 in all", jobs,
				most, each)
		}
	}
}

// A row without runs is an empty list in JSON, also after its older columns were counted.
func TestRowWithoutRunsIsAnEmptyList(t *testing.T) {
	row := JobRow{Job: "rollup-sales", Cells: []*Cell{}}
	row.addCounts([]storage.JobPart{{Job: row.Job}}, make([]storage.JobPartCount, 1), nil)
	text, err := json.Marshal(row)
	if err != nil || !strings.Contains(string(text), `"cells":[]`) {
		t.Errorf("%s, %v; want an empty list of cells", text, err)
	}
}
