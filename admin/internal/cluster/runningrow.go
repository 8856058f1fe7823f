package cluster

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// RunningRow is a running run with its locks and the usual duration of its job.
type RunningRow struct {
	storage.Record
	Locks []locks.Lock
	took  time.Duration
	usual storage.Typical
}

// RunningShown returns the oldest running runs, which the page lists.
func (o *Overview) RunningShown() []RunningRow {
	rows := make([]RunningRow, 0, shownRunning)
	for _, run := range o.Running[:min(len(o.Running), shownRunning)] {
		rows = append(rows, RunningRow{run, o.holders.OfRun(run.ID.String()),
			max(0, o.Now.Sub(records.Since(run))), o.usual[run.Job]})
	}
	return rows
}

// RunningBriefly returns the oldest of the running runs, for narrow windows.
func (o *Overview) RunningBriefly() []RunningRow {
	rows := o.RunningShown()
	return rows[:min(len(rows), 4)]
}

// Usual compares the run with the last runs of its job.
func (r RunningRow) Usual() string { return locks.CompareWithUsual(r.took, r.usual) }

// Over reports whether the run takes longer than 95% of the last runs of its job.
func (r RunningRow) Over() bool { return r.usual.Runs >= usualRuns && r.took > r.usual.Long }

// Elapsed and Median return the elapsed time and the median of the last runs, in percent of the
// time that 95% of the last runs took at most, or of the elapsed time if it is longer.
func (r RunningRow) Elapsed() string { return r.share(r.took) }

// Median is described at Elapsed.
func (r RunningRow) Median() string { return r.share(r.usual.Median) }

func (r RunningRow) share(d time.Duration) string {
	full := max(r.usual.Long, r.took, time.Millisecond)
	return fmt.Sprintf("%.1f%%", 100*d.Seconds()/full.Seconds())
}
