package admin

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/grid"
	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/reasons"
	"github.com/holdfast-dev/holdfast/jobs/schedule"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// pausedGrid is a cluster in which report is paused for an hour. An earlier pause of load has
// ended. Both have a schedule in the cron table of the replica, which has the active definitions.
func pausedGrid() Options {
	o := pausedHourly()
	h := o.Store.(*history)
	table := make([]jobs.Job, 0, 2)
	for name, text := range map[string]string{"load": "0 * * * *", "report": "5 * * * *"} {
		s, err := schedule.ParseText(text, time.UTC)
		if err != nil {
			panic(err)
		}
		table = append(table, jobs.Job{Name: name, Handler: "work", Schedule: s})
	}
	for i, before := range []time.Duration{192 * time.Minute, 132 * time.Minute} {
		r := done(40+i, "load", "", before, 0, jobs.Missed)
		r.ScheduledAt = r.ScheduledAt.Truncate(time.Hour)
		r.Reason, r.StartedAt = reasons.Paused, nil
		h.runs = append(h.runs, r)
	}
	return withTable(o, table)
}

// TestGridShowsPauses checks which active pauses are drawn: those of which the scheduled times are
// known.
func TestGridShowsPauses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *Options, report *storage.JobView)
		shown  bool
	}{
		"paused":                {func(*Options, *storage.JobView) {}, true},
		"no cron table":         {func(o *Options, _ *storage.JobView) { o.Table = nil }, false},
		"not in the cron table": {func(o *Options, _ *storage.JobView) { o.Table = explain.TableOf(nil) }, false},
		"another definition":    {func(_ *Options, v *storage.JobView) { v.Hash = "x" }, false},
		"removed":               {func(_ *Options, v *storage.JobView) { v.Removed = true }, false},
		"changed since":         {func(_ *Options, v *storage.JobView) { v.UpdatedAt = ago(time.Minute) }, false},
		"changed before":        {func(_ *Options, v *storage.JobView) { v.UpdatedAt = ago(time.Hour / 2) }, true},
	} {
		o := pausedGrid()
		h := o.Store.(*history)
		for i := range h.jobs {
			if h.jobs[i].Name == "report" {
				c.change(&o, &h.jobs[i])
			}
		}
		var g grid.Grid
		reply := get(t, newServer(t, o).Handler(), "/api/v1/grid?span=6h")
		if err := json.Unmarshal(reply.Body.Bytes(), &g); err != nil {
			t.Fatal(err)
		}
		for _, row := range g.Rows {
			switch shown := len(row.Cells) == 1 && row.Cells[0].Paused &&
				row.Cells[0].From.Format("15:04") == "03:00"; {
			case row.Job == "report" && (shown != c.shown || !shown && len(row.Cells) > 0):
				t.Errorf("%s: cells %+v, want a pause: %t", name, row.Cells, c.shown)
			case row.Job == "load" && (len(row.Cells) != 2 || !row.Cells[0].Paused ||
				row.Cells[0].Runs[jobs.Missed] != 1):
				t.Errorf("%s: cells %+v of load, want two of the earlier pause", name, row.Cells)
			}
		}
	}
	body := flat(get(t, newServer(t, pausedGrid()).Handler(), "/grid?span=6h").Body.String())
	for _, want := range []string{
		`<a class="cell paused" href="/jobs/report/explain?at=2026-03-14T03%3A05%3A00Z"`,
		`aria-label="report, 2026-03-14 03:00:00 UTC, 15 min: paused"`,
		`15 min: 1 missed because of a pause"`, "A dotted cell", `</span>paused</li>`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %s", want)
		}
	}
}
