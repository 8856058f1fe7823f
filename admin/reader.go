package admin

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/admin/internal/cluster"
	"github.com/holdfast-dev/holdfast/admin/internal/locks"
	"github.com/holdfast-dev/holdfast/admin/internal/records"
	"github.com/holdfast-dev/holdfast/jobs/explain"
	"github.com/holdfast-dev/holdfast/jobs/operations"
	"github.com/holdfast-dev/holdfast/jobs/storage"
)

// reader queries the store and memcached for requests.
type reader struct {
	*cluster.Reader
	lock           *locks.Reader
	ops            *operations.Operations // may be nil
	scheduledTimes func(job string, from time.Time, n int) []time.Time
	progress       storage.JobProgress
	table          explain.Table // may be nil
	suggester      *suggester
	dependencies   *records.Cached[dependencies]
	lists          *jobLister
	counter        *runCounter
	days           *dayCounter
	schedules      scheduleWords
	rules          Rules
	explain        func(ctx context.Context, job, at string) (explain.Explanation, error)
}

func newReader(o Options) *reader {
	explainer := o.Explain
	if explainer == nil {
		explainer = explain.New(explain.Options{Store: o.Store,
			Table: explain.TableOf(nil)}).Explain
	}
	sources := locks.Sources{Advisory: o.Advisory, Restarts: o.Restarts,
		ScheduledTimes: o.ScheduledTimes, LongestWait: o.LongestWait, Next: nextFirings(o)}
	if o.Operations != nil {
		sources.Pauses = o.Operations.ActivePauses
	}
	runs := records.Reader{Store: o.Store, WaitEnd: o.WaitEnd}
	lock := locks.NewReader(runs, sources)
	of := cluster.NewReader(runs, lock, o.Operations, o.Upcoming)
	r := &reader{
		Reader: of, lock: lock, ops: o.Operations, suggester: newSuggester(of, lock),
		scheduledTimes: o.ScheduledTimes, progress: o.Progress, table: o.Table,
		dependencies: records.NewCached(records.CacheLifetime, readDependencies(o.Table)),
		rules:        o.Rules,
		explain:      explainer,
	}
	r.lists = newJobLister(r)
	r.counter = newRunCounter(r)
	r.days = newDayCounter(r)
	return r
}

// nextFirings returns the next firings of the options for the pages about locks, or nil if they
// have none.
func nextFirings(o Options) func(from time.Time, n int) []locks.NextFiring {
	if o.Upcoming == nil {
		return nil
	}
	return func(from time.Time, n int) []locks.NextFiring {
		firings := o.Upcoming(from, n)
		next := make([]locks.NextFiring, len(firings))
		for i, f := range firings {
			next[i] = locks.NextFiring{Job: f.Job, ScheduledAt: f.ScheduledAt,
				Resources: f.Resources}
		}
		return next
	}
}
