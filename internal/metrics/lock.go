package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/locking"
)

func (m *Metrics) describeLocks() {
	m.lockWait = m.histogram(waits, "holdfast_lock_wait_seconds",
		"Time from the first try of an attempt until it got all its locks, observed for each "+
			"resource. A skipped firing is observed for the resource that blocked it.", "resource")
	m.lockHold = m.histogram(works, "holdfast_lock_hold_seconds",
		"Time that attempts held a resource, from the grant to the release.", "resource")
	m.grants = m.counter("holdfast_grants_total",
		"Resources that the store granted to attempts of this replica.", "resource", "mode")
	m.restored = m.counter("holdfast_advisory_locks_restored_total",
		"Advisory locks that disappeared from memcached during a run and were added again.",
		"resource")
	m.taken = m.counter("holdfast_advisory_locks_taken_over_total",
		"Advisory locks that another owner had during a run. The run continued with its grants.",
		"resource")
}

// resourceSeries has the series of one resource, or of all others.
type resourceSeries struct {
	wait, hold      prometheus.Observer
	granted         map[locking.Mode]prometheus.Counter
	restored, taken prometheus.Counter
}

func (m *Metrics) newResourceSeries(label string) *resourceSeries {
	s := &resourceSeries{
		wait: m.lockWait.WithLabelValues(label), hold: m.lockHold.WithLabelValues(label),
		granted:  map[locking.Mode]prometheus.Counter{},
		restored: m.restored.WithLabelValues(label), taken: m.taken.WithLabelValues(label),
	}
	for _, mode := range []locking.Mode{locking.Exclusive, locking.Shared, locking.Slotted} {
		s.granted[mode] = m.grants.WithLabelValues(label, string(mode))
	}
	return s
}

// Lock is a locking.Options.OnEvent.
func (m *Metrics) Lock(e locking.Event) {
	switch e.Kind {
	case locking.EventRestored:
		m.resources.of(e.Resource).restored.Inc()
	case locking.EventTaken:
		m.resources.of(e.Resource).taken.Inc()
	}
}
