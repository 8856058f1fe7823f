package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/locking"
)

func (m *Metrics) describeLocks() {
	m.lockWait = m.histogram(waits, "holdfast_lock_wait_seconds",
		"How long attempts waited for all their locks from the first try on, for each resource that they were granted, or that they were skipped for.", "resource")
	m.lockHold = m.histogram(works, "holdfast_lock_hold_seconds", "How long attempts held a resource, from the grant until it was given back.", "resource")
	m.grants = m.counter("holdfast_grants_total", "Grants that the store gave to attempts of this replica.", "resource", "mode")
	m.restored = m.counter("holdfast_lock_entries_restored_total", "Entries of stage 1 that had vanished while their run went on, and were added again.", "resource")
	m.taken = m.counter("holdfast_lock_entries_taken_total", "Entries of stage 1 that were found to be another's while the run went on by its grants.", "resource")
}

// resourceSeries is what is counted of one resource, or of all others.
type resourceSeries struct {
	wait, hold      prometheus.Observer
	granted         map[locking.Mode]prometheus.Counter
	restored, taken prometheus.Counter
}

func (m *Metrics) newResourceSeries(label string) *resourceSeries {
	s := &resourceSeries{
		wait: m.lockWait.WithLabelValues(label), hold: m.lockHold.WithLabelValues(label), granted: map[locking.Mode]prometheus.Counter{},
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
