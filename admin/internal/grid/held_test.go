package grid

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/param"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// everyTenMinutes is the schedule of jobs that are paused since the given time.
func everyTenMinutes(since time.Time) Held {
	return Held{Since: since, Next: func(after time.Time) time.Time {
		return after.Truncate(10 * time.Minute).Add(10 * time.Minute)
	}}
}

// loadPaused returns the grid of a job that is paused and its runs, after their job is set.
func loadPaused(t *testing.T, held map[string]Held, runs ...storage.RunInterval) Grid {
	t.Helper()
	s := selectionOf([]storage.JobState{{Job: "load", Paused: true}, {Job: "other"}})
	s.HeldBack = func(_ context.Context,
		paused []storage.JobState) (map[string]Held, error) {
		if len(paused) != 1 || paused[0].Job != "load" {
			t.Errorf("asked for %v, want the paused job", paused)
		}
		return held, nil
	}
	g, _, _, err := Load(t.Context(), &runsOf{runs: runs}, noon, queryOf(t, "span=6h"), s)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// cellsOf describes cells by their times, the outcomes that they show and their titles without the
// job and the time.
func cellsOf(row JobRow) string {
	var parts []string
	for _, c := range row.Cells {
		_, title, _ := strings.Cut(c.Title(), ": ")
		parts = append(parts, c.From.Format("15:04")+" "+string(c.shown)+" ("+title+")")
	}
	return strings.Join(parts, ", ")
}

func TestGridShowsAnActivePause(t *testing.T) {
	at := func(hour, minute int) time.Time {
		return time.Date(2026, 3, 14, hour, minute, 0, 0, time.UTC)
	}
	// The job is paused since 11:15. Columns have 15 minutes, and it is 12:07.
	for name, c := range map[string]struct {
		held map[string]Held
		runs []storage.RunInterval
		want string
	}{
		"not known": {},
		"no runs": {held: map[string]Held{"load": everyTenMinutes(at(11, 15))},
			want: "11:15 paused (paused), 11:30 paused (paused), 11:45 paused (paused)"},
		"a scheduled time at the beginning of a column": {
			held: map[string]Held{"load": everyTenMinutes(at(11, 59))},
			want: "12:00 paused (paused)"},
		"a run of a time that counts": {
			held: map[string]Held{"load": everyTenMinutes(at(11, 45))},
			runs: []storage.RunInterval{ranAt(at(11, 50), jobs.Failed)},
			want: "11:45 failed (1 failed), 12:00 paused (paused)"},
		"a run before the pause": {
			held: map[string]Held{"load": everyTenMinutes(at(11, 15))},
			runs: []storage.RunInterval{ranAt(at(11, 0), jobs.Succeeded),
				ranAt(at(11, 15), jobs.Succeeded)},
			want: "11:00 succeeded (1 succeeded), 11:15 paused (1 succeeded, paused), " +
				"11:30 paused (paused), 11:45 paused (paused)"},
	} {
		if name == "no runs" || name == "a run before the pause" {
			c.want += ", 12:00 paused (paused)"
		}
		g := loadPaused(t, c.held, c.runs...)
		if got := cellsOf(g.Rows[0]); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		if g.Paused() != (c.held != nil) || len(g.Rows[1].Cells) > 0 {
			t.Errorf("%s: pauses are shown: %t", name, g.Paused())
		}
	}
	g := loadPaused(t, map[string]Held{"load": everyTenMinutes(at(11, 15))})
	cell := g.Rows[0].Cells[0]
	if cell.Path() != param.ExplainPath("load", at(11, 20)) || cell.State != "" ||
		cell.Text() != "" || !cell.Paused {
		t.Errorf("cell %+v leads to %s, want the explanation of 11:20", cell, cell.Path())
	}
	if got := g.Rows[0].Summary(); got != "paused" {
		t.Errorf("summary %s, want paused", got)
	}
}

// TestGridShowsEndedPauses checks runs that were missed because of a pause.
func TestGridShowsEndedPauses(t *testing.T) {
	at := time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)
	missed := func(minute int, reason jobs.Reason) storage.RunInterval {
		r := ranAt(at.Add(time.Duration(minute)*time.Minute), jobs.Missed)
		r.Reason = reason
		return r
	}
	late := ranAt(at.Add(40*time.Minute), jobs.Succeeded)
	late.Reason = reasons.Paused // the misfire policy started it after the pause
	g := loadPaused(t, nil, missed(0, reasons.Paused), missed(1, reasons.Paused),
		missed(15, reasons.Paused), missed(16, reasons.Misfire), missed(17, reasons.Misfire), late)
	row := g.Rows[0]
	const want = "10:00 paused (2 missed because of a pause), 10:15 missed (2 missed, 1 missed " +
		"because of a pause), 10:30 succeeded (1 succeeded)"
	if got := cellsOf(row); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	first := row.Cells[0]
	if first.State != jobs.Missed || first.Runs[jobs.Missed] != 2 || !first.Paused ||
		first.Text() != "" || row.Cells[1].Text() != "2" {
		t.Errorf("cell %+v with text %q, next %q; want two missed runs, and 2", first,
			first.Text(), row.Cells[1].Text())
	}
	if got, want := row.Summary(), "1 of 3"; got != want {
		t.Errorf("summary %s, want %s", got, want)
	}
}

// TestFamiliesShowPauses adds up a paused job and others.
func TestFamiliesShowPauses(t *testing.T) {
	all := withFamily(3)
	for i := range all {
		all[i].Paused = all[i].Job == "shard.001"
	}
	s := familySelection(all)
	at := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	s.HeldBack = func(context.Context, []storage.JobState) (map[string]Held, error) {
		return map[string]Held{"shard.001": everyTenMinutes(at.Add(-time.Minute))}, nil
	}
	run := ranAt(at, jobs.Succeeded)
	run.Job = "shard.002"
	for _, c := range []struct {
		runs []storage.RunInterval
		path string
	}{{nil, param.ExplainPath("shard.001", at)}, {[]storage.RunInterval{run},
		param.RunPath(run.Run)}} {
		g, _, _, err := Load(t.Context(), &runsOf{runs: c.runs}, noon, queryOf(t, "span=6h"), s)
		if err != nil {
			t.Fatal(err)
		}
		cell := g.Families[0].Cells[0]
		if len(g.Families[0].Cells) != 1 || cell.shown != paused || cell.Path() != c.path ||
			!strings.HasSuffix(cell.Title(), "; paused: shard.001") {
			t.Errorf("cell %s to %s, want paused: shard.001 to %s", cell.Title(), cell.Path(),
				c.path)
		}
	}
}
