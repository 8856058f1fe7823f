package metrics

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast-dev/holdfast/jobs"
	"github.com/holdfast-dev/holdfast/locking"
)

// Options configure a Metrics.
type Options struct {
	// Names is the number of jobs, and of resources, with series of their own. All
	// others share the series "other".
	Names   int
	Version string // of the binary
}

// Metrics counts what one replica does. Its methods may be called concurrently.
type Metrics struct {
	book
	registered bool                 // at a program
	process    *prometheus.Registry // Go's and the process's, which a program has already
	jobs       *bounded[string, *jobSeries]
	resources  *bounded[locking.Resource, *resourceSeries]

	firings, attempts, runs, skips, retries, lost *prometheus.CounterVec
	startDelay, duration                          *prometheus.HistogramVec
	workerWait                                    prometheus.Observer

	lockWait, lockHold       *prometheus.HistogramVec
	grants, restored, taken  *prometheus.CounterVec
	starts                   *prometheus.CounterVec
	swept                    *prometheus.CounterVec
	reloadWorked             *prometheus.GaugeVec
	reloadedAt               *prometheus.GaugeVec
	storeTime, memcachedTime *prometheus.HistogramVec
	storeErrors              *prometheus.CounterVec
	memcachedErrors          *prometheus.CounterVec
}

// New returns a Metrics without counts.
func New(o Options) *Metrics {
	m := &Metrics{book: book{registry: prometheus.NewRegistry()},
		process: prometheus.NewRegistry()}
	m.process.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.describeFirings()
	m.describeLocks()
	m.describeCalls()
	m.jobs = newBounded(o.Names, func(name string) string { return name }, m.newJobSeries)
	m.resources = newBounded(o.Names, locking.Resource.String, m.newResourceSeries)
	m.buildInfo(o.Version)
	return m
}

func (m *Metrics) buildInfo(version string) {
	const name, help = "holdfast_build_info", "Always 1. The label is the version of the binary."
	m.note(Gauge, name, help, []string{"version"})
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help},
		[]string{"version"})
	m.registry.MustRegister(info)
	info.WithLabelValues(version).Set(1)
}

// Families returns every family of Holdfast's own, in the order of the document:
// beside those, there are Go's and the process's as Prometheus's client has them.
// It is complete once Watch was called.
func (m *Metrics) Families() []Family { return m.families }

// Gatherer returns all metrics, for programs that serve them themselves.
func (m *Metrics) Gatherer() prometheus.Gatherer {
	return prometheus.Gatherers{m.registry, m.process}
}

// Register adds Holdfast's own metrics to those of a program. It fails if another replica of the
// process has added its metrics there. Watch must have been called.
func (m *Metrics) Register(at prometheus.Registerer) error {
	if err := at.Register(m.registry); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	m.registered = true
	return nil
}

// Unregister removes what Register has added. It does nothing if Register failed, and when it is
// called again: the metrics at the registerer may be those of another replica.
func (m *Metrics) Unregister(at prometheus.Registerer) {
	if m.registered {
		m.registered = false
		at.Unregister(m.registry)
	}
}

// Handler serves scrapes, in the format and compression that the client asks for. It
// limits concurrent scrapes.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.Gatherer(), promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true, MaxRequestsInFlight: 4,
		Timeout: 5 * time.Second,
	})
}

// Expect starts the jobs' series at 0, as far as there is room. Prometheus does not
// see a series that first appears with 1 as grown.
func (m *Metrics) Expect(table []jobs.Job) {
	for _, j := range table {
		m.jobs.of(j.Name)
	}
}
