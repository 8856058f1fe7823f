package app

import (
	"github.com/holdfast-dev/holdfast/internal/metrics"
	"github.com/holdfast-dev/holdfast/jobs"
)

// timedLocks is stage 1, timed where it is memcached: what is in memory takes no
// time worth telling.
func (r *Replica) timedLocks() *LockBackend {
	if r.locks == nil || r.locks.watch == nil {
		return r.locks
	}
	timed := *r.locks
	timed.Backend = r.metrics.Backend(r.locks.Backend)
	return &timed
}

// observe has a scheduler's options tell metrics and traces what happens.
func (r *Replica) observe(o *jobs.Options) {
	r.metrics.Expect(r.table)
	o.Store, o.RunStore, o.Observer = r.timed, r.store.Store, r.metrics.Observe
	if r.tracing != nil { // a nil *tracing.Tracing would not be a nil jobs.Tracing
		o.Tracing = r.tracing
	}
}

// watch has the metrics ask what is a state rather than an event.
func (r *Replica) watch() {
	sources := metrics.Sources{Stats: r.scheduler.Stats}
	if r.locks != nil && r.locks.watch != nil {
		sources.Servers = r.locks.watch.Servers
	}
	if r.tracing != nil {
		sources.Spans = r.tracing.Spans
	}
	r.metrics.Watch(sources)
}
