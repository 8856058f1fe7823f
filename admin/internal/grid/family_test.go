package grid

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// withFamily returns jobs of which n are those of a for_each, named shard.000 and so on.
func withFamily(n int) (all []storage.JobState) {
	for _, name := range []string{"alone", "zones"} {
		all = append(all, storage.JobState{Job: name, Schedule: "@hourly"})
	}
	for i := range n {
		all = append(all, storage.JobState{Job: fmt.Sprintf("shard.%03d", i), Schedule: "@daily"})
	}
	slices.SortFunc(all, func(a, b storage.JobState) int { return strings.Compare(a.Job, b.Job) })
	return all
}

func familySelection(all []storage.JobState) Selection {
	s := selectionOf(all)
	s.Families = FamiliesOf(s.Selected)
	return s
}

// rowsOf describes sections: the name of a job, or the name of a family with the numbers of its
// first job and of its jobs.
func rowsOf(sections []section) string {
	var rows []string
	for _, s := range sections {
		if s.kin == nil {
			rows = append(rows, s.jobs[0].Job)
			continue
		}
		first := strings.TrimPrefix(s.jobs[0].Job, "shard.")
		rows = append(rows, fmt.Sprintf("%s(%s,%d of %d)", s.kin.Name, first, len(s.jobs),
			s.kin.Jobs))
	}
	return strings.Join(rows, " ")
}

// TestFamiliesAreOneRow checks which jobs fold, in both directions of the pages.
func TestFamiliesAreOneRow(t *testing.T) {
	for n, want := range map[int][]string{
		2:  {"alone shard.000 shard.001 zones"},
		12: {"alone shard.*(000,12 of 12) zones"},
		50: {"alone", "shard.*(000,50 of 50)", "zones"},
		115: {"alone", "shard.*(000,50 of 115)", "shard.*(050,50 of 115)",
			"shard.*(100,15 of 115) zones"},
	} {
		s := familySelection(withFamily(n))
		var got []string
		for {
			list, next, previous := s.page()
			got = append(got, rowsOf(list))
			if jobs := len(jobsOf(list)); jobs > MaxJobs || previous != (s.After != "") {
				t.Errorf("%d jobs on a page of a family of %d, page before: %t", jobs, n, previous)
			}
			if !next {
				break
			}
			last := list[len(list)-1].jobs
			s.After = last[len(last)-1].Job
		}
		if !slices.Equal(got, want) {
			t.Errorf("family of %d: got pages %q, want %q", n, got, want)
		}
		if n != 115 {
			continue
		}
		s.After, s.Before = "", "shard.100"
		if list, next, previous := s.page(); rowsOf(list) != want[2] || !next || !previous {
			t.Errorf("before shard.100: got %s, want %s", rowsOf(list), want[2])
		}
	}
}

// TestFilteredFamilies checks families of which a filter leaves out jobs.
func TestFilteredFamilies(t *testing.T) {
	s := familySelection(withFamily(5))
	s.keep(map[string]bool{"shard.001": true, "shard.002": true, "shard.004": true, "zones": true})
	if list, _, _ := s.page(); rowsOf(list) != "shard.*(001,3 of 5) zones" {
		t.Errorf("three of five: got %s", rowsOf(list))
	}
	s.keep(map[string]bool{"shard.001": true, "shard.002": true})
	if list, _, _ := s.page(); rowsOf(list) != "shard.001 shard.002" {
		t.Errorf("two of five: got %s, want single jobs", rowsOf(list))
	}
}

// runsOf is a store with runs.
type runsOf struct {
	storage.History
	runs  []storage.RunInterval
	asked storage.RunIntervalFilter
}

func (r *runsOf) RunIntervals(_ context.Context,
	f storage.RunIntervalFilter) ([]storage.RunInterval, error) {
	r.asked = f
	return r.runs, nil
}

// TestFamilyHasTheWorstOutcome adds up the cells of a family.
func TestFamilyHasTheWorstOutcome(t *testing.T) {
	at := time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)
	store := &runsOf{}
	for i := range 12 {
		run := ranAt(at.Add(time.Duration(i)*time.Second), jobs.Succeeded)
		if run.Job = fmt.Sprintf("shard.%03d", i); i > 6 {
			run.State = jobs.Failed
		}
		store.runs = append(store.runs, run)
	}
	one := ranAt(at.Add(time.Hour), jobs.Succeeded)
	one.Job = "shard.003"
	store.runs = append(store.runs, one)
	s := familySelection(withFamily(12))
	g, _, _, err := Load(t.Context(), store, noon, queryOf(t, "span=6h"), s)
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Rows) != 14 || len(g.Families) != 1 || store.asked.Each != RunsOfEach ||
		len(store.asked.Jobs) != 14 || g.Rows[3].Family != "shard.*" || g.Rows[0].Family != "" {
		t.Fatalf("%d jobs, %d families, read %d runs of each job", len(g.Rows), len(g.Families),
			store.asked.Each)
	}
	f := g.Families[0]
	if len(f.Cells) != 2 || f.row.Summary() != "8 of 13" || f.Count() != "12 jobs" {
		t.Fatalf("%d cells, %s, %s; want 2, 8 of 13, 12 jobs", len(f.Cells), f.row.Summary(),
			f.Count())
	}
	cell := f.Cells[0]
	const title = "shard.*, 2026-03-14 10:00:00 UTC, 15 min: 7 succeeded, 5 failed; failed: " +
		"shard.007, shard.008, shard.009, 2 other jobs"
	if cell.State != jobs.Failed || cell.Text() != "5" || cell.Title() != title {
		t.Errorf("cell %s %q: %s; want 5 failures: %s", cell.State, cell.Text(), cell.Title(),
			title)
	}
	const path = "/runs?from=2026-03-14T10%3A00%3A01Z&job=shard.%2A&until=2026-03-14T10%3A00%3A12" +
		".000001Z"
	if cell.Path() != path {
		t.Errorf("the cell leads to %s, want %s", cell.Path(), path)
	}
	if got, want := f.Cells[1].Path(), param.RunPath(one.Run); got != want {
		t.Errorf("a cell with one run leads to %s, want %s", got, want)
	}
	if title := f.Cells[1].Title(); strings.Contains(title, ";") {
		t.Errorf("the title of a cell without failures names jobs: %s", title)
	}
}

// TestFamiliesUnfold checks the rows of a page whose family is unfolded.
func TestFamiliesUnfold(t *testing.T) {
	s := familySelection(withFamily(3))
	for open, want := range map[string]string{
		"":          "alone shard.*(3 jobs) zones",
		"shard.001": "alone shard.*(3 jobs)! >shard.000 >shard.001 >shard.002 zones",
		"zones":     "alone shard.*(3 jobs) zones",
	} {
		s.Open = open
		q := queryOf(t, "span=6h")
		g, _, _, err := Load(t.Context(), &runsOf{}, noon, q, s)
		if err != nil {
			t.Fatal(err)
		}
		g.Link(param.Set{}, "/grid", q, noon)
		var rows []string
		for _, row := range g.AllRows() {
			text := row.Job
			if row.Family != nil {
				text += "(" + row.Family.Count() + ")"
				path := map[bool]string{false: "/grid?open=shard.000", true: "/grid"}[row.Open]
				if row.Toggle != path {
					t.Errorf("open %q: the row leads to %s, want %s", open, row.Toggle, path)
				}
			}
			if row.Open {
				text += "!"
			}
			if row.Member {
				text = ">" + text
			}
			rows = append(rows, text)
		}
		if got := strings.Join(rows, " "); got != want {
			t.Errorf("open %q: got %s, want %s", open, got, want)
		}
	}
}
